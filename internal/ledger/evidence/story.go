package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// Fact is a record that was read, at its place.
type Fact struct {
	Idx    uint64
	Digest string // SHA-256 of its bytes, hex
	Role   Role
	record.Record
}

// Story is what the records say, in the order that people ask for it.
type Story struct {
	Subject    Subject
	Event      []Fact     // what became of the event each time it came in
	Deliveries []Delivery // by the record that comes first
	Rules      []Fact     // set for event types
	Policies   []Fact     // of escalation, and their channels
	Other      []Fact     // what else names the event
}

// Delivery is the event owed to one endpoint, and what became of it.
type Delivery struct {
	EndpointID  string
	State       string    // delivered, dead_lettered, cancelled, pending
	Reason      string    // if it ended without success
	URL         string    // of the last request
	DeliverBy   time.Time // the last deadline on record
	Owed        []Fact    // the first obligation, and one for each replay
	Replays     []Fact    // who asked for them
	Attempts    []Fact    // by number
	Ends        []Fact    // dead letters and cancellations
	Escalations []Fact
	Acks        []Fact // and what else people did
	Revisions   []Fact // the endpoint's settings that the records name
	// Missing are attempts that later numbers, or the end, say were made but
	// that are not in the file; Unset are revisions likewise.
	Missing []int
	Unset   []uint64
}

// Tell sorts the facts of a file into a story.
func Tell(s Subject, facts []Fact) *Story {
	story := &Story{Subject: s}
	at := map[string]int{}
	of := func(endpoint string) *Delivery {
		i, ok := at[endpoint]
		if !ok {
			i = len(story.Deliveries)
			at[endpoint] = i
			story.Deliveries = append(story.Deliveries, Delivery{EndpointID: endpoint})
		}
		return &story.Deliveries[i]
	}
	for _, f := range facts {
		switch {
		case f.Role == OfRules:
			story.Rules = append(story.Rules, f)
		case f.Role == OfPolicy:
			story.Policies = append(story.Policies, f)
		case f.Role == OfEndpoint:
		case cameIn(f.Kind):
			story.Event = append(story.Event, f)
		case f.EndpointID == "":
			story.Other = append(story.Other, f)
		default:
			of(f.EndpointID).take(f)
		}
	}
	for _, f := range facts {
		if i, ok := at[f.EndpointID]; ok && f.Role == OfEndpoint {
			story.Deliveries[i].Revisions = append(story.Deliveries[i].Revisions, f)
		}
	}
	for i := range story.Deliveries {
		story.Deliveries[i].conclude()
	}
	return story
}

func (d *Delivery) take(f Fact) {
	switch f.Kind {
	case record.DeliveryOwed:
		d.Owed = append(d.Owed, f)
	case record.Attempt:
		d.Attempts = append(d.Attempts, f)
	case record.DeliveryDeadLetter, record.DeliveryCancelled:
		d.Ends = append(d.Ends, f)
	case record.Escalation:
		d.Escalations = append(d.Escalations, f)
	case record.ReplayRequested:
		d.Replays = append(d.Replays, f)
	default:
		d.Acks = append(d.Acks, f)
	}
}

func (d *Delivery) conclude() {
	slices.SortStableFunc(d.Attempts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Idx, b.Idx))
	})
	d.State = outcome.StatePending
	var turn uint64
	for _, o := range d.Owed {
		turn = o.Idx
		if !o.DeliverBy.IsZero() {
			d.DeliverBy = o.DeliverBy
		}
	}
	for _, e := range d.Ends {
		if e.Idx >= turn {
			d.State, d.Reason = outcome.StateDeadLettered, e.Reason
			if e.Kind == record.DeliveryCancelled {
				d.State = outcome.StateCancelled
			}
		}
	}
	last, made, named := 0, 0, []uint64{}
	for _, e := range d.Ends {
		made = max(made, e.Attempts)
	}
	for _, a := range d.Attempts {
		for n := last + 1; n < a.Attempt && len(d.Missing) < maxMissing; n++ {
			d.Missing = append(d.Missing, n)
		}
		last = max(last, a.Attempt)
		if a.URL != "" {
			d.URL = a.URL
		}
		if a.Class == string(outcome.ClassDelivered) {
			d.State, d.Reason = outcome.StateDelivered, ""
		}
	}
	for n := last + 1; n <= made && len(d.Missing) < maxMissing; n++ {
		d.Missing = append(d.Missing, n)
	}
	for _, list := range [][]Fact{d.Owed, d.Attempts, d.Ends} {
		for _, f := range list {
			if f.EndpointRevision > 0 {
				named = add(named, f.EndpointRevision)
			}
		}
	}
	for _, revision := range named {
		if !slices.ContainsFunc(d.Revisions, func(f Fact) bool { return f.EndpointRevision == revision }) {
			d.Unset = append(d.Unset, revision)
		}
	}
}

// maxMissing keeps a record that says attempt 4,000,000,000 from filling the page.
const maxMissing = 100

