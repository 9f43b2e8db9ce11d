package audit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// What can be wrong with a delivery, or with the ledger's order.
const (
	NotOwed         = "not_owed"            // promised by event.accepted, and no delivery.owed
	NotPromised     = "not_promised"        // owed, and not listed by event.accepted
	EventMissing    = "event_missing"       // nothing is on record of the event itself
	OwedCount       = "owed_count"          // event.accepted counts other than is owed
	AttemptNotOwed  = "attempt_not_owed"    // attempts of an obligation that is not on record
	EndNotOwed      = "end_not_owed"        // an end of one that is not on record
	OwedTwice       = "owed_twice"          // two records make the same obligation
	TwoEnds         = "two_ends"            // it ended more than once
	AttemptAfterEnd = "attempt_after_end"   // it was attempted after its end
	AttemptMissing  = "attempt_missing"     // a number below the highest is not on record
	AttemptTwice    = "attempt_twice"       // two records have one number
	LedgerGap       = "ledger_gap"          // LEDGER lost messages, and the sink said so
	IndexMissing    = "index_missing"       // indices of the ledger that no row has
	IndexTwice      = "index_twice"         // an index that two rows have
	NotInClickHouse = "not_in_clickhouse"   // LEDGER holds a record that ClickHouse does not
	NotInLedger     = "not_in_ledger"       // ClickHouse holds a record that LEDGER does not
	Differs         = "differs_from_ledger" // both hold it, and its bytes differ
	OutOfOrder      = "out_of_order"        // the indices are not in LEDGER's order

	EventUnknown      = "event_unknown"       // EVENTS never had the event that a record is about
	EventDiffers      = "event_differs"       // EVENTS has another event there
	AttemptNotClaimed = "attempt_not_claimed" // CLAIMS has no claim of an attempt
)

// Mismatch is one thing that is not as a whole ledger has it.
type Mismatch struct {
	Tenant     string    `json:"tenant"`
	EventID    string    `json:"event_id"`
	EndpointID string    `json:"endpoint_id"`
	At         time.Time `json:"at,omitzero"` // when the event was accepted, or the first that is known of it
	What       string    `json:"what"`
	Detail     string    `json:"detail"`
}

// Balance is what became of the deliveries of events that were accepted on one
// day, of one tenant, to one endpoint.
type Balance struct {
	Day          string `ch:"day_" json:"day"`
	Tenant       string `ch:"tenant" json:"tenant"`
	EndpointID   string `ch:"endpoint_id" json:"endpoint_id"`
	Accepted     uint64 `ch:"accepted" json:"accepted"` // deliveries that accepted events became
	Delivered    uint64 `ch:"delivered" json:"delivered"`
	DeadLettered uint64 `ch:"dead_lettered" json:"dead_lettered"`
	Cancelled    uint64 `ch:"cancelled" json:"cancelled"`
	Pending      uint64 `ch:"pending" json:"pending"`
	NotOwed      uint64 `ch:"not_owed" json:"not_owed"` // promised, and not on record as owed
	// begun in a month that is retired; counted nowhere else
	BegunRetired    uint64   `ch:"begun_retired_" json:"begun_retired"`
	Attempts        uint64   `ch:"attempts" json:"attempts"`
	AttemptsUnknown uint64   `ch:"attempts_unknown" json:"attempts_unknown"`
	WithDeadline    uint64   `ch:"with_deadline" json:"with_deadline"`
	WithinDeadline  uint64   `ch:"within_deadline" json:"within_deadline"`
	Mismatched      uint64   `ch:"mismatched" json:"mismatched"`
	Unsettled       uint64   `ch:"unsettled" json:"not_settled"` // counted nowhere else: see Filter.Settled
	Buckets         []int32  `ch:"buckets" json:"-"`             // latency, see Latency
	Counts          []uint64 `ch:"counts" json:"-"`
}

// Ended is the right side of the equation.
func (b Balance) Ended() uint64 { return b.Delivered + b.DeadLettered + b.Cancelled + b.Pending }

// Balanced says whether every delivery is accounted for.
func (b Balance) Balanced() bool { return b.Accepted == b.Ended() && b.Mismatched == 0 }

// Add sums what is not a name.
func (b *Balance) Add(o Balance) {
	b.Accepted += o.Accepted
	b.Delivered += o.Delivered
	b.DeadLettered += o.DeadLettered
	b.Cancelled += o.Cancelled
	b.Pending += o.Pending
	b.NotOwed += o.NotOwed
	b.BegunRetired += o.BegunRetired
	b.Attempts += o.Attempts
	b.AttemptsUnknown += o.AttemptsUnknown
	b.WithDeadline += o.WithDeadline
	b.WithinDeadline += o.WithinDeadline
	b.Mismatched += o.Mismatched
	b.Unsettled += o.Unsettled
	b.Buckets = append(slices.Clone(b.Buckets), o.Buckets...)
	b.Counts = append(slices.Clone(b.Counts), o.Counts...)
}

