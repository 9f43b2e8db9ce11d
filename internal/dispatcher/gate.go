package dispatcher

import (
	"context"
	"sync"
	"time"
)

const (
	// maxQueueing is how long a task may expect to wait in memory for its
	// endpoint. An endpoint that answers fast has a queue that moves; one that
	// does not has its tasks moved aside, where they cost the others nothing.
	maxQueueing = time.Second
	// maxStall is how long an endpoint at its cap may go without an answer
	// before it counts as slow, whatever it was like before.
	maxStall = 250 * time.Millisecond
	// minParked keeps a task that is moved aside from coming back before the
	// move has paid for itself.
	minParked = 500 * time.Millisecond
	// maxParked bounds the guess of a slow endpoint's pace, so that one that
	// recovers is used again soon.
	maxParked = 30 * time.Second
	// firstGuess is how long a place is taken at an endpoint never called before.
	firstGuess = 10 * time.Millisecond
	// idleGates is how many endpoints without work are remembered.
	idleGates = 10_000
)

// gates hold the requests in flight of each endpoint to its cap. What is over
// the cap waits in memory as long as the endpoint is fast and takes no more
// room there than others; else it is spread over the time that the endpoint
// will need for it.
//
// When all endpoints have more than they can take, none takes more room than
// the others: then everything waits, and no more is taken from the queue.
type gates struct {
	// room is how many tasks may wait in memory for all endpoints together
	// before those of the greediest are moved aside.
	room int

	mu      sync.Mutex // guards what follows, and every gate
	by      map[string]*gate
	waiting int // tasks that wait in memory
	queues  int // endpoints that they wait for
}

type gate struct {
	inFlight int
	waiters  []chan struct{} // closed when a place is handed over, the oldest first
	// deliveries in hand, by event and replay, so that two messages for one
	// delivery in one process do not take each other for a crashed one's.
	held  map[string]struct{}
	took  time.Duration // moving average of how long a place is taken
	moved time.Time     // when a place was last taken or given back
	next  time.Time     // when the next parked task's turn is
}

func newGates(room int) *gates { return &gates{room: room, by: map[string]*gate{}} }

// enter takes a place, waiting for one if that will not be long. leave MUST
// follow when ok. Otherwise parked says how long to move the task aside.
func (g *gates) enter(ctx context.Context, endpoint string, most int) (parked time.Duration, ok bool) {
	g.mu.Lock()
	e, now := g.gate(endpoint), time.Now()
	if e.inFlight < most {
		e.inFlight++
		e.moved = now
		g.mu.Unlock()
		return 0, true
	}
	pace := e.took / time.Duration(most)
	if !g.mayWait(e, pace, now) {
		defer g.mu.Unlock()
		return e.park(pace, now), false
	}
	turn := make(chan struct{})
	if len(e.waiters) == 0 {
		g.queues++
	}
	e.waiters = append(e.waiters, turn)
	g.waiting++
	g.mu.Unlock()

	// The guess may be wrong: an endpoint that stops answering while we wait.
	patience := time.NewTimer(2 * maxQueueing)
	defer patience.Stop()
	select {
	case <-turn:
		return 0, true
	case <-patience.C:
	case <-ctx.Done():
	}
	return g.giveUp(e, turn, pace)
}

// mayWait says whether one more task may wait in memory for e. g.mu is held.
func (g *gates) mayWait(e *gate, pace time.Duration, now time.Time) bool {
	if now.Sub(e.moved) > maxStall || time.Duration(len(e.waiters)+1)*pace > maxQueueing {
		return false
	}
	// Room is short: who takes more than twice a fair share makes place.
	return g.waiting < g.room || len(e.waiters) <= 2*g.waiting/max(g.queues, 1)
}

// giveUp leaves the queue, unless a place was handed over meanwhile.
func (g *gates) giveUp(e *gate, turn chan struct{}, pace time.Duration) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range e.waiters {
		if w == turn {
			e.waiters = append(e.waiters[:i], e.waiters[i+1:]...)
			g.unqueued(e)
			return e.park(pace, time.Now()), false
		}
	}
	return 0, true
}

// unqueued counts that one task less waits for e. g.mu is held.
func (g *gates) unqueued(e *gate) {
	g.waiting--
	if len(e.waiters) == 0 {
		g.queues--
	}
}

// park reserves the next turn behind everything that was parked before.
func (e *gate) park(pace time.Duration, now time.Time) time.Duration {
	if stalled := now.Sub(e.moved); stalled > maxStall {
		pace = max(pace, stalled/16)
	}
	if soonest := now.Add(minParked); e.next.Before(soonest) {
		e.next = soonest
	}
	e.next = e.next.Add(pace)
	if limit := now.Add(maxParked); e.next.After(limit) {
		e.next = limit
	}
	return e.next.Sub(now)
}

// leave hands the place to the next in the queue, or gives it back. took is how
// long it was taken.
func (g *gates) leave(endpoint string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	e.took += (took - e.took) / 8
	e.moved = time.Now()
	if len(e.waiters) > 0 {
		close(e.waiters[0])
		e.waiters = e.waiters[1:]
		g.unqueued(e)
		return
	}
	e.inFlight--
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