// Gaps says in plain words what the records themselves show to be missing, or
// to be unknown.
func (s *Story) Gaps() []string {
	var out []string
	if len(s.Event) == 0 {
		out = append(out, "How the event came in: no record of that is in this file.")
	}
	for _, id := range s.lacking() {
		out = append(out, fmt.Sprintf("What became of the delivery to %s: the event is owed to it, and no record of it is "+
			"in this file.", id))
	}
	for i := range s.Deliveries {
		out = append(out, s.Deliveries[i].gaps()...)
	}
	return out
}

// lacking are the endpoints that the event came to be owed to, and of which
// the file holds nothing.
func (s *Story) lacking() []string {
	has := map[string]bool{}
	for i := range s.Deliveries {
		has[s.Deliveries[i].EndpointID] = true
	}
	var out []string
	for _, e := range slices.Concat(s.Event, s.listed()) {
		for _, id := range e.EndpointIDs {
			if !has[id] && (s.Subject.EndpointID == "" || s.Subject.EndpointID == id) {
				has[id] = true // said once
				out = append(out, id)
			}
		}
	}
	return out
}

// listed are the records that list to whom the event is owed, where that is too
// much for the one that it was accepted with: those of the same list.
func (s *Story) listed() (out []Fact) {
	for _, e := range s.Event {
		for _, f := range s.Other {
			if f.Kind == record.EventEndpoints && f.EndpointsDigest == e.EndpointsDigest {
				out = append(out, f)
			}
		}
	}
	return out
}

func (d *Delivery) gaps() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(d.Missing) > 0 {
		say("What became of %s to %s: it was made, and no record of it is in this file.", numbers("attempt", d.Missing),
			d.EndpointID)
	}
	for _, a := range d.Attempts {
		if a.Outcome == string(outcome.Unknown) {
			say("How attempt %d to %s ended: the process died during it, and the receiver may or may not have the request.",
				a.Attempt, d.EndpointID)
		}
	}
	if len(d.Owed) == 0 {
		say("When the delivery to %s came to be owed: no record of that is in this file.", d.EndpointID)
	}
	if len(d.Unset) > 0 {
		say("How %s was set at %s: no record of that is in this file.", d.EndpointID, numbers("revision", d.Unset))
	}
	for _, e := range d.Ends {
		told := slices.ContainsFunc(d.Escalations,
			func(x Fact) bool { return x.ReplayID == e.ReplayID && x.Outcome == "delivered" })
		if e.Kind == record.DeliveryDeadLetter && !told {
			say("That anybody was told of the dead letter of %s: no record of that is in this file.", d.EndpointID)
		}
	}
	return out
}

func numbers[T any](what string, list []T) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = fmt.Sprint(n)
	}
	if len(list) > 1 {
		what += "s"
	}
	return what + " " + strings.Join(texts, ", ")
}

// When is the time that a record speaks of: of an attempt, when it started.
func (f *Fact) When() time.Time {
	if f.Kind == record.Attempt && !f.StartedAt.IsZero() {
		return f.StartedAt
	}
	return f.At
}

// Title says in a few words what a record is about.
func (f *Fact) Title() string {
	switch f.Kind {
	case record.EventAccepted:
		return "accepted, owed to " + text.Count(f.Endpoints, "endpoint", "endpoints")
	case record.EventUnmatched:
		return "came in, owed to nobody"
	case record.EventDuplicate:
		return "came in again, nothing more owed"
	case record.EventRejected:
		return "rejected: " + reasoned(f.Reason, f.Detail)
	case record.EventEndpoints:
		return fmt.Sprintf("lists %d of the %s that it is owed to", len(f.EndpointIDs),
			text.Count(f.Endpoints, "endpoint", "endpoints"))
	case record.DeliveryOwed:
		return "owed" + prefixed(" by replay ", f.ReplayID)
	case record.Attempt:
		result := or(f.Outcome, "no outcome on record")
		if f.Status > 0 {
			result = fmt.Sprintf("%d, %s", f.Status, result)
		}
		return fmt.Sprintf("attempt %d: %s", f.Attempt, result)
	case record.DeliveryDeadLetter:
		return "dead letter: " + reasoned(f.Reason, f.Detail)
	case record.DeliveryCancelled:
		return "cancelled: " + reasoned(f.Reason, f.Detail)
	case record.Escalation:
		return fmt.Sprintf("escalation by %s: %s", or(f.Channel, "no channel"), or(f.Outcome, "no outcome on record"))
	case record.EscalationAcked:
		return by(f.Actor) + " took it on"
	case record.ReplayRequested:
		return by(f.Actor) + " asked for replay" + prefixed(": ", f.Reason)
	case record.EndpointChanged:
		return fmt.Sprintf("endpoint %s, revision %d, by %s", or(f.Action, "changed"), f.EndpointRevision, by(f.Actor))
	case record.EventTypeChanged:
		return "event type " + strings.Join(f.EventTypes, ", ") + ": " + or(f.Detail, f.Action)
	}
	return or(f.Action, string(f.Kind)) + prefixed(" ", or(f.EscalationPolicy, f.Channel)) + prefixed(", by ", f.Actor)
}
