package invariants

import (
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// delivered checks one delivery: its chains, then its requests.
func (c *checker) delivered(at pair, d *deliveryFacts) {
	for _, replay := range d.order {
		c.chainEnds(at, replay, d.chains[replay])
	}
	c.numbers(at, d)
	c.requests(at, d)
}

func (c *checker) chainEnds(at pair, replay string, ch *chain) {
	name := "the first obligation"
	if replay != "" {
		name = "replay " + replay
	}
	if len(ch.ends) != 1 {
		c.violated(RuleEnded, at, "%s ended %d times", name, len(ch.ends))
	}
	if len(ch.owed) == 0 {
		// A replay that cannot be carried out is cancelled without being owed.
		if !ch.asked || len(ch.attempts) > 0 {
			c.violated(RuleOrder, at, "%s was never owed", name)
		}
		return
	}
	if len(ch.owed) > 1 {
		c.violated(RuleOwed, at, "%s is owed %d times", name, len(ch.owed))
	}
	owed, last := ch.owed[0].Idx, 0
	for _, a := range ch.attempts {
		if a.Idx < owed {
			c.violated(RuleOrder, at, "%s: attempt %d at index %d precedes the obligation at %d", name, a.Record.Attempt, a.Idx,
				owed)
		}
		for _, e := range ch.ends {
			if a.Idx > e.Idx {
				c.violated(RuleOrder, at, "%s: attempt %d at index %d follows the end at %d", name, a.Record.Attempt, a.Idx, e.Idx)
			}
		}
		if a.Record.Attempt <= last {
			c.violated(RuleOrder, at, "%s: attempt %d follows attempt %d", name, a.Record.Attempt, last)
		}
		last = a.Record.Attempt
	}
	for _, e := range ch.ends {
		if e.Idx < owed {
			c.violated(RuleOrder, at, "%s: the end at index %d precedes the obligation at %d", name, e.Idx, owed)
		}
	}
}

func (c *checker) numbers(at pair, d *deliveryFacts) {
	most := 0
	for n, rows := range d.attempts {
		most = max(most, n)
		if len(rows) > 1 {
			c.violated(RuleNumbers, at, "attempt %d is on record %d times", n, len(rows))
		}
	}
	for n := range d.requests {
		most = max(most, n)
	}
	for n := 1; n <= most; n++ {
		if len(d.attempts[n]) == 0 && len(d.requests[n]) == 0 {
			c.violated(RuleNumbers, at, "nothing is on record of attempt %d, and there are %d", n, most)
		}
	}
}

// answered are the outcomes that tell of a response, so that there was a request.
var answered = []string{"delivered", "status_retryable", "status_terminal", "redirect", "informational_final"}

func (c *checker) requests(at pair, d *deliveryFacts) {
	for _, n := range slices.Sorted(maps.Keys(d.requests)) {
		rs := d.requests[n]
		if len(rs) > 1 {
			c.violated(RuleOneRequest, at, "%d requests have number %d, %s apart", len(rs), n, rs[len(rs)-1].At.Sub(rs[0].At))
		}
		if len(d.attempts[n]) == 0 {
			c.violated(RuleOnRecord, at, "nothing is on record of request %d", n)
		}
		for _, r := range rs {
			c.request(at, d, r)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(d.attempts)) {
		for _, a := range d.attempts[n] {
			if slices.Contains(answered, a.Record.Outcome) && len(d.requests[n]) == 0 {
				c.violated(RuleHappened, at, "attempt %d is on record as %s, and the receiver has no request", n, a.Record.Outcome)
			}
		}
	}
}

func (c *checker) request(at pair, d *deliveryFacts, r Request) {
	if r.Signature != nil {
		c.violated(RuleSignature, at, "request %d: %v", r.Attempt, r.Signature)
	}
	if r.BodyID != r.EventID {
		c.violated(RuleSignature, at, "request %d: webhook-id is %q, the body's id %q", r.Attempt, r.EventID, r.BodyID)
	}
	for _, a := range d.attempts[r.Attempt] {
		if by := a.Record.DeliverBy; !by.IsZero() && r.At.Sub(by) > c.h.Tolerance {
			c.violated(RuleDeadline, at, "request %d came %s after its deadline", r.Attempt, r.At.Sub(by))
		}
		if a.Record.Outcome == string(outcome.Unknown) {
			continue // the process that knew the digest died
		}
		if a.Record.PayloadDigest != r.Digest {
			c.violated(RuleDigest, at, "request %d: received %s, on record %s (%s)", r.Attempt, r.Digest, a.Record.PayloadDigest,
				a.Record.Outcome)
		}
	}
	for _, ch := range d.chains {
		for i, a := range ch.attempts {
			if a.Record.Attempt != r.Attempt || i == 0 {
				continue
			}
			due := ch.attempts[i-1].Record.NextAttemptAt
			if early := due.Sub(r.At); early > c.h.Tolerance {
				c.violated(RuleDue, at, "request %d came %s before it was due", r.Attempt, early)
			}
		}
	}
}
