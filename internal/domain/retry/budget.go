package retry

import "time"

// Budget is what a delivery may spend. It is pure, and shared by those who make the
// attempts and those who watch that they end in time: the two must not differ in
// when that is.
type Budget struct {
	Policy Policy

	// FirstAt is when the delivery was owed: the windows start here, not at the
	// first attempt, so that time spent in a queue counts.
	FirstAt time.Time

	// DeliverBy is the promise to the producer. Zero: none was made.
	DeliverBy time.Time

	// Reserve is kept free before DeliverBy for telling a human. 0: DefaultReserve
	// of the time between FirstAt and DeliverBy. Negative: none.
	Reserve time.Duration

	// EverResponded is true when an earlier attempt of this delivery got an HTTP
	// response, whatever its status.
	EverResponded bool
}

// AttemptsUntil returns when attempts end: the earlier of DeliverBy less the
// reserve, and FirstAt plus the policy's window. A budget without a deadline whose
// policy bounds neither time nor number ends after DefaultWindow: no
// delivery is attempted for ever. The zero time means that only the number of
// attempts bounds the budget.
func AttemptsUntil(b Budget) time.Time {
	until, _ := End(b)
	return until
}

// End is AttemptsUntil, and says whether it is the deadline that ends the attempts.
func End(b Budget) (until time.Time, deadline bool) {
	window := b.Policy.Window
	if b.DeliverBy.IsZero() {
		window = b.Policy.Bound()
	}
	if window > 0 && !b.FirstAt.IsZero() {
		until = b.FirstAt.Add(window)
	}
	if b.DeliverBy.IsZero() {
		return until, false
	}
	if last := b.DeliverBy.Add(-reserve(b)); until.IsZero() || last.Before(until) {
		return last, true
	}
	return until, false
}

func reserve(b Budget) time.Duration {
	if b.Reserve < 0 || b.FirstAt.IsZero() && b.Reserve == 0 {
		return 0
	}
	window := b.DeliverBy.Sub(b.FirstAt)
	if b.Reserve == 0 {
		return DefaultReserve(window)
	}
	if b.FirstAt.IsZero() {
		return b.Reserve
	}
	return max(0, min(b.Reserve, window))
}

// AttemptTimeout cuts the timeout of an attempt that starts now to the time left
// in the budget. 0 means that there is none left: make no attempt.
func AttemptTimeout(b Budget, now time.Time, timeout time.Duration) time.Duration {
	until := AttemptsUntil(b)
	if until.IsZero() {
		return timeout
	}
	return max(0, min(timeout, until.Sub(now)))
}
