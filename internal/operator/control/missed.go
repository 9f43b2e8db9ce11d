package control

import (
	"context"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/registry"
)

// EndpointChange is one revision of an endpoint, as the ledger has it.
type EndpointChange struct {
	At     time.Time
	Action string // "created", "updated", "enabled", "disabled", "deleted"
	Types  []string
}

// UnowedEvent is an event that was expanded and is not owed to an endpoint.
type UnowedEvent struct {
	Idx      uint64 // its record's position
	ID, Type string
	State    string    // EventAccepted or EventUnmatched
	At       time.Time // when it was expanded
	StoredAt time.Time
}

// MissedEvent is an event that an endpoint would have got, had it not been disabled.
type MissedEvent struct {
	ID       string    `json:"id"`
	Tenant   string    `json:"tenant"`
	Type     string    `json:"type"`
	State    string    `json:"state"` // "accepted": others got it; "unmatched": nobody did
	StoredAt time.Time `json:"stored_at"`
	// DisabledAt is when the endpoint had been disabled.
	DisabledAt time.Time `json:"disabled_at"`
}

// MissedPage is one page of missed events, oldest first.
type MissedPage struct {
	Events []MissedEvent `json:"events"`
	Next   string        `json:"next,omitempty"` // cursor of the following page
}

// MissedFilter narrows Missed. Zero fields do not.
type MissedFilter struct {
	Since, Until time.Time // Since <= expanded < Until
}

// missedChunk is how many events one question looks at, missedSteps how many
// questions one page asks at most: a page may be short, or empty, and have a Next.
const (
	missedChunk = 2000
	missedSteps = 20
)

// off is a time during which an endpoint was disabled, with the types that it
// subscribed to.
type off struct {
	since    time.Time // when it was disabled
	from, to time.Time // part of it, with the same types; to is zero while it lasts
	types    []string
}

// offTimes are the times during which an endpoint was disabled.
func offTimes(changes []EndpointChange) []off {
	var out []off
	var since time.Time
	for _, c := range changes {
		if !since.IsZero() {
			out[len(out)-1].to = c.At
		}
		switch c.Action {
		case "disabled":
			if since.IsZero() {
				since = c.At
			}
		case "enabled", "deleted":
			since = time.Time{}
		}
		if !since.IsZero() {
			out = append(out, off{since: since, from: c.At, types: c.Types})
		}
	}
	return out
}

// missed says whether an event was expanded while the endpoint was disabled, and
// was of a type that it subscribed to.
func missed(times []off, e UnowedEvent) (since time.Time, ok bool) {
	for _, t := range times {
		if !e.At.Before(t.from) && (t.to.IsZero() || e.At.Before(t.to)) {
			return t.since, e.Type != TestType && subscription.MatchAny(t.types, e.Type)
		}
	}
	return time.Time{}, false
}

// Missed lists the events that an endpoint was not owed because it was disabled,
// oldest first. One that was replayed to it since is not among them. limit 0 is
// DefaultPage.
func (c *Control) Missed(ctx context.Context, id string, f MissedFilter, cursor string, limit int) (MissedPage, error) {
	page := MissedPage{Events: []MissedEvent{}}
	l, err := c.ledger(ctx)
	if err != nil {
		return page, err
	}
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 1 || limit > MaxPage {
		return page, invalid("limit", "%d; want 1 to %d", limit, MaxPage)
	}
	after, err := strconv.ParseUint(cursor, 10, 64)
	if cursor != "" && err != nil {
		return page, ledgerFailed(ErrBadCursor)
	}
	e, err := c.get(ctx, id)
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	changes, err := l.EndpointChanges(ctx, id)
	if err != nil {
		return page, ledgerFailed(err)
	}
	times := offTimes(changes)
	if len(times) == 0 {
		return page, nil
	}
	from, to := times[0].from, times[len(times)-1].to
	if f.Since.After(from) {
		from = f.Since
	}
	if !f.Until.IsZero() && (to.IsZero() || f.Until.Before(to)) {
		to = f.Until
	}
	for range missedSteps {
		chunk, err := l.EventsNotOwedTo(ctx, e.Tenant, id, from, to, after, missedChunk)
		if err != nil {
			return page, ledgerFailed(err)
		}
		for _, u := range chunk {
			after = u.Idx
			since, ok := missed(times, u)
			if !ok {
				continue
			}
			page.Events = append(page.Events, MissedEvent{ID: u.ID, Tenant: e.Tenant, Type: u.Type, State: u.State,
				StoredAt: u.StoredAt, DisabledAt: since})
			if len(page.Events) == limit {
				page.Next = strconv.FormatUint(after, 10)
				return page, nil
			}
		}
		if len(chunk) < missedChunk {
			return page, nil
		}
	}
	page.Next = strconv.FormatUint(after, 10)
	return page, nil
}

// Pending is how many deliveries wait for an endpoint, as far as the ledger knows.
type Pending struct {
	Deliveries uint64
	Attempted  uint64 // those that had an attempt
}

// Stop is the request to disable or delete an endpoint.
type Stop struct {
	Reason string
	// EndPending accepts that what waits for the endpoint ends as dead letters.
	// Without it a stop that would end any is refused with CodePendingDeliveries.
	EndPending bool
}

// checkPending refuses a stop that would end deliveries, unless that is accepted.
func (c *Control) checkPending(ctx context.Context, id string, s Stop) error {
	if s.EndPending {
		return nil
	}
	e, err := c.get(ctx, id)
	if err != nil || e.State != registry.Enabled {
		return err // a disabled one is owed nothing new, and what waits ends already
	}
	const accept = "if that is meant, say so with --yes, or \"end_pending\": true"
	l, err := c.ledger(ctx)
	if err != nil {
		return failure(CodePendingDeliveries, "how many deliveries wait for %s cannot be told without ClickHouse, and "+
			"each would end as a dead letter when it is next due; %s", id, accept)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	n, err := l.Pending(ctx, id)
	if err != nil {
		return failure(CodePendingDeliveries, "how many deliveries wait for %s cannot be told (%v), and each would end as "+
			"a dead letter when it is next due; %s", id, err, accept)
	}
	switch n.Deliveries {
	case 0:
		return nil
	case 1:
		return failure(CodePendingDeliveries, "1 delivery waits for %s, and ends as a dead letter when it is next due; %s",
			id, accept)
	}
	return failure(CodePendingDeliveries, "%d deliveries wait for %s (%d had an attempt), and each ends as a dead "+
		"letter when it is next due; %s",
		n.Deliveries, id, n.Attempted, accept)
}
