package watchdog

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// group is what belongs into one incident.
type group struct {
	policy escalation.Policy
	scope  escalation.Scope
	cs     []alert
}

// divide puts alerts into the incidents that an escalator would make of them:
// one for each endpoint, until so many fail that one is for all others.
func divide(policies []escalation.Policy, cs []alert) map[string]*group {
	fronts := map[string]*escalation.Front{}
	groups := map[string]*group{}
	for _, c := range cs {
		p := escalation.Choose(policies, c.Problem)
		front := fmt.Sprintf("%s %s %d", c.Tenant, p.Name, p.Revision)
		if fronts[front] == nil {
			fronts[front] = &escalation.Front{}
		}
		scope := fronts[front].Place(c.Problem)
		name := front + " " + string(scope)
		if scope == escalation.OneEndpoint {
			name += " " + c.EndpointID
		}
		if groups[name] == nil {
			groups[name] = &group{policy: p, scope: scope}
		}
		groups[name].cs = append(groups[name].cs, c)
	}
	return groups
}