// Fold sums rows that key says belong together, ordered by the key.
func Fold(rows []Balance, key func(Balance) Balance) []Balance {
	at := map[[3]string]int{}
	out := []Balance{}
	for _, r := range rows {
		k := key(r)
		name := [3]string{k.Day, k.Tenant, k.EndpointID}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, Balance{Day: k.Day, Tenant: k.Tenant, EndpointID: k.EndpointID})
		}
		out[i].Add(r)
	}
	slices.SortFunc(out, func(a, b Balance) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return out
}

// ByDay is a key for Fold: a sum for each day.
func ByDay(b Balance) Balance { return Balance{Day: b.Day} }

// ByEndpoint is a key for Fold: a sum for each tenant's endpoint.
func ByEndpoint(b Balance) Balance { return Balance{Tenant: b.Tenant, EndpointID: b.EndpointID} }

// Total is a key for Fold: one sum of all.
func Total(Balance) Balance { return Balance{} }

// Worst keeps the most endpoints: those with mismatches, then those with the most
// dead letters, then those that are owed the most.
func Worst(rows []Balance, most int) []Balance {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b Balance) int {
		return cmp.Or(cmp.Compare(b.Mismatched, a.Mismatched), cmp.Compare(b.DeadLettered, a.DeadLettered),
			cmp.Compare(b.Accepted, a.Accepted))
	})
	return out[:min(most, len(out))]
}

// Events counts events by what became of them.
type Events struct {
	Accepted  uint64 `ch:"accepted" json:"accepted"`
	Unmatched uint64 `ch:"unmatched" json:"unmatched"`
	Rejected  uint64 `ch:"rejected" json:"rejected"`
}

// Compared is what came of comparing LEDGER with ClickHouse.
type Compared struct {
	FirstSeq uint64 `json:"first_seq"` // of LEDGER
	LastSeq  uint64 `json:"last_seq"`
	Records  uint64 `json:"records"`  // that both hold alike
	Restated uint64 `json:"restated"` // messages whose record was there before
	Waiting  uint64 `json:"waiting"`  // messages that the sink has not come to
}

// Completeness is the answer of audit completeness.
type Completeness struct {
	Question   Question   `json:"question"`
	Filter     Filter     `json:"filter"`
	Balanced   bool       `json:"balanced"`
	Notes      []string   `json:"notes"`
	Events     Events     `json:"events"`
	Total      Balance    `json:"total"`
	Rows       []Balance  `json:"rows"`
	Mismatches []Mismatch `json:"mismatches"`
	More       uint64     `json:"more"` // mismatches that are not shown
	Compared   *Compared  `json:"compared,omitempty"`
	Vouched    *Vouched   `json:"vouched,omitempty"`
	Query      string     `json:"query"`
}

// NewCompleteness weighs balances and mismatches. more are mismatches that were
// counted and not listed.
func NewCompleteness(f Filter, e Events, rows []Balance, mismatches []Mismatch, more uint64,
	compared *Compared) Completeness {
	q := questionOf("completeness")
	c := Completeness{Question: q, Filter: f, Events: e, Rows: none(rows), Mismatches: none(dedupe(mismatches)),
		More: more, Compared: compared, Query: query(q.View, f), Notes: []string{}}
	if t := Fold(rows, Total); len(t) == 1 {
		c.Total = t[0]
	}
	c.Balanced = len(c.Mismatches) == 0 && more == 0 && c.Total.Balanced()
	t := c.Total
	note := func(format string, args ...any) { c.Notes = append(c.Notes, fmt.Sprintf(format, args...)) }
	if e == (Events{}) && len(rows) == 0 {
		note("Nothing is on record: %s.", f)
	} else {
		note("%s accepted, %d unmatched, %d rejected.", text.Count(e.Accepted, "event", "events"), e.Unmatched, e.Rejected)
		note("%s owed = %d delivered + %d dead-lettered + %d cancelled + %d pending%s.",
			text.Count(t.Accepted, "delivery", "deliveries"),
			t.Delivered, t.DeadLettered, t.Cancelled, t.Pending,
			unless(t.NotOwed == 0, fmt.Sprintf(" + %d not on record as owed", t.NotOwed)))
	}
	if t.BegunRetired > 0 {
		note("%s begun in a month that has been retired, so the beginning is not on record; counted here alone.",
			text.Count(t.BegunRetired, "delivery was", "deliveries were"))
	}
	if t.AttemptsUnknown > 0 {
		note("%s an outcome that is unknown: a process died during the request. Each is on record with its number.",
			text.Count(t.AttemptsUnknown, "attempt has", "attempts have"))
	}
	if t.Unsettled > 0 {
		note("Not settled yet: %s begun after %s may have records on the way. Ask again in a minute.",
			text.Count(t.Unsettled, "delivery that was", "deliveries that were"), f.Settled.Format(time.RFC3339))
	}
	if compared != nil {
		note("LEDGER holds messages %d to %d: %s the same in ClickHouse, byte for byte (%s a record again).",
			compared.FirstSeq, compared.LastSeq, text.Count(compared.Records, "record is", "records are"),
			text.Count(compared.Restated, "message states", "messages state"))
	}
	if compared != nil && compared.Waiting > 0 {
		note("Not settled yet: %s of LEDGER not in ClickHouse yet. Ask again, or see waybill doctor.",
			text.Count(compared.Waiting, "message is", "messages are"))
	}
	if !c.Balanced {
		note("%s", c.unbalanced())
	} else if len(rows) > 0 {
		note("Balanced: nothing is unaccounted for.")
	}
	return c
}

