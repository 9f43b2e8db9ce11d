package dispatcher

import (
	"context"
	"sync"
	"time"
)

const (
	// maxStall is how long an endpoint at its cap may go without an answer
	// before its tasks are moved aside.
	maxStall = time.Second
	// minParked keeps a task that is moved aside from coming back before the
	// move has paid for itself.
	minParked = 500 * time.Millisecond
	// maxParked bounds the guess of a slow endpoint's pace, so that one that
	// recovers is used again soon.
	maxParked = 30 * time.Second
	// firstGuess is how long an endpoint takes that was never called before.
	firstGuess = 10 * time.Millisecond
	// busyFor is how long an endpoint that was at its cap counts as busy, and
	// busyPoll how often they are counted at most.
	busyFor  = time.Second
	busyPoll = 100 * time.Millisecond
	// idleGates is how many endpoints without work are remembered.
	idleGates = 10_000
)

// gates hold the requests in flight of each endpoint to its cap. What is over
// the cap waits in memory, as long as the endpoint answers and takes no more
// than a quarter of the room there. Beyond that it is moved aside, spread over
// the time that the endpoint will need for it, so that the queue behind it goes
// on to endpoints that have nothing to do.
//
// When no such endpoint exists, moving aside would cost work and help nobody:
// then everything waits, and no more is taken from the queue.
type gates struct {
	// room is how many tasks may wait in memory for all endpoints together.
	room int
	// enabled says how many endpoints there are to be busy.
	enabled func() int
	// freed is called when an endpoint has a place again. Optional.
	freed func(endpoint string)

	mu      sync.Mutex // guards what follows, and every gate
	by      map[string]*gate
	waiting int       // tasks that wait in memory
	counted time.Time // when allBusy was last found out
	allBusy bool
}

type gate struct {
	inFlight int
	most     int             // its cap, as last asked for
	waiters  []chan struct{} // closed when a place is handed over, the oldest first
	// deliveries in hand, by event and replay, so that two messages for one
	// delivery in one process do not take each other for a crashed one's.
	held  map[string]struct{}
	took  time.Duration // moving average of how long the endpoint takes to answer
	moved time.Time     // when a place was last taken or given back
	full  time.Time     // when it was last at its cap
	next  time.Time     // when the next parked task's turn is
}

func newGates(room int, enabled func() int) *gates {
	return &gates{room: room, enabled: enabled, by: map[string]*gate{}}
}

// enter takes a place, waiting for one in memory if that harms nobody. leave
// MUST follow when ok. Otherwise parked says how long to move the task aside.
func (g *gates) enter(ctx context.Context, endpoint string, most int) (parked time.Duration, ok bool) {
	g.mu.Lock()
	e, now := g.gate(endpoint), time.Now()
	e.most = most
	if e.inFlight < most {
		e.inFlight++
		e.moved = now
		g.mu.Unlock()
		return 0, true
	}
	e.full = now
	pace := e.took / time.Duration(most)
	if !g.mayWait(e, now) {
		defer g.mu.Unlock()
		return e.park(pace, now), false
	}
	turn := make(chan struct{})
	e.waiters = append(e.waiters, turn)
	g.waiting++
	g.mu.Unlock()
	return g.wait(ctx, e, turn, pace)
}

// open says whether another task for endpoint would find a place now, or nearly:
// one that waits for the next place keeps it from being idle. What is meant for
// an endpoint that does not answer is let in, to be moved aside.
func (g *gates) open(endpoint string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.by[endpoint]
	return e == nil || e.inFlight+len(e.waiters) < e.most+1+e.most/4 || time.Since(e.moved) > maxStall
}

// mayWait says whether one more task may wait in memory for e. g.mu is held.
func (g *gates) mayWait(e *gate, now time.Time) bool {
	if now.Sub(e.moved) > maxStall {
		return false
	}
	return g.waiting < g.room && len(e.waiters) < g.room/4 || g.everyoneBusy(now)
}

// everyoneBusy says whether every endpoint was at its cap just now. g.mu is held.
func (g *gates) everyoneBusy(now time.Time) bool {
	if now.Sub(g.counted) > busyPoll {
		busy := 0
		for _, e := range g.by {
			if now.Sub(e.full) < busyFor {
				busy++
			}
		}
		g.counted, g.allBusy = now, busy >= g.enabled()
	}
	return g.allBusy
}

// wait waits for a place for as long as the endpoint answers.
func (g *gates) wait(ctx context.Context, e *gate, turn chan struct{}, pace time.Duration) (time.Duration, bool) {
	tick := time.NewTicker(maxStall)
	defer tick.Stop()
	for {
		select {
		case <-turn:
			return 0, true
		case <-tick.C:
			if !g.stalled(e) {
				continue
			}
		case <-ctx.Done():
		}
		return g.giveUp(e, turn, pace)
	}
}

func (g *gates) stalled(e *gate) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(e.moved) > maxStall
}

// giveUp leaves the queue, unless a place was handed over meanwhile.
func (g *gates) giveUp(e *gate, turn chan struct{}, pace time.Duration) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range e.waiters {
		if w == turn {
			e.waiters = append(e.waiters[:i], e.waiters[i+1:]...)
			g.waiting--
			return e.park(pace, time.Now()), false
		}
	}
	return 0, true
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
// long the endpoint took to answer: its call alone, so that a pipeline which is
// slow itself does not take its endpoints for slow ones. 0: none was made.
func (g *gates) leave(endpoint string, took time.Duration) {
	g.handOver(endpoint, took)
	if g.freed != nil {
		g.freed(endpoint) // not under g.mu: it may ask open
	}
}

func (g *gates) handOver(endpoint string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.gate(endpoint)
	if took > 0 {
		e.took += (took - e.took) / 8
	}
	e.moved = time.Now()
	if len(e.waiters) > 0 {
		close(e.waiters[0])
		e.waiters = e.waiters[1:]
		g.waiting--
		return
	}
	e.inFlight--
	g.forget(endpoint, e)
}

// place is one that a task has taken.
type place struct {
	gates    *gates
	endpoint string
	left     bool
}

// leave gives the place back, the first time it is called.
func (p *place) leave(took time.Duration) {
	if !p.left {
		p.left = true
		p.gates.leave(p.endpoint, took)
	}
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
