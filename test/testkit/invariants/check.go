package invariants

import (
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
)

// Check returns every violation; none means that every promise was kept.
func Check(h History) []Violation {
	c := &checker{h: h, deliveries: map[pair]*deliveryFacts{}, events: map[string][]Row{},
		owed: map[string]map[string]bool{}, owedBy: map[Contested]map[string]bool{}}
	for _, r := range h.Ledger {
		c.collect(r)
	}
	for _, r := range h.Requests {
		d := c.delivery(pair{r.EventID, r.EndpointID})
		d.requests[r.Attempt] = append(d.requests[r.Attempt], r)
	}
	c.ledger()
	c.queues()
	c.publishedEvents()
	c.acceptedEvents()
	c.contested()
	c.contents()
	c.replays()
	for _, at := range c.order {
		c.delivered(at, c.deliveries[at])
	}
	return c.found
}

// pair identifies a delivery.
type pair struct{ event, endpoint string }

// deliveryFacts is what is known of one delivery.
type deliveryFacts struct {
	chains   map[string]*chain // by replay id; "" is the first obligation
	order    []string          // of chains
	attempts map[int][]Row
	requests map[int][]Request
}

// chain is one obligation: the first one, or a replay.
type chain struct {
	owed     []Row
	attempts []Row
	ends     []Row
	asked    bool // there is a replay.requested
}

type checker struct {
	h          History
	deliveries map[pair]*deliveryFacts
	order      []pair
	events     map[string][]Row              // event.* records by event id
	owed       map[string]map[string]bool    // event to endpoints, first obligations
	owedBy     map[Contested]map[string]bool // the same, by tenant
	found      []Violation
}

func (c *checker) violated(rule Rule, at pair, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, EventID: at.event, EndpointID: at.endpoint,
		Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) delivery(at pair) *deliveryFacts {
	d := c.deliveries[at]
	if d == nil {
		d = &deliveryFacts{chains: map[string]*chain{}, attempts: map[int][]Row{}, requests: map[int][]Request{}}
		c.deliveries[at] = d
		c.order = append(c.order, at)
	}
	return d
}

func (d *deliveryFacts) chain(replay string) *chain {
	ch := d.chains[replay]
	if ch == nil {
		ch = &chain{}
		d.chains[replay] = ch
		d.order = append(d.order, replay)
	}
	return ch
}

func (c *checker) collect(row Row) {
	r := row.Record
	at := pair{r.EventID, r.EndpointID}
	switch r.Kind {
	case record.EventAccepted, record.EventUnmatched, record.EventRejected, record.EventDuplicate:
		c.events[r.EventID] = append(c.events[r.EventID], row)
	case record.DeliveryOwed:
		ch := c.delivery(at).chain(r.ReplayID)
		ch.owed = append(ch.owed, row)
		if r.ReplayID == "" {
			if of := (Contested{r.Tenant, r.EventID}); c.owedBy[of] == nil {
				c.owedBy[of] = map[string]bool{}
			}
			c.owedBy[Contested{r.Tenant, r.EventID}][r.EndpointID] = true
			if c.owed[r.EventID] == nil {
				c.owed[r.EventID] = map[string]bool{}
			}
			c.owed[r.EventID][r.EndpointID] = true
		}
	case record.Attempt:
		d := c.delivery(at)
		d.attempts[r.Attempt] = append(d.attempts[r.Attempt], row)
		ch := d.chain(r.ReplayID)
		ch.attempts = append(ch.attempts, row)
		if r.Class == string(outcome.ClassDelivered) {
			ch.ends = append(ch.ends, row)
		}
	case record.DeliveryDeadLetter, record.DeliveryCancelled:
		ch := c.delivery(at).chain(r.ReplayID)
		ch.ends = append(ch.ends, row)
	case record.ReplayRequested:
		c.delivery(at).chain(r.ReplayID).asked = true
	case record.LedgerGap:
		c.violated(RuleGap, pair{}, "sequences %d to %d", r.GapFrom, r.GapTo)
	}
}

func (c *checker) queues() {
	for _, stream := range sortedKeys(c.h.Queued) {
		if n := c.h.Queued[stream]; n > 0 {
			c.violated(RuleQueues, pair{}, "%s has %d messages", stream, n)
		}
	}
}

func (c *checker) publishedEvents() {
	for _, p := range c.h.Published {
		rows := c.events[p.ID]
		if len(rows) != 1 {
			c.violated(RuleRecorded, pair{event: p.ID}, "%d records of it", len(rows))
			continue
		}
		kind := rows[0].Record.Kind
		if p.Invalid != (kind == record.EventRejected) {
			c.violated(RuleRecorded, pair{event: p.ID}, "on record as %s (%s)", kind, rows[0].Record.Reason)
		}
		for _, endpoint := range p.Owed {
			if !p.Invalid && !c.owed[p.ID][endpoint] {
				c.violated(RuleOwed, pair{p.ID, endpoint}, "it is not owed")
			}
		}
	}
}

func (c *checker) acceptedEvents() {
	for _, id := range sortedKeys(c.events) {
		for _, row := range c.events[id] {
			if !stands(row) && len(c.events[id]) > 1 {
				continue // what is owed is owed of another one
			}
			want := row.Record.Endpoints
			if got := len(c.owedBy[Contested{row.Record.Tenant, id}]); got != want {
				c.violated(RuleOwed, pair{event: id}, "%s says %d endpoints, %d are owed it", row.Record.Kind, want, got)
			}
		}
	}
}

func (c *checker) replays() {
	for _, r := range c.h.Replayed {
		for _, endpoint := range r.Targets {
			at := pair{r.EventID, endpoint}
			if d := c.deliveries[at]; d == nil || d.chains[r.ID] == nil || !d.chains[r.ID].asked {
				c.violated(RuleReplayed, at, "nothing is on record of replay %s", r.ID)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
