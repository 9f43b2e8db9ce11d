package dispatcher

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const (
	// The pauses after a failure of ours double between these two: the first is
	// short, since a process that is short of sockets may have some in a moment;
	// the last is what it takes at most to notice that an operator has mended it.
	firstFaultPause = time.Second
	maxFaultPause   = time.Minute
)

// faults keep this dispatcher from claiming attempt after attempt for an endpoint
// to which it cannot make requests, for a reason of ours: then one is tried at a
// time. They say nothing about the endpoint.
type faults struct {
	now func() time.Time

	mu sync.Mutex // guards what follows
	by map[string]*faulty
}

type faulty struct {
	revision uint64 // of the endpoint: a change of it may have been the cure
	why      string
	pause    time.Duration
	next     time.Time
	trying   bool
}

func newFaults(now func() time.Time) *faults { return &faults{now: now, by: map[string]*faulty{}} }

// wait says until when no attempt is made, and why; the zero time: one may be now.
func (f *faults) wait(e *registry.Endpoint) (until time.Time, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.by[e.ID]
	if s == nil {
		return until, ""
	}
	if s.revision != e.Revision {
		delete(f.by, e.ID)
		return until, ""
	}
	now := f.now()
	if s.next.After(now.Add(s.pause)) { // the clock was put back
		s.next = now.Add(s.pause)
	}
	if now.Before(s.next) {
		return s.next, s.why
	}
	s.trying, s.next = true, now.Add(s.pause) // if nothing is heard of the try, another one follows
	return until, ""
}

// failed takes note of an attempt that could not be made.
func (f *faults) failed(e *registry.Endpoint, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.by[e.ID]
	switch {
	case s == nil || s.revision != e.Revision:
		s = &faulty{revision: e.Revision, pause: firstFaultPause}
		f.by[e.ID] = s
	case s.trying:
		s.pause = min(2*s.pause, maxFaultPause)
	default: // it was under way when another one failed
		s.why = why
		return
	}
	s.why, s.trying, s.next = why, false, f.now().Add(s.pause)
}

// made takes note of an attempt for which a request was made, or could have been.
func (f *faults) made(e *registry.Endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, e.ID)
}

// why is the last failure, if there was one since a request was made.
func (f *faults) why(e *registry.Endpoint) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.by[e.ID]; s != nil && s.revision == e.Revision {
		return s.why
	}
	return ""
}

// keysNow are the keys that sign now. Before a number is claimed it finds what
// would keep the request from being made: then the delivery is put off.
func (d *Dispatcher) keysNow(ctx context.Context, a *admission) (keys []envelope.Key, n next, err error) {
	if keys, a.locked = a.opened.Keys(time.Now()); a.locked != nil {
		n, err = settledWith(d.awaitKey(ctx, a))
		return nil, n, err
	}
	if broken := attempt.CheckHeader(a.opened.Header); broken != nil {
		d.noteFault(a.delivery, a.endpoint, attempt.NotMade(broken))
		n, err = settledWith(d.hold(ctx, a, d.clock.Now().Add(firstFaultPause), deferFault))
		return nil, n, err
	}
	return keys, admitted, nil
}

// noteFault is the alarm of a request that could not be made, and its end.
func (d *Dispatcher) noteFault(delivery delivery.Delivery, endpoint *registry.Endpoint, res attempt.Result) {
	switch {
	case res.Fault:
		d.faults.failed(endpoint, strings.TrimPrefix(res.Err, attempt.NeverSent))
		d.metrics.faults.Inc()
		d.log.Error().Str("event_id", delivery.EventID).Str("endpoint_id", endpoint.ID).Str("error",
			res.Err).Msg(logevent.AttemptNotMade)
	case res.Outcome != outcome.NotSent && res.Outcome != outcome.Interrupted:
		d.faults.made(endpoint)
	}
}
