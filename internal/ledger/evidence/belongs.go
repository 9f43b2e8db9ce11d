package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
)

// Role is why a record is in the file. It is derived from what the record
// says, so a record of anything else cannot hide in a file.
type Role string

// The roles.
const (
	OfEvent    Role = "event"    // it names the event
	OfEndpoint Role = "endpoint" // the settings of an endpoint, at a revision that the event's records name
	OfRules    Role = "rules"    // what is set for event types, where the pattern matches the event's
	OfPolicy   Role = "policy"   // an escalation policy or channel that the event's escalations name
)

// Actions of operator.action that change who is told: their beginnings.
const (
	policyAction  = "escalation_policy."
	channelAction = "channel."
)

// Wanted is what an event's own records refer to.
type Wanted struct {
	subject   Subject
	Revisions map[string][]uint64 // of endpoints, by id
	Types     []string            // of the event
	Policies  []string
	Channels  []string
}

// Want reads from the event's own records what else belongs to its evidence.
func Want(s Subject, own []record.Record) Wanted {
	w := Wanted{subject: s, Revisions: map[string][]uint64{}}
	for i := range own {
		r := &own[i]
		if r.EndpointID != "" && r.EndpointRevision > 0 {
			w.Revisions[r.EndpointID] = add(w.Revisions[r.EndpointID], r.EndpointRevision)
		}
		if r.EventType != "" {
			w.Types = add(w.Types, r.EventType)
		}
		if r.EscalationPolicy != "" {
			w.Policies = add(w.Policies, r.EscalationPolicy)
		}
		if r.Channel != "" {
			w.Channels = add(w.Channels, r.Channel)
		}
	}
	return w
}

func add[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// Owns says whether a record names the subject's event.
func (s Subject) Owns(r *record.Record) bool {
	return r.EventID == s.EventID && r.Tenant == s.Tenant &&
		(s.EndpointID == "" || r.EndpointID == "" || r.EndpointID == s.EndpointID)
}

// Role says why a record belongs; ok is false when it does not.
func (w Wanted) Role(r *record.Record) (role Role, ok bool) {
	switch {
	case w.subject.Owns(r):
		return OfEvent, true
	case r.EventID != "":
		return "", false
	case r.Kind == record.EndpointChanged:
		return OfEndpoint, r.Tenant == w.subject.Tenant && slices.Contains(w.Revisions[r.EndpointID], r.EndpointRevision)
	case r.Kind == record.EventTypeChanged:
		return OfRules, r.Tenant == w.subject.Tenant && w.matches(r)
	case r.Kind == record.OperatorAction && strings.HasPrefix(r.Action, policyAction):
		return OfPolicy, slices.Contains(w.Policies, r.EscalationPolicy)
	case r.Kind == record.OperatorAction && strings.HasPrefix(r.Action, channelAction) && r.Revision > 0:
		return OfPolicy, slices.Contains(w.Channels, r.Channel)
	}
	return "", false
}

func (w Wanted) matches(r *record.Record) bool {
	if len(r.EventTypes) != 1 || subscription.Validate(r.EventTypes[0]) != nil {
		return false
	}
	return slices.ContainsFunc(w.Types, func(t string) bool { return subscription.Match(r.EventTypes[0], t) })
}

// InForce keeps of changes those that were in force at some time between the
// event's first record and its last: of each thing the last change before the
// first record, and those since. own and changes are in the order of the
// ledger.
func InForce(own, changes []record.Record) (keep []int) {
	if len(own) == 0 {
		return nil
	}
	first, last := own[0].At, own[0].At
	for i := range own {
		if own[i].At.Before(first) {
			first = own[i].At
		}
		if own[i].At.After(last) {
			last = own[i].At
		}
		if t := own[i].StoredAt; !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	before := map[string]int{} // the last change before first, by what was changed
	for i := range changes {
		c := &changes[i]
		switch {
		case c.At.After(last):
		case c.At.After(first):
			keep = append(keep, i)
		default:
			what := changed(c)
			if j, ok := before[what]; !ok || !changes[j].At.After(c.At) {
				before[what] = i
			}
		}
	}
	for _, i := range before {
		keep = append(keep, i)
	}
	slices.Sort(keep)
	return keep
}

// changed names the thing that a change is of.
func changed(r *record.Record) string {
	switch r.Kind {
	case record.EventTypeChanged:
		return fmt.Sprintf("rules %q", r.EventTypes)
	case record.OperatorAction:
		if strings.HasPrefix(r.Action, policyAction) {
			return "policy " + r.EscalationPolicy
		}
		return "channel " + r.Channel
	}
	return "endpoint " + r.EndpointID
}
