package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestAServerKeepsItsPortAndItsMessagesAcrossStopAndKill(t *testing.T) {
	s := testkit.NATS(t)
	js := s.JetStream()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i, end := range []func(){s.Stop, s.Kill} {
		m := nats.NewMsg(streams.LedgerSubject("attempt", "default"))
		m.Data = []byte("x")
		if _, err := js.PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
		url := s.URL
		end()
		s.Restart()
		if s.URL != url {
			t.Fatalf("moved from %s to %s", url, s.URL)
		}
		st, err := s.JetStream().Stream(ctx, streams.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		if got := st.CachedInfo().State.LastSeq; got != uint64(i+1) {
			t.Fatalf("the stream ends at %d after restart %d, want %d", got, i, i+1)
		}
	}
}
