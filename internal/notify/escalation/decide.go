package escalation

import (
	"time"
)

// Pending is what an incident's channels have not been sent yet.
type Pending struct {
	Last   uint64    // revision of the last problem of the incident
	TellBy time.Time // earliest of those after Incident.Told
}

const (
	// lead is how long before its deadline what waits for its window is sent:
	// one try and a second one.
	lead = 10 * time.Second
	// hurry is the part of the window that even the nearest deadline waits for,
	// so that a burst of them is not a burst of messages.
	hurry = 10
)

// Start asks for a message on a channel.
type Start struct {
	Channel string
	Step    int // 1, 2, 3 …
	// Again repeats what the channel has told before: a reminder.
	Again bool
}

// Plan is what to do now, and when to look again.
type Plan struct {
	Starts []Start
	Steps  int  // the steps begun after Starts
	Expire bool // nobody acknowledged in time
	Alert  bool // nobody could be told in time: say so on every way there is
	// At is when the next thing is due if nothing happens before. Zero: never.
	At time.Time
}

// Next decides what an incident needs now. It is pure: the same incident at the
// same moment always gives the same plan, also in the process that takes over
// after a crash.
func Next(i *Incident, p Pending, now time.Time) Plan {
	plan := Plan{Steps: i.Steps}
	if i.State != Open {
		return plan
	}
	over := i.OpenedAt.Add(i.Policy.MaxDuration)
	if !now.Before(over) {
		plan.Expire = true
		return plan
	}
	plan.at(over)
	plan.steps(i, p, now)
	plan.updates(i, p, now)
	if told := i.Told(); told < p.Last && i.Alerted < p.Last {
		if now.Before(p.TellBy) {
			plan.at(p.TellBy)
		} else {
			plan.Alert = true
		}
	}
	return plan
}

func (p *Plan) at(t time.Time) {
	if p.At.IsZero() || t.Before(p.At) {
		p.At = t
	}
}

// start adds a message unless the channel has one in this plan.
func (p *Plan) start(s Start) {
	for _, other := range p.Starts {
		if other.Channel == s.Channel {
			return
		}
	}
	p.Starts = append(p.Starts, s)
}

// steps begins every step that is due: by time, or because everybody before it
// failed while nobody has been told.
func (p *Plan) steps(i *Incident, pending Pending, now time.Time) {
	n := len(i.Policy.Steps)
	for {
		round, k := p.Steps/n, p.Steps%n
		if round > 0 && i.Policy.Repeat <= 0 {
			return
		}
		due := i.OpenedAt.Add(time.Duration(round)*i.Policy.Repeat + i.Policy.Steps[k].After)
		failed := len(p.Starts) == 0 && k > 0 && i.Told() < pending.Last && allFailed(i, i.Policy.Steps[k-1])
		if now.Before(due) && !failed {
			p.at(due)
			return
		}
		p.Steps++
		for _, c := range i.Policy.Steps[k].Channels {
			p.start(Start{Channel: c, Step: k + 1, Again: true})
		}
	}
}

// allFailed says that each channel of a step failed and has not told since.
func allFailed(i *Incident, s Step) bool {
	for _, c := range s.Channels {
		r := i.Reach[c]
		if r == nil || r.Failures == 0 {
			return false
		}
	}
	return true
}

// updates sends what came since to the channels of the first step that has told
// anybody, or to all that were begun while none has: once per window, or
// earlier where a deadline is near.
func (p *Plan) updates(i *Incident, pending Pending, now time.Time) {
	for _, c := range updateChannels(i) {
		r := i.Reach[c]
		if r == nil || pending.Last <= max(r.Told, r.To) {
			continue
		}
		due := r.StartedAt.Add(i.Policy.Window)
		// Those that no channel has told yet cannot wait past their deadline.
		if i.Told() < pending.Last && !r.Active && r.Failures == 0 {
			soon := pending.TellBy.Add(-lead)
			if least := r.StartedAt.Add(i.Policy.Window / hurry); soon.Before(least) {
				soon = least
			}
			if soon.Before(due) {
				due = soon
			}
		}
		if now.Before(due) {
			p.at(due)
			continue
		}
		p.start(Start{Channel: c, Step: r.Step})
	}
}

func updateChannels(i *Incident) []string {
	begun := min(i.Steps, len(i.Policy.Steps))
	var all []string
	for _, s := range i.Policy.Steps[:begun] {
		for _, c := range s.Channels {
			if r := i.Reach[c]; r != nil && r.Told > 0 && r.Failures == 0 {
				return s.Channels
			}
		}
		all = append(all, s.Channels...)
	}
	return all
}

// Retries of one message.
const (
	retryBase = time.Second
	// RetryMax keeps a channel that is down for long from being called more
	// often than helps.
	RetryMax = time.Minute
	// retryParts is into how many parts the time left before the deadline is cut:
	// so many tries fit at least, however long the backoff has become.
	retryParts = 4
)

// RetryIn is how long to wait before the next try after so many failures in a
// row: full jitter below a bound that doubles, but soon enough for several
// tries before tellBy. rnd is uniform in [0,1). wish is what the receiver asked.
func RetryIn(failures int, tellBy, now time.Time, wish time.Duration, rnd float64) time.Duration {
	bound := RetryMax
	if failures < 7 {
		bound = min(retryBase<<max(failures-1, 0), RetryMax)
	}
	d := time.Duration(float64(bound) * rnd)
	d = max(d, wish, 100*time.Millisecond)
	if left := tellBy.Sub(now); left > 0 {
		d = min(d, max(left/retryParts, 50*time.Millisecond))
	}
	return d
}
