package audit

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// EventRecord is what the ledger says of an event that EVENTS held: an
// event.accepted, event.unmatched or event.rejected.
type EventRecord struct {
	Idx        uint64    `ch:"idx"`
	ID         string    `ch:"id"`
	Kind       string    `ch:"kind"`
	At         time.Time `ch:"at"`
	Tenant     string    `ch:"tenant"`
	EventID    string    `ch:"event_id"`
	EventSeq   uint64    `ch:"event_seq"` // position in EVENTS
	StoredAt   time.Time `ch:"stored"`    // when EVENTS stored it
	DataDigest string    `ch:"digest"`    // SHA-256 of data, hex
	Epoch      int64     `ch:"epoch"`     // when the LEDGER that carried it was made, Unix ns
}

// HeldEvent is a message of EVENTS, as it is compared with a record.
type HeldEvent struct {
	Tenant, EventID, DataDigest string
	StoredAt                    time.Time
}

// EventsHeld is how far EVENTS goes back.
type EventsHeld struct {
	Created     time.Time
	First, Last uint64
	FirstAt     time.Time // when message First was stored; zero: it holds none
}

// Vouched counts the records that EVENTS and CLAIMS were asked about.
type Vouched struct {
	Events         uint64    `json:"events"`          // records of events that EVENTS has as they say
	EventsBeyond   uint64    `json:"events_beyond"`   // of events that EVENTS no longer keeps
	Attempts       uint64    `json:"attempts"`        // attempts whose claim CLAIMS has
	AttemptsBeyond uint64    `json:"attempts_beyond"` // that CLAIMS no longer keeps
	ClaimsSince    time.Time `json:"claims_since,omitzero"`
}

// eventSlack is how far apart the server's clock and the order of EVENTS may be.
const eventSlack = time.Minute

// VouchEvent compares a record with what EVENTS holds at its position; m is nil
// where it holds nothing. EVENTS MUST have been asked after the record was read:
// then every event that is on record was there before. beyond: EVENTS no longer
// goes back to it, so nothing can be said. Pure.
func VouchEvent(r EventRecord, held EventsHeld, m *HeldEvent) (found *Mismatch, beyond bool) {
	wrong := func(what, format string, args ...any) (*Mismatch, bool) {
		return &Mismatch{Tenant: r.Tenant, EventID: r.EventID, At: r.At, What: what,
			Detail: fmt.Sprintf(format, args...) + fmt.Sprintf(" (record %d, %s)", r.Idx, r.Kind)}, false
	}
	switch {
	case r.EventSeq == 0 || r.StoredAt.Unix() <= 0:
		return wrong(EventUnknown, "it does not say where EVENTS stored the event")
	case r.StoredAt.Before(held.Created) && !madeTogether(held.Created, r.Epoch):
		return nil, true // EVENTS was made anew since
	case r.StoredAt.Before(held.Created):
		return wrong(EventUnknown, "it says that EVENTS stored the event at %s, and EVENTS is of %s", stamp(r.StoredAt),
			stamp(held.Created))
	case r.EventSeq > held.Last:
		return wrong(EventUnknown, "EVENTS ends at %[2]d, it says message %[1]d", r.EventSeq, held.Last)
	case r.EventSeq < held.First && r.StoredAt.After(held.FirstAt.Add(eventSlack)) && !held.FirstAt.IsZero():
		return wrong(EventUnknown, "it says message %d of EVENTS, stored after message %d", r.EventSeq, held.First)
	case r.EventSeq < held.First:
		return nil, true
	case m == nil:
		return wrong(EventUnknown, "EVENTS holds no message %d", r.EventSeq)
	case !m.StoredAt.Equal(r.StoredAt):
		return wrong(EventDiffers, "EVENTS stored its message %d at %s, not at %s", r.EventSeq, stamp(m.StoredAt),
			stamp(r.StoredAt))
	case r.Kind == "event.rejected": // what it is of could not be read, perhaps
		return nil, false
	case m.Tenant != r.Tenant:
		return wrong(EventDiffers, "message %d of EVENTS is of tenant %q", r.EventSeq, m.Tenant)
	case m.EventID != r.EventID:
		return wrong(EventDiffers, "message %d of EVENTS is event %q", r.EventSeq, m.EventID)
	case m.DataDigest != r.DataDigest:
		return wrong(EventDiffers, "the data of message %d of EVENTS has the digest %.16s…, not %.16s…", r.EventSeq,
			m.DataDigest, r.DataDigest)
	}
	return nil, false
}

// madeTogether says that a stream is no younger than a LEDGER: all are made in
// one go, unless one was made anew.
func madeTogether(created time.Time, epoch int64) bool {
	return created.Before(time.Unix(0, epoch).Add(eventSlack))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// AttemptRecord is what the ledger says of an attempt, as it is compared with
// its claim.
type AttemptRecord struct {
	Idx        uint64    `ch:"idx"`
	ID         string    `ch:"id"`
	At         time.Time `ch:"at"`
	Tenant     string    `ch:"tenant"`
	EventID    string    `ch:"event_id"`
	EndpointID string    `ch:"endpoint_id"`
	Attempt    int64     `ch:"attempt"`
	Outcome    string    `ch:"outcome"`
	StartedAt  time.Time `ch:"started"`
	Epoch      int64     `ch:"epoch"`
}

// claimSlack is how long after its claim an attempt may be put on record: a
// request may take minutes, and the hand-off after it as long.
const claimSlack = 15 * time.Minute

// ClaimsHeld is since when CLAIMS has every claim that was made.
type ClaimsHeld struct {
	Since time.Time
	Whole bool // nothing was ever forgotten since it was made
}

// VouchAttempt says whether an attempt has its claim. CLAIMS MUST have been read
// after the record. Pure.
func VouchAttempt(r AttemptRecord, held ClaimsHeld, claimed bool) (found *Mismatch, beyond bool) {
	if claimed {
		return nil, false
	}
	when, slack := r.At, claimSlack
	if r.Outcome == string(outcome.Unknown) { // put on record by who came later, whenever that was
		when = r.StartedAt
	}
	if held.Whole {
		slack = 0
	}
	// What a LEDGER carried that is no older than CLAIMS was claimed there.
	whole := held.Whole && madeTogether(held.Since, r.Epoch)
	if !whole && when.Before(held.Since.Add(slack)) {
		return nil, true
	}
	return &Mismatch{Tenant: r.Tenant, EventID: r.EventID, EndpointID: r.EndpointID, At: r.At, What: AttemptNotClaimed,
		Detail: fmt.Sprintf("CLAIMS has no claim of %s; each attempt is claimed before it is made (record %d, attempt %d)",
			r.ID, r.Idx, r.Attempt)}, false
}

// Vouch adds what the streams were asked.
func (c *Completeness) Vouch(v Vouched) {
	c.Vouched = &v
	note := fmt.Sprintf("EVENTS has %s as the ledger says; CLAIMS has the claims of %s.",
		text.Count(v.Events, "event", "events"), text.Count(v.Attempts, "attempt", "attempts"))
	if n := v.EventsBeyond + v.AttemptsBeyond; n > 0 {
		note += fmt.Sprintf(" %s of what these streams no longer keep (%d of events, %d attempts): nothing outside of the "+
			"ledger vouches for them.",
			text.Count(n, "record is", "records are"), v.EventsBeyond, v.AttemptsBeyond)
	}
	c.Notes = append(c.Notes, note)
}
