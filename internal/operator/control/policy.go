package control

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Terms are what a delivery of some type to an endpoint is promised and may
// spend, which rules say so, and the schedule that results. Offsets count from
// when the delivery is owed, and assume that every attempt fails at once.
type Terms struct {
	EndpointID string `json:"endpoint_id"`
	Type       string `json:"type"`

	DeliverWithin Duration        `json:"deliver_within,omitzero"` // absent: no deadline
	DeadlineFrom  registry.Source `json:"deadline_from"`
	Policy        retry.Policy    `json:"policy"`
	PolicyFrom    registry.Source `json:"policy_from"`

	// AttemptsEnd is when attempts end; absent: after the last one. EndedBy is
	// deadline, window or attempts.
	AttemptsEnd Duration  `json:"attempts_end,omitzero"`
	EndedBy     string    `json:"ended_by"`
	Reserve     Duration  `json:"reserve,omitzero"` // kept before the deadline, to tell a human
	Schedule    []Planned `json:"schedule"`
	More        bool      `json:"more,omitempty"`    // further attempts follow, as long as there is time
	Dropped     int       `json:"dropped,omitempty"` // attempts of the policy for which there is never time
}

// Planned is one attempt of a schedule.
type Planned struct {
	Attempt  int      `json:"attempt"`
	Earliest Duration `json:"earliest"`
	Latest   Duration `json:"latest"`
	Cut      bool     `json:"cut,omitempty"` // made only if its time comes before attempts end
}

// Explain says what would hold for an event of a type that comes now. within
// is the deadline that the event brings itself, counted from now; 0: none.
func (c *Control) Explain(ctx context.Context, endpointID, eventType string, within Duration) (Terms, error) {
	if err := envelope.ValidateType(eventType); err != nil {
		return Terms{}, rejected(err)
	}
	if within < 0 {
		return Terms{}, invalid("deliver_within", "%s is in the past", within)
	}
	e, err := c.get(ctx, endpointID)
	if err != nil {
		return Terms{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.store.EventTypes(ctx, e.Tenant)
	if err != nil {
		return Terms{}, failed(err)
	}
	rules := make([]*registry.EventType, len(list))
	for i := range list {
		rules[i] = &list[i]
	}
	q := registry.Question{Type: eventType, OwedAt: c.o.Now(), Endpoint: &e,
		Rules: registry.MatchEventTypes(rules, eventType)}
	if within > 0 {
		q.DeliverBy = q.OwedAt.Add(time.Duration(within))
	}
	return explained(e.ID, q, registry.Resolve(q)), nil
}

func explained(endpoint string, q registry.Question, t registry.Terms) Terms {
	out := Terms{EndpointID: endpoint, Type: q.Type, DeadlineFrom: t.DeadlineFrom, Policy: t.Policy,
		PolicyFrom: t.PolicyFrom,
		EndedBy:    "attempts", Schedule: []Planned{}}
	if !t.DeliverBy.IsZero() {
		out.DeliverWithin = Duration(t.DeliverBy.Sub(q.OwedAt))
	}
	plan := retry.Draw(t.Policy, time.Duration(out.DeliverWithin))
	out.AttemptsEnd, out.Reserve, out.More, out.Dropped = Duration(plan.Ends), Duration(plan.Reserve), plan.More,
		plan.Dropped
	switch {
	case plan.Deadline:
		out.EndedBy = "deadline"
	case plan.Ends > 0:
		out.EndedBy = "window"
	}
	for _, s := range plan.Steps {
		out.Schedule = append(out.Schedule, Planned{s.Attempt, Duration(s.Earliest), Duration(s.Latest), s.Cut})
	}
	return out
}
