package watchdog

import (
	"crypto/sha256"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
)

// key is a digest of what is owed: a delivery or one of its replays, a rejected
// event, an alarm. 128 bits: of a billion, two are the same with a chance of
// one in 10^21.
type key [16]byte

func keyOf(about string) key {
	sum := sha256.Sum256([]byte(about))
	return key(sum[:16])
}

// aboutDelivery is the id that the record of the delivery's dead letter has, or
// would have: what says that a delivery is overdue and what says that it is dead
// concern the same thing, so people are told once.
func aboutDelivery(r *record.Record) string {
	return record.EndID(record.DeliveryDeadLetter, r.EventID, r.EndpointID, r.ReplayID)
}

// phase of an obligation:
//
//	open ──delivered, cancelled──▶ (forgotten)
//	 │  └──dead letter──▶ untold ──people are told──▶ (forgotten)
//	 └──people are told──▶ told ──dead letter──▶ (forgotten)
type phase uint8

const (
	open   phase = iota // owed, and no verdict is on record
	untold              // people must be told, and no record says that they were
	told                // people were told before there was a verdict
)

// Marks of what is on record about an obligation.
const (
	handedOver uint8 = 1 << iota // the watchdog asked the escalator
	tallied                      // it is on record that nobody was told in time
	retried                      // an attempt was made, so at is when the next is due
	orphan                       // told, and what it was about is not known
)

// entry is all that is kept of one obligation. With its key it is 56 bytes: a
// hundred thousand deliveries that wait for a retry cost a few megabytes. What
// else there is to know stands in the record at last.
type entry struct {
	at    int64  // open: when attempts end, or without deadline when the next is due; else when it ended. Unix ms
	by    int64  // deliver_by, Unix ms; 0: none
	first uint64 // sequence in LEDGER of the first record about it
	last  uint64 // of the last one that names it in full
	phase phase
	marks uint8
}

// obligations are what LEDGER says is owed: to receivers, and to people. They
// belong to one goroutine.
type obligations struct {
	by      map[key]entry
	doubts  map[key]int64 // of those: what may have ended before it was stated again; since when, Unix ms
	waiting []key         // of those: what needed something at the last survey
}

func newObligations() *obligations {
	return &obligations{by: map[key]entry{}, doubts: map[key]int64{}}
}

// settle is how long after a record was made a verdict may be missing without
// anything being wrong.
const settle = time.Second

// apply takes in one record. Records are applied in their order, but for those
// published at the same moment: a telling may come before its dead letter.
func (o *obligations) apply(r *record.Record, seq uint64) {
	switch r.Kind {
	case record.DeliveryOwed:
		o.owed(r, seq)
	case record.Attempt:
		o.attempted(r, seq)
	case record.DeliveryCancelled:
		o.forget(keyOf(aboutDelivery(r)))
	case record.DeliveryDeadLetter:
		_, known := o.by[keyOf(r.ID)]
		o.ended(keyOf(r.ID), r, seq)
		if !known {
			o.doubtful(keyOf(r.ID), firstAt(r))
		}
	case record.EventRejected:
		o.ended(keyOf(r.ID), r, seq)
		if since, ok := late(r); ok {
			o.doubtful(keyOf(r.ID), since)
		}
	case record.OperatorAction:
		o.acted(r, seq)
	case record.Escalation:
		o.escalated(r, seq)
	case record.EscalationAcked:
		if r.EndpointID != "" {
			o.told(keyOf(aboutDelivery(r)), r, seq)
		}
	}
}

func (o *obligations) owed(r *record.Record, seq uint64) {
	k := keyOf(aboutDelivery(r))
	if _, ok := o.by[k]; ok {
		return // stated again
	}
	from := r.StoredAt
	if r.ReplayID != "" || from.IsZero() {
		from = r.At
	}
	o.by[k] = openEntry(from, r, seq)
	if since, ok := late(r); ok {
		o.doubtful(k, since)
	}
}

// openEntry is a delivery whose window began at from.
func openEntry(from time.Time, r *record.Record, seq uint64) entry {
	e := entry{at: r.At.UnixMilli(), first: seq, last: seq}
	if !r.DeliverBy.IsZero() {
		until := retry.AttemptsUntil(retry.Budget{Policy: retry.Urgent(), FirstAt: from, DeliverBy: r.DeliverBy})
		// What was owed too late cannot have a verdict before it was owed.
		e.at, e.by = max(until.UnixMilli(), r.At.Add(settle).UnixMilli()), r.DeliverBy.UnixMilli()
	}
	return e
}

// attempted: the decision on record says what follows.
func (o *obligations) attempted(r *record.Record, seq uint64) {
	k := keyOf(aboutDelivery(r))
	e, ok := o.by[k]
	if r.Decision == string(outcome.VerdictDelivered) {
		if ok && e.phase != untold {
			o.forget(k)
		}
		return
	}
	if !ok { // its record of being owed is no longer in LEDGER
		e = openEntry(r.StartedAt, r, seq)
		defer o.doubtful(k, r.StartedAt)
	}
	if e.phase != open {
		return
	}
	e.last = seq
	e.marks |= retried
	if e.by == 0 {
		e.at = max(r.NextAttemptAt.UnixMilli(), r.At.UnixMilli())
	}
	o.by[k] = e
}

// ended makes people owed a word, unless they have it.
func (o *obligations) ended(k key, r *record.Record, seq uint64) {
	e, ok := o.by[k]
	if ok && e.phase == told {
		o.forget(k)
		return
	}
	if !ok {
		e.first = seq
	}
	e.phase, e.at, e.by, e.last = untold, r.At.UnixMilli(), 0, seq
	if !r.DeliverBy.IsZero() {
		e.by = r.DeliverBy.UnixMilli()
	}
	o.by[k] = e
}

// acted takes in what the watchdog, or another one, did.
func (o *obligations) acted(r *record.Record, seq uint64) {
	if r.Actor != Actor {
		return
	}
	switch r.Action {
	case actionRaised, actionRepeated:
		if r.Reason == string(NobodyToTell) {
			return // whom to tell is what it says is missing
		}
		o.ended(keyOf(r.ID), r, seq)
	case actionNotTold:
		o.mark(keyOf(r.Detail), tallied)
	}
}

func (o *obligations) escalated(r *record.Record, seq uint64) {
	about := record.EscalationAbout(r.ID)
	if r.EndpointID != "" {
		about = aboutDelivery(r)
	}
	k := keyOf(about)
	switch {
	case r.Action == actionHandedOver:
		o.mark(k, handedOver)
	case r.Class == classDelivered && r.Action != "resolve":
		o.told(k, r, seq)
	}
}

func (o *obligations) mark(k key, m uint8) {
	if e, ok := o.by[k]; ok {
		e.marks |= m
		o.by[k] = e
	}
}

// told: a person has the word. Of what is not known, or not yet, it is kept for
// a while.
func (o *obligations) told(k key, r *record.Record, seq uint64) {
	e, ok := o.by[k]
	if ok && e.phase == untold {
		o.forget(k)
		return
	}
	if !ok {
		e = entry{first: seq, last: seq, marks: orphan}
	}
	if e.phase == open {
		e.phase, e.at = told, r.At.UnixMilli()
	}
	o.by[k] = e
}

// oldest is the first sequence that whoever starts anew has to read to know the
// same; next when nothing is owed.
func (o *obligations) oldest(next uint64) uint64 {
	for _, e := range o.by {
		next = min(next, e.first)
	}
	return next
}
