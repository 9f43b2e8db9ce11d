// Package retry holds the schedule of attempts: pure functions of a policy, the
// number of attempts made, and a source of randomness.
package retry

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Names of the two built-in policies.
const (
	StandardName = "standard"
	UrgentName   = "urgent"
)

// DefaultWindow is the longest time that any delivery keeps being attempted when
// neither its policy nor a deadline says otherwise: receivers are told to
// remember ids for at least this long.
const DefaultWindow = 33 * time.Hour

const (
	maxDelays = 1000                // A schedule that nobody can read is a mistake.
	maxDelay  = 30 * 24 * time.Hour // Events are kept 30 days; a later attempt would have no body.
	maxCount  = 1_000_000
)

// Policy says when the attempts of one delivery happen. It has one of two shapes:
// a fixed schedule (Delays and Stretch), or full jitter (Base and Cap).
type Policy struct {
	// Name identifies the policy on record. Optional for a custom policy.
	Name string

	// MaxAttempts bounds the number of attempts, the first included. 0: as many as
	// Delays allows (its length plus one), or unbounded with full jitter.
	MaxAttempts int

	// Delays are the waits after attempt 1, 2, 3 …, counted from the end of the
	// attempt. Each is stretched by a uniform 0 … Stretch of itself.
	Delays  []time.Duration
	Stretch float64 // 0 … 1

	// Base and Cap set full jitter: the wait after attempt n is uniform in
	// 0 … min(Cap, Base·2ⁿ⁻¹).
	Base, Cap time.Duration

	// Window bounds the time: no attempt starts at or after the first one's due
	// time plus Window. 0: the policy sets no bound.
	Window time.Duration
}

// Standard is the default policy: eight attempts over 27 h 35 m to 33 h 6 m, cut at 33 h.
func Standard() Policy {
	return Policy{
		Name:        StandardName,
		MaxAttempts: 8,
		Delays: []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour, 10 * time.Hour,
		},
		Stretch: 0.2,
		Window:  DefaultWindow,
	}
}

// Urgent is the default policy of deliveries with a deadline: full jitter until
// the time is over. The cap keeps a receiver that comes back from waiting more
// than a minute; the base keeps the first retries within seconds.
func Urgent() Policy {
	return Policy{Name: UrgentName, Base: time.Second, Cap: time.Minute}
}

// Preset returns the built-in policy of that name.
func Preset(name string) (Policy, bool) {
	switch name {
	case StandardName:
		return Standard(), true
	case UrgentName:
		return Urgent(), true
	}
	return Policy{}, false
}

// FullJitter reports whether the policy draws its waits from 0 … min(Cap, Base·2ⁿ⁻¹).
func (p Policy) FullJitter() bool { return p.Base != 0 || p.Cap != 0 }

// Attempts returns the most attempts that the policy allows; 0 means unbounded.
func (p Policy) Attempts() int {
	if p.MaxAttempts == 0 && !p.FullJitter() {
		return len(p.Delays) + 1
	}
	return p.MaxAttempts
}

// Validate returns an error that names the faulty field, or nil.
func (p Policy) Validate() error {
	if len(p.Name) > 64 {
		return fmt.Errorf("retry policy: name has %d bytes; use at most 64", len(p.Name))
	}
	if p.MaxAttempts < 0 || p.MaxAttempts > maxCount {
		return fmt.Errorf("retry policy: max_attempts is %d; use 0 (as the schedule allows) to %d", p.MaxAttempts, maxCount)
	}
	if p.Window < 0 || p.Window > maxDelay {
		return fmt.Errorf("retry policy: window is %s; use 0s (none) to %s", format(p.Window), format(maxDelay))
	}
	if math.IsNaN(p.Stretch) || p.Stretch < 0 || p.Stretch > 1 {
		return fmt.Errorf("retry policy: stretch is %v; use 0 to 1 (0.2 stretches each delay by up to 20 %%)", p.Stretch)
	}
	if p.FullJitter() {
		return p.validateJitter()
	}
	return p.validateDelays()
}

func (p Policy) validateJitter() error {
	switch {
	case len(p.Delays) > 0:
		return errors.New("retry policy: has both delays and base/cap; use delays for a fixed schedule or base and cap " +
			"for full jitter")
	case p.Stretch != 0:
		return errors.New("retry policy: stretch applies to delays only; remove it or use delays instead of base and cap")
	case p.Base <= 0 || p.Base > maxDelay:
		return fmt.Errorf("retry policy: base is %s; use more than 0s, up to %s", format(p.Base), format(maxDelay))
	case p.Cap < p.Base || p.Cap > maxDelay:
		return fmt.Errorf("retry policy: cap is %s; use at least base (%s), up to %s", format(p.Cap), format(p.Base),
			format(maxDelay))
	}
	return nil
}

func (p Policy) validateDelays() error {
	if len(p.Delays) == 0 && p.MaxAttempts != 1 {
		return errors.New("retry policy: has neither delays nor base and cap; set one of them, or max_attempts to 1 for " +
			"no retry at all")
	}
	if len(p.Delays) > maxDelays {
		return fmt.Errorf("retry policy: has %d delays; use at most %d", len(p.Delays), maxDelays)
	}
	for i, d := range p.Delays {
		if d < 0 || d > maxDelay {
			return fmt.Errorf("retry policy: delays[%d] is %s; use 0s to %s", i, format(d), format(maxDelay))
		}
	}
	if p.MaxAttempts > len(p.Delays)+1 {
		return fmt.Errorf("retry policy: max_attempts is %d but %d delays allow only %d attempts; add delays or lower "+
			"max_attempts",
			p.MaxAttempts, len(p.Delays), len(p.Delays)+1)
	}
	return nil
}
