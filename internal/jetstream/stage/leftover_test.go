package stage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

// A server that is killed may remember that a message was acknowledged, and
// forget that it was removed: the files of such a stream are put together here.
func TestWhatWasAcknowledgedAndIsStillThereIsHandledAgainAndRemoved(t *testing.T) {
	r := newRig(t)
	r.publish(3)
	messages := filepath.Join(r.server.Dir, "jetstream", "$G", "streams", stream, "msgs")
	before := filepath.Join(t.TempDir(), "msgs")
	r.server.Stop()
	must(t, os.CopyFS(before, os.DirFS(messages)))
	r.server.Restart()
	first := r.loop(func(context.Context, stage.Message) stage.Settlement { return stage.Done() })
	r.left(0)
	first.stop()
	<-first.done
	r.server.Stop()
	must(t, os.RemoveAll(messages))
	must(t, os.CopyFS(messages, os.DirFS(before)))
	r.server.Restart()
	r.left(3)

	handled := make(chan stage.Message, 100)
	later := true // the first time around
	r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		handled <- m
		if string(m.Data) == "1" && later {
			later = false
			return stage.Later(time.Hour)
		}
		return stage.Done()
	}, func(o *stage.LoopOptions) { o.SweepEvery = 20 * time.Millisecond; o.Concurrency = 1 })
	r.left(0)
	for i, want := range []string{"0", "1", "2", "1"} {
		select {
		case m := <-handled:
			if string(m.Data) != want || m.HeldSince().IsZero() || m.StoredAt.IsZero() || m.Seq == 0 {
				t.Errorf("handled %d: %+v", i, m)
			}
		case <-time.After(patience):
			t.Fatalf("%d were handled", i)
		}
	}
}

// What is waiting or in hand is none of it.
func TestWhatIsInHandIsNotTakenForLeftOver(t *testing.T) {
	r := newRig(t)
	finish, taken := make(chan struct{}), make(chan uint64, 100)
	r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		taken <- m.Deliveries
		<-finish
		return stage.Done()
	}, func(o *stage.LoopOptions) { o.SweepEvery = 100 * time.Millisecond; o.Concurrency = 2 })
	r.publish(2)
	for range 2 {
		<-taken
	}
	looks := time.NewTimer(2 * ackWait) // which is time for a dozen of looks
	<-looks.C
	close(finish)
	r.left(0)
	if n := len(taken); n != 0 {
		t.Errorf("%d were handled twice", n)
	}
}
