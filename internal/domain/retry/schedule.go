package retry

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Next returns the wait between the end of attempt number attemptsMade and the
// next one. ok is false when the policy allows no further attempt. rnd returns
// uniform values in [0,1); values outside are clamped, so a faulty source can
// neither shorten a fixed delay nor pass the cap.
//
// Window is not looked at: it is a matter of time, not of counting.
func Next(p Policy, attemptsMade int, rnd func() float64) (delay time.Duration, ok bool) {
	if most := p.Attempts(); most > 0 && attemptsMade >= most {
		return 0, false
	}
	if attemptsMade <= 0 {
		return 0, true
	}
	if p.FullJitter() {
		return time.Duration(unit(rnd) * float64(ceiling(p, attemptsMade-1))), true
	}
	if attemptsMade > len(p.Delays) {
		return 0, false
	}
	d := p.Delays[attemptsMade-1]
	return d + time.Duration(unit(rnd)*p.Stretch*float64(d)), true
}

// NextWithin is Next when attempts end after left; 0: they do not. With full
// jitter the wait is then drawn within what is left, so that the time that was
// promised is used to its end: one that is drawn beyond it would give up early.
// No more than Base from the end there is no use in another one.
func NextWithin(p Policy, attemptsMade int, left time.Duration, rnd func() float64) (delay time.Duration, ok bool) {
	if p.FullJitter() && left > p.Base {
		p.Cap = min(p.Cap, left)
	}
	return Next(p, attemptsMade, rnd)
}

// ceiling returns min(Cap, Base·2ⁿ) by doubling only while the result stays
// below Cap, so that it cannot overflow for any n.
func ceiling(p Policy, n int) time.Duration {
	c := p.Base
	for ; n > 0 && c < p.Cap; n-- {
		if c > p.Cap/2 {
			return p.Cap
		}
		c *= 2
	}
	return min(c, p.Cap)
}

func unit(rnd func() float64) float64 {
	if f := rnd(); f > 0 && f < 1 {
		return f
	} else if f >= 1 {
		return 1
	}
	return 0 // Also for NaN.
}

// Random is the source of randomness for production. Safe for concurrent use.
func Random() float64 { return rand.Float64() }

// Seeded returns a source that yields the same sequence for the same seed, so
// that a test can pin the jitter. Safe for concurrent use.
func Seeded(seed uint64) func() float64 {
	var mu sync.Mutex // Guards r.
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}
