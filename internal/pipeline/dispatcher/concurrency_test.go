package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func many() int { return 1000 } // endpoints that are enabled: never are all of them busy

// fill takes every slot of an endpoint.
func fill(t *testing.T, g *concurrency, endpoint string, most int) {
	t.Helper()
	for range most {
		if _, ok := g.acquire(t.Context(), endpoint, most); !ok {
			t.Fatal("a free slot was refused")
		}
	}
}

func TestThoseThatWaitForASlotGetItInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConcurrency(1000, many)
		fill(t, g, "a", 2)
		var order []int
		for i := range 20 {
			go func() {
				if _, ok := g.acquire(t.Context(), "a", 2); !ok {
					t.Error("it was moved aside although the endpoint answers")
				}
				order = append(order, i)
			}()
			synctest.Wait()
		}
		for range 20 {
			g.release("a", time.Millisecond)
			synctest.Wait()
		}
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("the order was %v", order)
		}
		if g.inFlight() != 2 || g.waiting != 0 {
			t.Errorf("%d in flight, %d waiting; want 2 and none", g.inFlight(), g.waiting)
		}
	})
}

func TestAnEndpointThatDoesNotAnswerHasItsTasksMovedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConcurrency(1000, many)
		fill(t, g, "a", 1)
		began := time.Now()
		parked, ok := g.acquire(t.Context(), "a", 1)
		if waited := time.Since(began); ok || waited <= maxStall || waited > 2*maxStall+1 {
			t.Errorf("it waited %s; ok %v", waited, ok)
		}
		if parked < minParked || parked > maxParked {
			t.Errorf("moved aside for %s", parked)
		}
		if _, ok := g.acquire(t.Context(), "a", 1); ok || time.Since(began) > 2*maxStall+1 {
			t.Error("the next one waited although the endpoint is known to stall")
		}
		g.release("a", 3*time.Second) // it answers again
		if _, ok := g.acquire(t.Context(), "a", 1); !ok {
			t.Error("the slot that came free was refused")
		}
	})
}

func TestWhatIsMovedAsideIsSpreadAtTheEndpointsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConcurrency(4, many) // one may wait
		fill(t, g, "a", 1)
		for range 100 { // it takes 100 ms for an answer
			g.release("a", 100*time.Millisecond)
			fill(t, g, "a", 1)
		}
		go g.acquire(t.Context(), "a", 1)
		synctest.Wait()
		last := time.Duration(0)
		for i := range 500 {
			parked, ok := g.acquire(t.Context(), "a", 1)
			if ok || parked < last || parked > maxParked {
				t.Fatalf("delivery %d: ok %v, moved aside for %s after %s", i, ok, parked, last)
			}
			if apart := parked - last; i > 0 && parked < maxParked &&
				(apart < 90*time.Millisecond || apart > 110*time.Millisecond) {
				t.Fatalf("delivery %d comes %s after the one before, want 100ms", i, apart)
			}
			last = parked
		}
		g.release("a", time.Millisecond)
	})
}

func TestAFloodingEndpointDoesNotKeepAnIdleOneWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newConcurrency(100, many)
		fill(t, g, "flood", 4)
		var aside atomic.Int32
		for range 1000 {
			go func() {
				if _, ok := g.acquire(t.Context(), "flood", 4); !ok {
					aside.Add(1)
				}
			}()
		}
		synctest.Wait()
		if g.waiting > g.room/4 || int(aside.Load()) != 1000-g.waiting {
			t.Errorf("%d wait in memory, %d were moved aside; a quarter of %d may wait", g.waiting, aside.Load(), g.room)
		}
		began := time.Now()
		for i := range 50 {
			if _, ok := g.acquire(t.Context(), fmt.Sprint("idle-", i), 1); !ok || time.Since(began) > 0 {
				t.Fatalf("an idle endpoint waited %s; ok %v", time.Since(began), ok)
			}
		}
		for g.waiting > 0 {
			g.release("flood", time.Millisecond)
			synctest.Wait()
		}
	})
}

func TestWhenEveryEndpointIsBusyEverythingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enabled := 3
		g := newConcurrency(4, func() int { return enabled })
		waits := func(endpoint string) (done func() bool) {
			over := false
			go func() { g.acquire(t.Context(), endpoint, 1); over = true }()
			synctest.Wait()
			return func() bool { return over }
		}
		for _, e := range []string{"a", "b", "c"} {
			fill(t, g, e, 1)
			waits(e) // each at its cap, and the room is taken
		}
		<-time.After(2 * busyPoll)
		if waits("a")() {
			t.Error("it was moved aside although no endpoint has nothing to do")
		}
		enabled = 4 // one that is idle appears
		<-time.After(2 * busyPoll)
		if !waits("a")() {
			t.Error("it waits although an endpoint is idle")
		}
		for range 4 {
			g.release("a", 1)
			g.release("b", 1)
			g.release("c", 1)
			synctest.Wait()
			if g.waiting == 0 {
				break
			}
		}
	})
}

// Whatever is cancelled when: no endpoint is over its cap, and no slot leaks.
func TestNoPlaceLeaksUnderCancellation(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			most := 1 + rnd.IntN(4)
			g := newConcurrency(8+rnd.IntN(40), func() int { return 1 + int(seed%3) })
			var mu sync.Mutex
			inside := map[string]int{}
			var deliveries sync.WaitGroup
			for i := range 300 {
				endpoint := fmt.Sprint(rnd.IntN(3))
				work, patience := time.Duration(rnd.Int64N(int64(1500*time.Millisecond))),
					time.Duration(rnd.Int64N(int64(2*time.Second)))
				deliveries.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if _, ok := g.acquire(ctx, endpoint, most); !ok {
						return
					}
					taken := &slot{of: g, endpoint: endpoint}
					defer taken.release(0)
					mu.Lock()
					if inside[endpoint]++; inside[endpoint] > most {
						t.Errorf("%d at once, the cap is %d", inside[endpoint], most)
					}
					mu.Unlock()
					<-time.After(work)
					mu.Lock()
					inside[endpoint]--
					mu.Unlock()
					taken.release(work)
				})
				if i%7 == 0 {
					<-time.After(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
				}
			}
			deliveries.Wait()
			if g.inFlight() != 0 || g.waiting != 0 {
				t.Fatalf("%d in flight and %d waiting after everything ended", g.inFlight(), g.waiting)
			}
			for id, e := range g.by {
				if len(e.waiters) != 0 {
					t.Errorf("endpoint %s: %d waiters are left", id, len(e.waiters))
				}
				fill(t, g, id, most) // every slot can be had again
			}
		})
	}
}

func TestADeliveryIsInHandOnce(t *testing.T) {
	var h inHand
	if !h.hold("a/evt-1/") || h.hold("a/evt-1/") || !h.hold("a/evt-2/") || !h.hold("b/evt-1/") {
		t.Error("held twice, or not at all")
	}
	h.release("a/evt-1/")
	if !h.hold("a/evt-1/") {
		t.Error("not to be had again")
	}
}
