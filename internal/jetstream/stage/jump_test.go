package stage_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

func TestAJumpOfTheClockIsSeenAndSlewingIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skew := time.Duration(0)
		j := stage.WatchJumps(func() time.Time { return time.Now().Add(skew) })
		for range 1000 { // slewed by 5 s in all
			<-time.After(time.Second)
			skew -= 5 * time.Millisecond
			if d := j.Look(); d != 0 {
				t.Fatalf("slewing is a jump of %s", d)
			}
		}
		for _, want := range []time.Duration{-time.Hour, 0, 3 * time.Hour, -10 * time.Second} {
			<-time.After(time.Second)
			skew += want
			if d := j.Look(); d != want {
				t.Errorf("a jump of %s is one of %s", want, d)
			}
		}
	})
}

// What waits at the server waits by the clock on the wall: once that is set back,
// it would wait for as much longer.
func TestWhatWaitsAtTheServerComesWhenTheClockIsSetBack(t *testing.T) {
	r := newRig(t)
	var skew atomic.Int64
	taken := make(chan uint64, 100)
	inHand, finish := make(chan struct{}), make(chan struct{})
	l := r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		taken <- m.Seq
		if string(m.Data) == "1" {
			close(inHand) // once: handed out again while it is in hand, it is not handled again
			<-finish
			return stage.Done()
		}
		if skew.Load() == 0 {
			return stage.Later(time.Hour)
		}
		return stage.Done()
	}, func(o *stage.LoopOptions) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	})
	r.publish(2)
	<-inHand
	<-taken
	<-taken
	skew.Store(int64(-time.Hour))
	select {
	case <-taken:
	case <-time.After(patience):
		t.Fatal("it did not come")
	}
	close(finish)
	r.left(0)
	if n := len(taken); n != 0 || l.Handled() != 3 {
		t.Errorf("%d were handled more often than that", n)
	}
}
