package stage_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

func TestAFloodInOneLaneDelaysNoOther(t *testing.T) {
	r := newRig(t)
	const flood = 3000
	handled, gate := make(chan string, flood+2), make(chan struct{})
	l := r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		<-gate
		handled <- m.Subject
		return stage.Done()
	}, func(o *stage.LoopOptions) {
		o.Concurrency = 1
		o.Lane = func(subject string) stage.Lane { return stage.Lane{Name: subject} }
	})
	r.publish(flood)
	_, err := r.js.Publish(t.Context(), "work.rare", nil)
	must(t, err)
	deadline := time.After(patience)
	for l.InHand() < flood+1 { // all were taken, one is being handled
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d of %d were taken", l.InHand(), flood+1)
		}
	}
	close(gate)
	for n := 1; ; n++ {
		if <-handled == "work.rare" {
			if n > 3 {
				t.Errorf("it came as number %d, want the second after the one in hand", n)
			}
			break
		}
	}
	r.left(0)
}

func TestAStopHandsBackWhatWaitsInLanes(t *testing.T) {
	r := newRig(t)
	const n = 200
	lanes := func(o *stage.LoopOptions) {
		o.Concurrency = 2
		o.Lane = func(subject string) stage.Lane { return stage.Lane{Name: subject} }
	}
	started, gate := make(chan struct{}, n), make(chan struct{})
	first := r.loop(func(context.Context, stage.Message) stage.Settlement {
		started <- struct{}{}
		<-gate
		return stage.Done()
	}, lanes)
	r.publish(n)
	<-started
	<-started
	first.stop()
	close(gate)
	<-first.done
	if first.InHand() != 0 {
		t.Errorf("%d are in hand after the stop", first.InHand())
	}
	var second atomic.Int64
	r.loop(func(context.Context, stage.Message) stage.Settlement { second.Add(1); return stage.Done() }, lanes)
	r.left(0)
	if got := first.Handled() + uint64(second.Load()); got != n {
		t.Errorf("%d were handled, want each of %d once", got, n)
	}
}

func TestAHandlerThatOnlyWaitsGivesItsPlaceToTheNext(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		if string(m.Data) == "0" {
			m.Release()
			m.Release() // twice is once
			<-release
			return stage.Done()
		}
		close(release)
		return stage.Done()
	}, func(o *stage.LoopOptions) { o.Concurrency = 1 })
	r.publish(2)
	r.left(0)
}
