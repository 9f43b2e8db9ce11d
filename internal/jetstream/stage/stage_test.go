package stage_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/test/testkit"
)

const (
	patience = 2 * time.Minute
	stream   = "WORK"
	consumer = "worker"
	ackWait  = 600 * time.Millisecond
)

type rig struct {
	t      *testing.T
	server *testkit.Server
	js     jetstream.JetStream
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, server: testkit.BareNATS(t)}
	r.js = r.server.JetStream()
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"work.>"},
		Retention: jetstream.WorkQueuePolicy, AllowAtomicPublish: true})
	must(t, err)
	r.makeConsumer()
	return r
}

// makeConsumer repeats what the server refuses: the state of one that was just
// deleted may still be on its way to the disk, and into the way of its successor's.
func (r *rig) makeConsumer() {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		_, err := r.js.CreateConsumer(r.t.Context(), stream,
			jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy,
				AckWait: ackWait, MaxAckPending: -1})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) publish(n int) {
	for i := range n {
		_, err := r.js.Publish(r.t.Context(), "work.x", fmt.Appendf(nil, "%d", i))
		must(r.t, err)
	}
}

// left waits until the queue holds n messages.
func (r *rig) left(n uint64) {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		s, err := r.js.Stream(r.t.Context(), stream)
		must(r.t, err)
		if s.CachedInfo().State.Msgs == n {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			r.t.Fatalf("the queue holds %d messages, want %d", s.CachedInfo().State.Msgs, n)
		}
	}
}

type loop struct {
	*stage.Loop
	stop func()
	done chan struct{}
}

func (r *rig) loop(handle stage.Handler, alter ...func(*stage.LoopOptions)) *loop {
	r.t.Helper()
	o := stage.LoopOptions{JS: r.server.JetStream(), Stream: stream, Consumer: consumer, Handle: handle, Concurrency: 4,
		AckWait: ackWait, DrainTimeout: patience, Log: zerolog.New(zerolog.NewTestWriter(r.t)).Level(zerolog.WarnLevel)}
	for _, f := range alter {
		f(&o)
	}
	l, err := stage.NewLoop(o)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	out := &loop{Loop: l, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		if err := l.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	r.t.Cleanup(func() { cancel(); <-out.done })
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachSettlementDoesWhatItSays(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	seen := map[string][]time.Time{}
	r.loop(func(_ context.Context, m stage.Message) stage.Settlement {
		mu.Lock()
		defer mu.Unlock()
		what := string(m.Data)
		seen[what] = append(seen[what], time.Now())
		switch {
		case what == "0":
			return stage.Done()
		case what == "1":
			return stage.Drop("never")
		case len(seen[what]) == 1:
			return stage.Later(300 * time.Millisecond)
		}
		return stage.Done()
	})
	r.publish(3)
	r.left(0)
	mu.Lock()
	defer mu.Unlock()
	if len(seen["0"]) != 1 || len(seen["1"]) != 1 || len(seen["2"]) != 2 {
		t.Fatalf("handled %d, %d and %d times", len(seen["0"]), len(seen["1"]), len(seen["2"]))
	}
	if d := seen["2"][1].Sub(seen["2"][0]); d < 300*time.Millisecond {
		t.Errorf("came back after %s, before its time", d)
	}
}

func TestTheLeaseOutlastsTheWork(t *testing.T) {
	r := newRig(t)
	var handled atomic.Int32
	work := func(ctx context.Context, m stage.Message) stage.Settlement {
		handled.Add(1)
		select {
		case <-time.After(4 * ackWait):
		case <-ctx.Done():
		}
		return stage.Done()
	}
	r.loop(work)
	r.loop(work) // another process, ready to take what the first one seems to have lost
	r.publish(1)
	r.left(0)
	if n := handled.Load(); n != 1 {
		t.Errorf("handled %d times", n)
	}
}

func TestNoMoreIsInHandThanTheConcurrency(t *testing.T) {
	r := newRig(t)
	var now, most atomic.Int32
	r.loop(func(context.Context, stage.Message) stage.Settlement {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-time.After(5 * time.Millisecond) // the work
		now.Add(-1)
		return stage.Done()
	})
	r.publish(60)
	r.left(0)
	if n := most.Load(); n < 2 || n > 4 {
		t.Errorf("%d at once, want 2 to 4", n)
	}
}

func TestAStopFinishesWhatIsInHandAndHandsBackTheRest(t *testing.T) {
	r := newRig(t)
	started, release := make(chan struct{}, 100), make(chan struct{})
	l := r.loop(func(context.Context, stage.Message) stage.Settlement {
		started <- struct{}{}
		<-release
		return stage.Done()
	})
	r.publish(20)
	for range 4 {
		<-started
	}
	l.stop()
	select {
	case <-l.done:
		t.Fatal("the stop did not wait for what is in hand")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-l.done
	r.left(16)
	if l.InHand() != 0 || l.Handled() != 4 {
		t.Errorf("%d in hand, %d handled", l.InHand(), l.Handled())
	}
	// What was handed back is there at once, not only after ack_wait.
	begin := time.Now()
	r.loop(func(context.Context, stage.Message) stage.Settlement { return stage.Done() })
	r.left(0)
	t.Logf("the rest took %s", time.Since(begin))
}

func TestAStopBeyondItsBoundInterrupts(t *testing.T) {
	r := newRig(t)
	started := make(chan struct{})
	cause := make(chan error, 1)
	l := r.loop(func(ctx context.Context, m stage.Message) stage.Settlement {
		close(started)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return stage.Later(0)
	}, func(o *stage.LoopOptions) { o.DrainTimeout = 50 * time.Millisecond })
	r.publish(1)
	<-started
	l.stop()
	<-l.done
	if err := <-cause; !errors.Is(err, stage.ErrHardStop) {
		t.Errorf("interrupted with %v", err)
	}
	r.left(1)
}

func TestAServerOrAConsumerThatComesBackIsUsedAgain(t *testing.T) {
	for name, disturb := range map[string]func(*rig){
		"a server killed and restarted":  func(r *rig) { r.server.Kill(); r.server.Restart() },
		"a server stopped and restarted": func(r *rig) { r.server.Stop(); r.server.Restart() },
		"a consumer deleted and made again": func(r *rig) {
			must(r.t,
				r.js.DeleteConsumer(r.t.Context(), stream, consumer))
			r.makeConsumer()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			handled := make(chan struct{}, 100)
			r.loop(func(context.Context, stage.Message) stage.Settlement {
				handled <- struct{}{}
				return stage.Done()
			})
			r.publish(1)
			<-handled
			disturb(r)
			pub, err := stage.NewPublisher(r.server.Connect(), zerolog.Nop())
			must(t, err)
			_, err = pub.Publish(t.Context(), &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {"again"}},
				Data: []byte("1")})
			must(t, err)
			select {
			case <-handled:
			case <-time.After(patience):
				t.Fatal("nothing was handled afterwards")
			}
		})
	}
}

