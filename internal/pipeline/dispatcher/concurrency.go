package dispatcher

import (
	"context"
	"sync"
	"time"
)

const (
	// maxStall is how long an endpoint at its cap may go without an answer
	// before its deliveries are moved aside.
	maxStall = time.Second
	// minParked keeps a delivery that is moved aside from coming back before the
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
	// idleEndpoints is how many endpoints without work are remembered.
	idleEndpoints = 10_000
)

// concurrency holds the requests in flight of each endpoint to its cap. What is over
// the cap waits in memory, as long as the endpoint answers and takes no more
// than a quarter of the room there. Beyond that it is moved aside, spread over
// the time that the endpoint will need for it, so that the queue behind it goes
// on to endpoints that have nothing to do.
//
// When no such endpoint exists, moving aside would cost work and help nobody:
// then everything waits, and no more is taken from the queue.
type concurrency struct {
	// room is how many deliveries may wait in memory for all endpoints together.
	room int
	// enabled says how many endpoints there are to be busy.
	enabled func() int
	// freed is called when an endpoint has a slot again. Optional.
	freed func(endpoint string)

	mu      sync.Mutex // guards what follows, and all endpointSlots
	by      map[string]*endpointSlots
	waiting int       // deliveries that wait in memory
	counted time.Time // when allBusy was last found out
	allBusy bool
}

type endpointSlots struct {
	inFlight int
	most     int             // its cap, as last asked for
	waiters  []chan struct{} // closed when a slot is handed over, the oldest first
	took     time.Duration   // moving average of how long the endpoint takes to answer
	moved    time.Time       // when a slot was last taken or given back
	full     time.Time       // when it was last at its cap
	next     time.Time       // when the next parked delivery's turn is
}

func newConcurrency(room int, enabled func() int) *concurrency {
	return &concurrency{room: room, enabled: enabled, by: map[string]*endpointSlots{}}
}

// acquire takes a slot, waiting for one in memory if that harms nobody. release
// MUST follow when ok. Otherwise parked says how long to move the delivery aside.
func (g *concurrency) acquire(ctx context.Context, endpoint string, most int) (parked time.Duration, ok bool) {
	g.mu.Lock()
	e, now := g.of(endpoint), time.Now()
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

// open says whether another delivery for endpoint would find a slot now, or nearly:
// one that waits for the next slot keeps it from being idle. What is meant for
// an endpoint that does not answer is let in, to be moved aside.
func (g *concurrency) open(endpoint string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.by[endpoint]
	return e == nil || e.inFlight+len(e.waiters) < e.most+1+e.most/4 || time.Since(e.moved) > maxStall
}

// mayWait says whether one more delivery may wait in memory for e. g.mu is held.
func (g *concurrency) mayWait(e *endpointSlots, now time.Time) bool {
	if now.Sub(e.moved) > maxStall {
		return false
	}
	return g.waiting < g.room && len(e.waiters) < g.room/4 || g.everyoneBusy(now)
}

// everyoneBusy says whether every endpoint was at its cap just now. g.mu is held.
func (g *concurrency) everyoneBusy(now time.Time) bool {
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

// wait waits for a slot for as long as the endpoint answers.
func (g *concurrency) wait(ctx context.Context, e *endpointSlots, turn chan struct{},
	pace time.Duration) (time.Duration, bool) {
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

func (g *concurrency) stalled(e *endpointSlots) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(e.moved) > maxStall
}

// giveUp leaves the queue, unless a slot was handed over meanwhile.
func (g *concurrency) giveUp(e *endpointSlots, turn chan struct{}, pace time.Duration) (time.Duration, bool) {
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
func (e *endpointSlots) park(pace time.Duration, now time.Time) time.Duration {
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

// release hands the slot to the next in the queue, or gives it back. took is how
// long the endpoint took to answer: its call alone, so that a pipeline which is
// slow itself does not take its endpoints for slow ones. 0: none was made.
func (g *concurrency) release(endpoint string, took time.Duration) {
	g.handOver(endpoint, took)
	if g.freed != nil {
		g.freed(endpoint) // not under g.mu: it may ask open
	}
}

func (g *concurrency) handOver(endpoint string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.of(endpoint)
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

// slot is one that a delivery has taken. The zero value and nil have none.
type slot struct {
	of       *concurrency
	endpoint string
	released bool
}

// release gives the slot back, the first time it is called.
func (s *slot) release(took time.Duration) {
	if s != nil && !s.released {
		s.released = true
		s.of.release(s.endpoint, took)
	}
}

func (g *concurrency) of(endpoint string) *endpointSlots {
	e := g.by[endpoint]
	if e == nil {
		e = &endpointSlots{took: firstGuess}
		g.by[endpoint] = e
	}
	return e
}

func (g *concurrency) forget(endpoint string, e *endpointSlots) {
	if e.inFlight == 0 && len(g.by) > idleEndpoints {
		delete(g.by, endpoint)
	}
}

// inFlight counts the requests under way.
func (g *concurrency) inFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, e := range g.by {
		n += e.inFlight
	}
	return n
}
