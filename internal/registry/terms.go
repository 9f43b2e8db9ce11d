package registry

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
)

// Rule names where a delivery's deadline or policy comes from.
type Rule string

// The rules, in the order in which each of the two is looked for.
const (
	RuleEvent        Rule = "event"         // deadline: the event's own deliver_by
	RuleEndpointType Rule = "endpoint_type" // policy: the endpoint's rule for the type
	RuleEndpoint     Rule = "endpoint"      // deadline, policy: the endpoint's
	RuleEventType    Rule = "event_type"    // deadline, policy: the event type's
	RuleDeadline     Rule = "deadline"      // policy: urgent, because there is a deadline
	RuleDefault      Rule = "default"       // policy: standard
	RuleNone         Rule = "none"          // deadline: there is none
)

// Source is the rule that won. Pattern is the one that matched, of
// RuleEndpointType and RuleEventType.
type Source struct {
	Rule    Rule   `json:"rule"`
	Pattern string `json:"pattern,omitempty"`
}

// String says it to people.
func (o Source) String() string {
	switch o.Rule {
	case RuleEvent:
		return "the event's own deliver_by"
	case RuleEndpointType:
		return fmt.Sprintf("the endpoint's rule for %s", o.Pattern)
	case RuleEndpoint:
		return "the endpoint's own"
	case RuleEventType:
		return fmt.Sprintf("the event type %s", o.Pattern)
	case RuleDeadline:
		return "the default where there is a deadline"
	case RuleDefault:
		return "the default"
	}
	return "nothing sets one"
}

// PolicyRule is an endpoint's policy for some event types.
type PolicyRule struct {
	Types  []string     `json:"types"` // patterns, see package subscription
	Policy retry.Policy `json:"policy"`
}

// Question is what the terms of a delivery depend on.
type Question struct {
	Type      string       // of the event
	DeliverBy time.Time    // the event's own; zero: it has none
	OwedAt    time.Time    // when the delivery came to be owed
	Endpoint  *Endpoint    // nil: unknown
	Rules     []*EventType // set for the type, what wins first: see View.EventTypes
}

// Terms are what a delivery is promised and may spend, and why.
type Terms struct {
	DeliverBy    time.Time // zero: no deadline
	DeadlineFrom Source
	Policy       retry.Policy
	PolicyFrom   Source
}

// Resolve is the one place that decides which deadline and which policy hold
// for a delivery. It is pure.
func Resolve(q Question) Terms {
	var t Terms
	t.DeliverBy, t.DeadlineFrom = q.deadline()
	t.Policy, t.PolicyFrom = q.policy(!t.DeliverBy.IsZero())
	return t
}

// ResolvePolicy is Resolve for a delivery whose deadline was promised before:
// q.DeliverBy is it, zero when none was. A promise stands, whatever has changed.
func ResolvePolicy(q Question) (retry.Policy, Source) { return q.policy(!q.DeliverBy.IsZero()) }

func (q Question) deadline() (time.Time, Source) {
	if !q.DeliverBy.IsZero() {
		return q.DeliverBy, Source{Rule: RuleEvent}
	}
	for _, r := range q.Rules {
		if r.DeliverWithin > 0 {
			return q.OwedAt.Add(r.DeliverWithin), Source{RuleEventType, r.Pattern}
		}
	}
	if q.Endpoint != nil && q.Endpoint.DeliverWithin > 0 {
		return q.OwedAt.Add(q.Endpoint.DeliverWithin), Source{Rule: RuleEndpoint}
	}
	return time.Time{}, Source{Rule: RuleNone}
}

func (q Question) policy(deadline bool) (retry.Policy, Source) {
	if q.Endpoint != nil {
		for _, rule := range q.Endpoint.Policies {
			for _, pattern := range rule.Types {
				if subscription.Match(pattern, q.Type) {
					return rule.Policy, Source{RuleEndpointType, pattern}
				}
			}
		}
		if q.Endpoint.Policy != nil {
			return *q.Endpoint.Policy, Source{Rule: RuleEndpoint}
		}
	}
	for _, r := range q.Rules {
		if r.Policy != nil {
			return *r.Policy, Source{RuleEventType, r.Pattern}
		}
	}
	if deadline {
		return retry.Urgent(), Source{Rule: RuleDeadline}
	}
	return retry.Standard(), Source{Rule: RuleDefault}
}

// maxPolicies bounds an endpoint's rules, so that looking one up stays cheap.
const maxPolicies = 32

// validatePolicies says what is wrong with an endpoint's rules.
func validatePolicies(rules []PolicyRule) error {
	if len(rules) > maxPolicies {
		return fmt.Errorf("policies: at most %d, got %d", maxPolicies, len(rules))
	}
	for i, r := range rules {
		if len(r.Types) == 0 || len(r.Types) > subscription.MaxPatterns {
			return fmt.Errorf("policies: [%d].types: want 1 to %d patterns, got %d", i, subscription.MaxPatterns, len(r.Types))
		}
		for _, p := range r.Types {
			if err := subscription.Validate(p); err != nil {
				return fmt.Errorf("policies: [%d].%w", i, err)
			}
		}
		if err := r.Policy.Validate(); err != nil {
			return fmt.Errorf("policies: [%d].policy: %w", i, err)
		}
	}
	return nil
}