// publishers are all ways to store messages: what one promises, the others do.
func publishers() map[string]func(*nats.Conn, zerolog.Logger) (*stage.Publisher, error) {
	return map[string]func(*nats.Conn, zerolog.Logger) (*stage.Publisher, error){
		"as is cheaper": stage.NewPublisher, "each by itself": stage.NewEachPublisher, "in batches": stage.NewBatchPublisher}
}

func TestPublishRepeatsUntilItIsStoredOnce(t *testing.T) {
	for name, publisher := range publishers() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			pub, err := publisher(r.server.Connect(), zerolog.Nop())
			must(t, err)
			r.server.Stop()
			msgs := make([]*nats.Msg, 600)
			for i := range msgs {
				msgs[i] = &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {fmt.Sprint("m", i)}}, Data: []byte("x")}
			}
			got := make(chan error, 1)
			go func() {
				acks, err := pub.PublishAll(t.Context(), msgs...)
				for i, a := range acks {
					if a == nil || a.Stream != stream {
						t.Errorf("message %d has no acknowledgement", i)
					}
				}
				got <- err
			}()
			r.server.Restart()
			must(t, <-got)
			r.left(600)
			again, err := pub.PublishAll(t.Context(), msgs...)
			must(t, err)
			for i, a := range again {
				if !a.Duplicate {
					t.Errorf("message %d was stored again", i)
				}
			}
			r.left(600)
		})
	}
}

// Whoever claims something by publishing it MUST learn where it is stored, and
// whether it was there before, also beside others in one batch.
func TestAcknowledgementsTellSequenceAndDuplicate(t *testing.T) {
	for name, publisher := range publishers() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			pub, err := publisher(r.server.Connect(), zerolog.Nop())
			must(t, err)
			_, err = pub.Publish(t.Context(), &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {"known"}},
				Data: []byte("known")})
			must(t, err)
			var wg sync.WaitGroup
			for w := range 20 {
				wg.Go(func() {
					for i := range 20 {
						id := fmt.Sprintf("%d-%d", w, i)
						if i == 10 {
							id = "known"
						}
						ack, err := pub.Publish(t.Context(), &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {id}},
							Data: []byte(id)})
						if err != nil {
							t.Error(err)
							return
						}
						s, err := r.js.Stream(t.Context(), stream)
						must(t, err)
						m, err := s.GetMsg(t.Context(), ack.Sequence)
						if err != nil || string(m.Data) != id || ack.Duplicate != (id == "known") {
							t.Errorf("%s: sequence %d (%v), duplicate %v", id, ack.Sequence, err, ack.Duplicate)
						}
					}
				})
			}
			wg.Wait()
			r.left(1 + 20*19)
		})
	}
}

func TestPublishEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	pub, err := stage.NewPublisher(r.server.Connect(), zerolog.Nop())
	must(t, err)
	r.server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = pub.Publish(ctx, &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {"m"}}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestAFullStreamHoldsThePublisherUntilThereIsRoom(t *testing.T) {
	r := newRig(t)
	s, err := r.js.Stream(t.Context(), stream)
	must(t, err)
	config := s.CachedInfo().Config
	config.MaxMsgs, config.Discard = 1, jetstream.DiscardNew
	_, err = r.js.UpdateStream(t.Context(), config)
	must(t, err)
	r.publish(1)
	pub, err := stage.NewPublisher(r.server.Connect(), zerolog.Nop())
	must(t, err)
	stored := make(chan error, 1)
	go func() {
		_, err := pub.Publish(t.Context(), &nats.Msg{Subject: "work.x", Header: nats.Header{nats.MsgIdHdr: {"m"}}})
		stored <- err
	}()
	select {
	case err := <-stored:
		t.Fatalf("a full stream took a message (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, s.Purge(t.Context()))
	must(t, <-stored)
}
