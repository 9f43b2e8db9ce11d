package retry

import (
	"math"
	"time"
)

const (
	minReserve = 10 * time.Second // One message to a chat or a pager, with one retry.
	maxReserve = 5 * time.Minute
	maxSteps   = 100 // Of a plan: more than anybody reads.
)

// DefaultReserve returns the time kept for escalation: a fifth of the window,
// between 10 s and 5 min, but never longer than the window.
func DefaultReserve(window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	return min(max(window/5, minReserve), maxReserve, window)
}

// Bound returns how long after it was owed a delivery may be attempted, when
// there is no deadline; 0 means that only the number of attempts ends it. A
// policy that bounds neither time nor number ends after DefaultWindow: no
// delivery is attempted for ever.
func (p Policy) Bound() time.Duration {
	if p.Window == 0 && p.Attempts() == 0 {
		return DefaultWindow
	}
	return p.Window
}

// Step is one attempt of a plan. Its times count from when the delivery was owed.
type Step struct {
	Attempt          int
	Earliest, Latest time.Duration
	Cut              bool // Latest is the end of all attempts: drawn later, there is none.
}

// Plan is what becomes of a delivery whose every attempt fails at once.
type Plan struct {
	Steps []Step
	// Ends is when attempts end; 0: when the last one was made. By the
	// deadline (Deadline), or by the policy's window.
	Ends     time.Duration
	Deadline bool
	Reserve  time.Duration // between Ends and the deadline
	More     bool          // further attempts follow, as long as there is time
	Dropped  int           // attempts of the schedule that can never be made in time
}

// Draw lays out a policy's attempts. within is the deadline, 0 for none.
func Draw(p Policy, within time.Duration) Plan {
	out := Plan{Ends: p.Window}
	if within > 0 {
		out.Reserve = DefaultReserve(within)
		if last := within - out.Reserve; out.Ends == 0 || last < out.Ends {
			out.Ends, out.Deadline = last, true
		}
	} else {
		out.Ends = p.Bound()
	}
	bounded := within > 0 || out.Ends > 0
	s := Step{Attempt: 1}
	for {
		if bounded && s.Earliest >= out.Ends {
			if !p.FullJitter() {
				out.Dropped = p.Attempts() - len(out.Steps)
			}
			return out
		}
		if bounded && s.Latest >= out.Ends {
			s.Latest, s.Cut = out.Ends, true
		}
		out.Steps = append(out.Steps, s)
		low, ok := Next(p, s.Attempt, func() float64 { return 0 })
		high, _ := Next(p, s.Attempt, func() float64 { return 1 })
		if !ok {
			return out
		}
		if len(out.Steps) == maxSteps || s.Cut && p.FullJitter() {
			out.More = true
			return out
		}
		s = Step{Attempt: s.Attempt + 1, Earliest: add(s.Earliest, low), Latest: add(s.Latest, high)}
	}
}

// add saturates: a schedule of 1,000 delays of 30 days is allowed.
func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Longest is how long the attempts of a policy that bounds their number can
// take, each of them up to timeout.
func (p Policy) Longest(timeout time.Duration) time.Duration {
	most, total := p.Attempts(), time.Duration(0)
	for range min(most, maxDelays+1) {
		total = add(total, timeout)
	}
	for _, d := range p.Delays[:min(max(most-1, 0), len(p.Delays))] {
		total = add(total, d+time.Duration(p.Stretch*float64(d)))
	}
	if !p.FullJitter() {
		return total
	}
	// Beyond maxDelays attempts every wait has long reached the cap.
	for n := range min(max(most-1, 0), maxDelays) {
		total = add(total, ceiling(p, n))
	}
	if rest := most - 1 - maxDelays; rest > 0 {
		total = add(total, time.Duration(min(float64(rest)*float64(p.Cap+timeout), math.MaxInt64/2)))
	}
	return min(total, maxLongest)
}

// maxLongest is the life of an event: nothing is attempted after it.
const maxLongest = maxDelay
