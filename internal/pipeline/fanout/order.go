package fanout

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// progress is how far fanout has come in EVENTS, all processes together. One of
// those that wait for it looks at it for all of them.
type progress struct {
	lead chan struct{} // holds a token while somebody looks
	next time.Time     // of the next look; belongs to the one who looks

	mu      sync.Mutex // guards what follows
	waiters map[*orderWaiter]struct{}
	failed  error // of the last look
}

type orderWaiter struct {
	seq  uint64
	turn chan struct{}
}

// come says that it is its turn.
func (w *orderWaiter) come() bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

func newProgress() *progress {
	return &progress{lead: make(chan struct{}, 1), waiters: map[*orderWaiter]struct{}{}}
}

// inOrder returns once every event before m is expanded and acknowledged, so
// that what is published next is behind all that they became: by this process
// or another one.
func (f *Fanout) inOrder(ctx context.Context, m stage.Message) error {
	p, w := f.progress, &orderWaiter{seq: m.Seq, turn: make(chan struct{})}
	if !p.enter(w) {
		return fmt.Errorf("event %d, for an endpoint that keeps order: %w", m.Seq, errTooEarly)
	}
	defer p.forget(w)
	m.Release()
	ctx, cancel := context.WithTimeoutCause(ctx, orderBound, errTooEarly)
	defer cancel()
	for {
		select {
		case <-w.turn:
			return nil
		case <-ctx.Done():
			err := errors.Join(context.Cause(ctx), p.failure())
			return fmt.Errorf("event %d, for an endpoint that keeps order: %w", m.Seq, err)
		case p.lead <- struct{}{}:
			f.look(ctx, w)
			<-p.lead
		}
	}
}

// enter adds w to those that wait, unless there are too many.
func (p *progress) enter(w *orderWaiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiters) >= orderWaiters {
		return false
	}
	p.waiters[w] = struct{}{}
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

// look follows fanout's progress until it is w's turn. Then another one looks, if anybody waits.
func (f *Fanout) look(ctx context.Context, w *orderWaiter) {
	p := f.progress
	for !w.come() && stage.Pause(ctx, time.Until(p.next)) {
		before, err := f.reached(ctx, p.first())
		p.reached(before, err)
		if p.next = time.Now().Add(orderPoll); err != nil {
			p.next = time.Now().Add(orderRetry)
		}
	}
}

// first is the first event that waits, of which there is one.
func (p *progress) first() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := uint64(math.MaxUint64)
	for w := range p.waiters {
		first = min(first, w.seq)
	}
	return first
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
