package dispatcher

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
)

const (
	// A breaker opens after as many retryable failures in a row as two and a
	// half deliveries may have in the standard schedule, from several deliveries
	// (one that its receiver chokes on says nothing about the others), over a
	// time that a restart of the receiver does not take.
	breakerFailures   = 20
	breakerDeliveries = 5
	breakerSpan       = 5 * time.Second
	// While it is open, one attempt probes the endpoint at a time. The pauses
	// between probes double, up to what urgent deliveries wait at most.
	firstProbePause = time.Second
	maxProbePause   = time.Minute
	// probeSpread is the part of a pause over which what waits for a probe comes
	// back, so that not everything comes at once to find one under way.
	probeSpread = 0.25
)

// breakers keep this dispatcher from spending the attempts of many deliveries
// on an endpoint that is down.
type breakers struct {
	random  func() float64
	now     func() time.Time
	changed func(endpoint string, open bool)

	mu sync.Mutex // guards what follows
	by map[string]*breaker
}

// breaker is an endpoint's streak of failures. An endpoint without one has none.
type breaker struct {
	revision   uint64 // of the endpoint that failed: a change of it begins anew
	failures   int
	last       string              // what the last one came to
	deliveries map[string]struct{} // that failed, breakerDeliveries at most
	since      time.Time           // of the first failure

	open    bool
	pause   time.Duration // after the last probe
	probeAt time.Time
	probing bool
}

func newBreakers(random func() float64, now func() time.Time, changed func(endpoint string, open bool)) *breakers {
	return &breakers{random: random, now: now, changed: changed, by: map[string]*breaker{}}
}

// permit is the permission to make one attempt. done or abandon MUST follow.
type permit struct {
	of       *breakers
	endpoint *registry.Endpoint
	delivery string
	probe    *breaker // nil: not a probe
	used     bool
}

// allow gives a permit, or the time of the next probe.
func (b *breakers) allow(e *registry.Endpoint, delivery string) (p *permit, back time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = &permit{of: b, endpoint: e, delivery: delivery}
	br := b.by[e.ID]
	if br != nil && br.revision < e.Revision {
		b.close(e.ID, br)
		br = nil
	}
	if br == nil || !br.open {
		return p, back
	}
	now := b.now()
	if !br.probing && !now.Before(br.probeAt) {
		br.probing = true
		br.probeAt = now.Add(br.pause)
		p.probe = br
		return p, back
	}
	if back = br.probeAt; back.Before(now) { // a probe takes longer than the pause
		back = now.Add(br.pause)
	}
	return nil, back.Add(time.Duration(b.random() * probeSpread * float64(br.pause)))
}

// done says what the attempt came to.
func (p *permit) done(o outcome.Outcome) { p.ended(attempt.Facts{Outcome: o}) }

// ended is done with all that is known of it.
func (p *permit) ended(f attempt.Facts) {
	o := f.Outcome
	b := p.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.used {
		return
	}
	switch {
	case !f.AboutReceiver():
		p.end()
	case o.Class() == outcome.ClassRetryable:
		p.failed(o, f.Status)
	default: // it answered, if only to reject
		p.used = true
		if br := b.by[p.endpoint.ID]; br != nil && br.revision <= p.endpoint.Revision {
			b.close(p.endpoint.ID, br)
		}
	}
}

// failing says what an endpoint whose breaker is open came to; empty: it is not.
func (b *breakers) failing(e *registry.Endpoint) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.by[e.ID]
	if br == nil || !br.open || br.revision != e.Revision {
		return ""
	}
	return fmt.Sprintf("the last %d attempts for the endpoint failed here, since %s, the last one with %s",
		br.failures, br.since.UTC().Format(time.RFC3339), br.last)
}

// abandon gives the permit back if no attempt was made: the next probe is due at once.
func (p *permit) abandon() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.end()
}

func (p *permit) end() {
	if !p.used && p.probe != nil {
		p.probe.probing, p.probe.probeAt = false, p.of.now()
	}
	p.used = true
}

// failed counts a retryable failure. b.mu is held.
func (p *permit) failed(o outcome.Outcome, status int) {
	p.used = true
	b, now := p.of, p.of.now()
	last := string(o)
	if status > 0 {
		last = "status " + strconv.Itoa(status)
	}
	if p.probe != nil {
		p.probe.failures, p.probe.last = p.probe.failures+1, last
		p.probe.probing = false
		p.probe.pause = min(2*p.probe.pause, maxProbePause)
		p.probe.probeAt = now.Add(p.probe.pause)
		return
	}
	br := b.by[p.endpoint.ID]
	if br == nil {
		br = &breaker{revision: p.endpoint.Revision, deliveries: map[string]struct{}{}, since: now}
		b.by[p.endpoint.ID] = br
	}
	if br.revision != p.endpoint.Revision {
		return // an attempt from before
	}
	br.failures, br.last = br.failures+1, last
	if br.open {
		return // it was under way when it opened
	}
	if len(br.deliveries) < breakerDeliveries {
		br.deliveries[p.delivery] = struct{}{}
	}
	if br.failures >= breakerFailures && len(br.deliveries) >= breakerDeliveries && now.Sub(br.since) >= breakerSpan {
		br.open, br.pause, br.probeAt = true, firstProbePause, now.Add(firstProbePause)
		b.changed(p.endpoint.ID, true)
	}
}

// close forgets a streak. b.mu is held.
func (b *breakers) close(endpoint string, br *breaker) {
	delete(b.by, endpoint)
	if br.open {
		b.changed(endpoint, false)
	}
}

// breakerChanged tells operators that an endpoint's breaker opened or closed.
func (d *Dispatcher) breakerChanged(endpoint string, open bool) {
	if open {
		d.metrics.breakers.Inc()
		d.log.Warn().Str("endpoint_id", endpoint).Msg(logevent.BreakerOpened)
		return
	}
	d.metrics.breakers.Dec()
	d.log.Info().Str("endpoint_id", endpoint).Msg(logevent.BreakerClosed)
}
