package revision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
)

// counting counts what a bucket's changes cost its state.
type counting struct{ applied *atomic.Int64 }

func (c counting) Apply(string, *thing, *thing) { c.applied.Add(1) }

// A burst of changes is taken in one by one, each once, and nothing is made anew
// for each: what waits for the last of them waits for no more than that.
func TestABurstOfFiftyThousandChangesIsTakenInWithoutMakingTheStateAnew(t *testing.T) {
	const many = 50_000
	b := newBench(t)
	var applied, made, installed atomic.Int64
	f := revision.NewFollower(revision.FollowerOptions[thing]{JS: b.js, Log: zerolog.Nop(), Bucket: things.Bucket,
		Decode:  func(_ string, raw []byte) (thing, error) { return things.Decode(raw) },
		New:     func() revision.State[thing] { made.Add(1); return counting{&applied} },
		Install: func(revision.State[thing]) { installed.Add(1) }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-f.Ready():
	case <-time.After(patience):
		t.Fatal("it is not ready")
	}
	last := b.publish(many)
	bounded, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	must(t, f.Reach(bounded, last))
	if applied.Load() != many || made.Load() != 1 || installed.Load() != 1 {
		t.Errorf("%d changes applied; the state was made %d times, installed %d times", applied.Load(), made.Load(),
			installed.Load())
	}
	if entries := f.Unreadable(); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}

// publish stores many things at once, as an import does, and returns the last sequence.
func (b *bench) publish(many int) uint64 {
	b.t.Helper()
	js, err := jetstream.New(b.js.Conn(), jetstream.WithPublishAsyncMaxPending(1000))
	must(b.t, err)
	var futures []jetstream.PubAckFuture
	for i := range many {
		raw, err := json.Marshal(thing{Value: i, Meta: revision.Meta{Revision: 1}})
		must(b.t, err)
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: fmt.Sprintf("$KV.%s.t%05d", things.Bucket, i), Data: raw},
			jetstream.WithStallWait(patience))
		must(b.t, err)
		futures = append(futures, f)
	}
	last := uint64(0)
	for _, f := range futures {
		select {
		case ack := <-f.Ok():
			last = max(last, ack.Sequence)
		case err := <-f.Err():
			b.t.Fatal(err)
		}
	}
	return last
}
