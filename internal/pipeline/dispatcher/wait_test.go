package dispatcher

import (
	"fmt"
	"testing"
	"time"
)

// Whatever the clock on the wall does, nobody waits longer than was decided; and
// as long as nobody sets it, nobody waits less.
func TestNobodyWaitsLongerThanWasDecided(t *testing.T) {
	began := time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		jump time.Duration // of the wall, a second after the wait began
		left time.Duration // three seconds after it began
	}{
		"nobody sets the clock":  {0, 3 * time.Second},
		"an hour back":           {-time.Hour, 3 * time.Second},
		"a second back":          {-time.Second, 3 * time.Second},
		"two seconds forward":    {2 * time.Second, time.Second},
		"three hours forward":    {3 * time.Hour, 0},
		"back by less than left": {-2500 * time.Millisecond, 3 * time.Second},
	} {
		running := began
		w := newWaits(func() time.Time { return running })
		due := began.Add(6 * time.Second)
		if left := w.left("a", due, began, 6*time.Second); left != 6*time.Second {
			t.Errorf("%s: %s left at the beginning", name, left)
		}
		running = began.Add(3 * time.Second)
		if left := w.left("a", due, running.Add(c.jump), 6*time.Second); left != c.left {
			t.Errorf("%s: %s left, want %s", name, left, c.left)
		}
		running = began.Add(6 * time.Second)
		if left := w.left("a", due, running.Add(c.jump), 6*time.Second); c.left > 0 && left != 0 {
			t.Errorf("%s: %s left at the end", name, left)
		}
	}
}

// A process that starts after the clock was set back does not know for how long
// a delivery has waited: it waits for the delay once more, at most.
func TestWhoeverStartsAfterTheClockWasSetBackWaitsForTheDelayAtMost(t *testing.T) {
	running := time.Now()
	w := newWaits(func() time.Time { return running })
	due := running.Add(time.Hour)
	if left := w.left("a", due, running, 6*time.Second); left != 6*time.Second {
		t.Errorf("%s left", left)
	}
	running = running.Add(6 * time.Second)
	if left := w.left("a", due, running, 6*time.Second); left != 0 {
		t.Errorf("%s left after the delay", left)
	}
}

func TestWaitsThatNobodyComesBackToAreLetGo(t *testing.T) {
	running := time.Now()
	w := newWaits(func() time.Time { return running })
	for i := range 100_000 {
		running = running.Add(time.Second)
		w.left(fmt.Sprint(i), running.Add(time.Second), running, time.Second)
	}
	if n := len(w.ends); n > 3000 {
		t.Errorf("%d waits are remembered", n)
	}
}
