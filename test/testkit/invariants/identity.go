package invariants

import "github.com/waybill-dev/waybill/internal/domain/record"

// stands says whether an event has its id, by its record.
func stands(row Row) bool {
	return row.Record.Kind == record.EventAccepted || row.Record.Kind == record.EventUnmatched
}

// contested checks the ids under which different events were published.
func (c *checker) contested() {
	for _, of := range c.h.Contested {
		standing, losers := 0, 0
		for _, row := range c.events[of.ID] {
			switch r := row.Record; {
			case r.Tenant != of.Tenant:
			case stands(row):
				standing++
			case r.Kind == record.EventRejected && r.Reason == "id_in_use" && r.DataDigest != "":
				losers++
			case r.Kind == record.EventRejected:
				c.violated(RuleContested, pair{event: of.ID}, "rejected for %s: %s", r.Reason, r.Detail)
			}
		}
		if standing != 1 || losers == 0 {
			c.violated(RuleContested, pair{event: of.ID}, "of tenant %s %d stand and %d are rejected", of.Tenant, standing,
				losers)
		}
	}
}

// contents checks that no receiver got two contents under an id.
func (c *checker) contents() {
	first := map[pair]Request{}
	for _, r := range c.h.Requests {
		at := pair{r.EventID, r.EndpointID}
		was, ok := first[at]
		if !ok {
			first[at] = r
			continue
		}
		if r.Content != was.Content {
			c.violated(RuleOneContent, at, "attempt %d brought %q, attempt %d brought %q", was.Attempt, was.Content, r.Attempt,
				r.Content)
		}
	}
}
