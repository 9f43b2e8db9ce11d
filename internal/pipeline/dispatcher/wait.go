package dispatcher

import (
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
)

const (
	// waitSlack is added to a delay that is known only from when its message was
	// stored: later than it was decided, and by another clock.
	waitSlack = time.Minute
	// waitsKept is how long after its end a wait is remembered that nobody came
	// back to: another dispatcher has it.
	waitsKept = 10 * time.Minute
)

// waits see that nobody waits longer than was decided. What is due is a time on
// the wall, and that clock may be set back by any length. So whoever is told to
// wait is remembered with the end of it on the clock that only runs: whichever
// end comes first ends the wait.
type waits struct {
	running func() time.Time // never set, only runs

	mu   sync.Mutex // guards what follows
	ends map[string]time.Time
	most int // when that many are remembered, those that are long over are let go
}

func newWaits(running func() time.Time) *waits {
	return &waits{running: running, ends: map[string]time.Time{}, most: 1024}
}

// left is how much longer to wait until a time, of a wait that was to be as long
// as delay at most; 0: no longer. key says which wait it is.
func (w *waits) left(key string, until, now time.Time, delay time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	running := w.running()
	left := until.Round(0).Sub(now.Round(0))
	if end, known := w.ends[key]; known {
		left = min(left, end.Sub(running))
	} else if left = min(left, delay); left > 0 {
		w.letGo(running)
		w.ends[key] = running.Add(left)
	}
	if left <= 0 {
		delete(w.ends, key)
		return 0
	}
	return left
}

// letGo is held under w.mu.
func (w *waits) letGo(running time.Time) {
	if len(w.ends) < w.most {
		return
	}
	for key, end := range w.ends {
		if running.Sub(end) > waitsKept {
			delete(w.ends, key)
		}
	}
	w.most = max(1024, 2*len(w.ends))
}

// waitFor is how much longer a delivery waits until it is due.
func (d *Dispatcher) waitFor(m stage.Message, delivery delivery.Delivery) time.Duration {
	delay := delivery.Wait
	if delay == 0 {
		delay = delivery.Due.Sub(m.StoredAt) + waitSlack
	}
	key := fmt.Sprintf("%s/%s/%s/%d/%d", delivery.EventID, delivery.EndpointID, delivery.Replay, delivery.Attempts,
		delivery.Due.UnixNano())
	return d.waits.left(key, delivery.Due, d.clock.Now(), delay)
}

// mayRun is how much longer the attempt of a claim may be running.
func (d *Dispatcher) mayRun(c claim) time.Duration {
	return d.waits.left("claim/"+c.AttemptID, c.LeaseUntil, d.clock.Now(), c.LeaseUntil.Sub(c.StartedAt))
}
