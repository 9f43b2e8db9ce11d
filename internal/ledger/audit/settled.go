package audit

import "time"

// SettleGrace is how long the records of one event may lie apart: a stage that
// is stopped between two of them is followed by one that states the rest.
const SettleGrace = time.Minute

// Settled is the position up to which an answer can be given: what lies behind
// it may still be on its way.
type Settled struct {
	// Until: all records of events that were accepted before it are in ClickHouse.
	Until time.Time
	// Known: the streams were asked, so Seq holds.
	Known bool
	// Seq of LEDGER up to which ClickHouse has it; Lacking are the messages behind it.
	Seq, Lacking uint64
}

// OnTheWay are the mismatches that end by themselves: fanout puts on record that
// an event was accepted, and then, one after the other, to whom it is owed.
func OnTheWay() []string { return []string{NotOwed, NotPromised, EventMissing, OwedCount} }
