package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// orderPoll is the pause between two looks at how far fanout has come: the
	// price of order, since each event waits for the acknowledgement of the one before.
	orderPoll = time.Millisecond
	// orderRetry is the pause after a look that failed.
	orderRetry = 100 * time.Millisecond
	// orderBound ends the wait for the events before one, which is then handed back.
	orderBound = 30 * time.Second
	// orderWaiters is how many wait at most. An event that waits keeps no place
	// of those that are being expanded.
	orderWaiters = 4096
)

// errTooEarly says that an event before this one has not been expanded.
var errTooEarly = errors.New("an earlier event is still being expanded")

// progress is how far fanout has come in EVENTS, all processes together. Those
// that wait for it share one look at a time.
type progress struct {
	mu      sync.Mutex // guards what follows
	waiters map[*orderWaiter]struct{}
	looking bool
	failed  error // of the last look
}

type orderWaiter struct {
	seq  uint64
	turn chan struct{}
}

// inOrder returns once every event before m is expanded and acknowledged, so
// that what is published next is behind all that they became: by this process
// or another one.
func (f *Fanout) inOrder(ctx context.Context, m stage.Message) error {
	w := &orderWaiter{seq: m.Seq, turn: make(chan struct{})}
	if !f.wait(w) {
		return fmt.Errorf("event %d, for an endpoint that keeps order: %w", m.Seq, errTooEarly)
	}
	defer f.progress.forget(w)
	m.Release()
	bound := time.NewTimer(orderBound)
	defer bound.Stop()
	var err error
	select {
	case <-w.turn:
		return nil
	case <-bound.C:
		err = errors.Join(errTooEarly, f.progress.failure())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("event %d, for an endpoint that keeps order: %w", m.Seq, err)
}

// wait adds w to those that wait, unless there are too many.
func (f *Fanout) wait(w *orderWaiter) bool {
	p := &f.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) >= orderWaiters {
		return false
	}
	if p.waiters == nil {
		p.waiters = map[*orderWaiter]struct{}{}
	}
	p.waiters[w] = struct{}{}
	if !p.looking {
		p.looking = true
		go f.look()
	}
	return true
}

func (p *progress) forget(w *orderWaiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, w)
}

func (p *progress) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// look follows fanout's progress for as long as somebody waits.
func (f *Fanout) look() {
	for {
		first, ok := f.progress.first()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), orderBound)
		before, err := f.reached(ctx, first)
		cancel()
		f.progress.reached(before, err)
		if err != nil {
			time.Sleep(orderRetry)
		} else {
			time.Sleep(orderPoll)
		}
	}
}

// first is the first event that waits. Without one, the looking ends.
func (p *progress) first() (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = len(p.waiters) > 0
	first, any := uint64(0), false
	for w := range p.waiters {
		if !any || w.seq < first {
			first, any = w.seq, true
		}
	}
	return first, any
}

// reached lets go those for whom nothing before them is left.
func (p *progress) reached(before uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err
	if err != nil {
		return
	}
	for w := range p.waiters {
		if w.seq <= before {
			delete(p.waiters, w)
			close(w.turn)
		}
	}
}

// reached is the first event that is not known to be done. seq is whose turn is
// asked for.
func (f *Fanout) reached(ctx context.Context, seq uint64) (before uint64, err error) {
	consumer, err := f.js.Consumer(ctx, streams.Events, streams.FanoutConsumer)
	if err != nil {
		return 0, err
	}
	before = consumer.CachedInfo().AckFloor.Stream + 1
	if before >= seq {
		return before, nil
	}
	// There may be nothing between: events that have expired, or that the stream lost.
	next, err := streams.ReadFrom(f.js, streams.Events).Next(ctx, ">", before)
	switch {
	case err == nil:
		return next.Sequence, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return seq, nil
	}
	return 0, err
}