// unbalanced says how much does not match.
func (c Completeness) unbalanced() string {
	return fmt.Sprintf("NOT balanced: %s.", text.Count(uint64(len(c.Mismatches))+c.More, "mismatch", "mismatches"))
}

func unless(cond bool, s string) string {
	if cond {
		return ""
	}
	return s
}

// dedupe keeps each mismatch once: windows of a long period may overlap.
func dedupe(list []Mismatch) []Mismatch {
	seen := map[Mismatch]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(m Mismatch) bool {
		was := seen[m]
		seen[m] = true
		return was
	})
}

// Stated is a message of LEDGER, Stored a row of ClickHouse, as they are compared.
type Stated struct {
	Seq                               uint64
	ID                                string
	Digest                            string // SHA-256 of the bytes, hex
	Tenant, EventID, EndpointID, Kind string
}

// Stored is the ledger's side.
type Stored struct {
	Idx        uint64 `ch:"idx"`
	Seq        uint64 `ch:"stream_seq"`
	ID         string `ch:"id"`
	Digest     string `ch:"digest"`
	Tenant     string `ch:"tenant"`
	EventID    string `ch:"event_id"`
	EndpointID string `ch:"endpoint_id"`
	Kind       string `ch:"kind"`
}

// CompareChunk compares one stretch of LEDGER with the rows that claim to come
// from it. Messages whose sequence has no row are returned apart: LEDGER may
// state a record again that ClickHouse has under an earlier sequence.
func CompareChunk(messages []Stated, rows []Stored) (same uint64, absent []Stated, found []Mismatch) {
	bySeq := make(map[uint64]Stored, len(rows))
	last := Stored{}
	for i, r := range rows { // by idx
		if i > 0 && r.Seq <= last.Seq && r.Kind != "ledger.gap" {
			found = append(found, Mismatch{Tenant: r.Tenant, EventID: r.EventID, EndpointID: r.EndpointID, What: OutOfOrder,
				Detail: fmt.Sprintf("index %d holds message %d of LEDGER, index %d message %d", last.Idx, last.Seq, r.Idx, r.Seq)})
		}
		if r.Kind != "ledger.gap" {
			bySeq[r.Seq], last = r, r
		}
	}
	for _, m := range messages {
		r, ok := bySeq[m.Seq]
		delete(bySeq, m.Seq)
		switch {
		case !ok:
			absent = append(absent, m)
		case r.Digest != m.Digest:
			found = append(found, Mismatch{Tenant: m.Tenant, EventID: m.EventID, EndpointID: m.EndpointID, What: Differs,
				Detail: fmt.Sprintf("message %d of LEDGER, %s %q, is not what index %d holds", m.Seq, m.Kind, m.ID, r.Idx)})
		default:
			same++
		}
	}
	left := make([]Stored, 0, len(bySeq))
	for _, r := range bySeq {
		left = append(left, r)
	}
	slices.SortFunc(left, func(a, b Stored) int { return cmp.Compare(a.Idx, b.Idx) })
	for _, r := range left {
		found = append(found, Mismatch{Tenant: r.Tenant, EventID: r.EventID, EndpointID: r.EndpointID, What: NotInLedger,
			Detail: fmt.Sprintf("index %d, %s %q, claims message %d, which LEDGER does not hold", r.Idx, r.Kind, r.ID, r.Seq)})
	}
	return same, absent, found
}
