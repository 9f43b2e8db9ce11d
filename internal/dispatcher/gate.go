package dispatcher

import (
	"sync"
	"time"
)

const (
	// minParked keeps a task that is moved aside from coming back before the
	// move has paid for itself.
	minParked = 20 * time.Millisecond
	// maxParked bounds the guess of a slow endpoint's pace, so that one that
	// recovers is used again soon.
	maxParked = 30 * time.Second
	// firstGuess is how long a request takes to an endpoint never called before.
	firstGuess = 100 * time.Millisecond
	// idleGates is how many endpoints without work are remembered.
	idleGates = 10_000
)

// gates hold the requests in flight of each endpoint to its cap, and spread
// what is over the cap over the time that the endpoint will need for it.
type gates struct {
	mu sync.Mutex
	by map[string]*gate
}

type gate struct {
	inFlight int
	// deliveries in hand, by event and replay, so that two messages for one
	// delivery in one process do not take each other for a crashed one's.
	held map[string]struct{}
	took time.Duration // moving average of a request's duration
	next time.Time     // when the next parked task's turn is
}

// enter takes a place, if the endpoint has one free. leave MUST follow. When it
// has none, it says how long the task should be moved aside.
func (g *gates) enter(endpoint string, most int, now time.Time) (parked time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	if e.inFlight < most {
		e.inFlight++
		return 0, true
	}
	if e.next.Before(now) {
		e.next = now
	}
	e.next = e.next.Add(e.took / time.Duration(most))
	if limit := now.Add(maxParked); e.next.After(limit) {
		e.next = limit
	}
	return max(e.next.Sub(now), minParked), false
}

// leave gives the place back. took is what the request lasted; 0: none was made.
func (g *gates) leave(endpoint string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	e.inFlight--
	if took > 0 {
		e.took += (took - e.took) / 8
	}
	g.forget(endpoint, e)
}

// hold marks a delivery as being worked on in this process; false means that it
// is already. release MUST follow a true.
func (g *gates) hold(endpoint, delivery string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	if _, ok := e.held[delivery]; ok {
		return false
	}
	e.held[delivery] = struct{}{}
	return true
}

func (g *gates) release(endpoint, delivery string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	delete(e.held, delivery)
	g.forget(endpoint, e)
}

func (g *gates) gate(endpoint string) *gate {
	e := g.by[endpoint]
	if e == nil {
		e = &gate{held: map[string]struct{}{}, took: firstGuess}
		g.by[endpoint] = e
	}
	return e
}

func (g *gates) forget(endpoint string, e *gate) {
	if e.inFlight == 0 && len(e.held) == 0 && len(g.by) > idleGates {
		delete(g.by, endpoint)
	}
}

// inFlight counts the requests under way.
func (g *gates) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, e := range g.by {
		n += e.inFlight
	}
	return n
}
