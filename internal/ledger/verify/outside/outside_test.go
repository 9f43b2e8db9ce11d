package outside_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/verify/outside"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestTheStreamsAreReadToTheirEndAndNoFurther(t *testing.T) {
	js := testkit.BareNATS(t).JetStream()
	ctx := context.Background()
	for name, subject := range map[string]string{streams.Checkpoints: streams.CheckpointsSubject,
		streams.Ledger: streams.LedgerSubject("attempt", "t")} {
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	l := &outside.Ledger{JS: js}
	if x, err := l.Extent(ctx); err != nil || x.Last != 0 || x.Epoch == 0 {
		t.Errorf("empty: %+v, %v", x, err)
	}
	if err := l.Read(ctx, 0, func(uint64, []byte) error { return fmt.Errorf("a message") }); err != nil {
		t.Errorf("empty: %v", err)
	}
	for i := range 500 {
		if _, err := js.Publish(ctx, streams.LedgerSubject("attempt", "t"), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(ctx, streams.CheckpointsSubject, []byte("note")); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(101)); err != nil {
		t.Fatal(err)
	}
	x, err := l.Extent(ctx)
	if err != nil || x.First != 101 || x.Last != 500 {
		t.Fatalf("got %+v, %v", x, err)
	}
	if _, err := js.Publish(ctx, streams.LedgerSubject("attempt", "t"), []byte("later")); err != nil {
		t.Fatal(err)
	}
	next := x.First
	err = l.Read(ctx, x.First, func(seq uint64, body []byte) error {
		if seq != next || string(body) != fmt.Sprint(seq-1) {
			t.Errorf("sequence %d: %s, want %d", seq, body, next)
		}
		next++
		return nil
	})
	if err != nil || next != 501 {
		t.Errorf("read up to %d: %v", next, err)
	}
	if all, kept, err := outside.Checkpoints(ctx, js); err != nil || len(all) != 1 || kept.Missing || kept.Messages != 1 ||
		kept.LedgerCreated.IsZero() || all[0].Note != "note" || all[0].At.IsZero() {
		t.Errorf("checkpoints %+v, %v", all, err)
	}
}
