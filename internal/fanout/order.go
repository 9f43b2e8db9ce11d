package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

const (
	// orderPoll is the pause between two looks at how far fanout has come: the
	// price of order, since each event waits for the acknowledgement of the one before.
	orderPoll = time.Millisecond
	// orderBound ends the wait for the events before one, which is then handed
	// back: if every place were taken by events that wait, the one they wait for
	// would find none.
	orderBound = 2 * time.Second
	// floorFresh is how long a look counts: a stream that is made anew begins at 1.
	floorFresh = time.Second
)

// errTooEarly says that an event before this one has not been expanded.
var errTooEarly = errors.New("an earlier event is still being expanded")

// progress is how far fanout has come in EVENTS, all processes together. Those
// that wait share its requests.
type progress struct {
	mu     sync.Mutex // held during a request
	before uint64     // the first event that is not known to be done
	looked time.Time
}

// inOrder returns once every event before seq is expanded and acknowledged, so
// that what is published next is behind all that they became: by this process
// or another one.
func (f *Fanout) inOrder(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, orderBound, errTooEarly)
	defer cancel()
	for {
		done, err := f.reached(ctx, seq)
		if done && err == nil {
			return nil
		}
		if err == nil {
			select {
			case <-time.After(orderPoll):
				continue
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("event %d, for an endpoint that keeps order: %w", seq, err)
	}
}

// reached says whether every event before seq is done.
func (f *Fanout) reached(ctx context.Context, seq uint64) (bool, error) {
	p := &f.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.looked)
	if since < floorFresh && p.before >= seq {
		return true, nil
	}
	if since < orderPoll {
		return false, nil
	}
	consumer, err := f.js.Consumer(ctx, streams.Events, streams.FanoutConsumer)
	if err != nil {
		return false, err
	}
	before := consumer.CachedInfo().AckFloor.Stream + 1
	if before < seq {
		// There may be nothing between: events that have expired, or that the stream lost.
		s, err := f.js.Stream(ctx, streams.Events)
		if err != nil {
			return false, err
		}
		next, err := s.GetMsg(ctx, before, jetstream.WithGetMsgSubject(">"))
		switch {
		case err == nil:
			before = next.Sequence
		case errors.Is(err, jetstream.ErrMsgNotFound):
			before = seq
		default:
			return false, err
		}
	}
	p.before, p.looked = before, time.Now()
	return before >= seq, nil
}
