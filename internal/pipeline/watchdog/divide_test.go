package watchdog

import (
	"fmt"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

func TestWhatTheWatchdogTellsOfIsOneIncidentForEachEndpoint(t *testing.T) {
	to := func(endpoint string, n int) alert {
		return alert{Problem: escalation.Problem{ID: fmt.Sprint(endpoint, n), Kind: record.DeliveryDeadLetter, Tenant: "acme",
			EndpointID: endpoint}}
	}
	var cs []alert
	for i := range 40 {
		cs = append(cs, to(fmt.Sprint("ep_", i%20), i))
	}
	cs = append(cs, to("", 1), to("", 2))
	scopes := map[escalation.Scope]int{}
	told := 0
	for name, g := range divide(nil, cs) {
		scopes[g.scope]++
		told += len(g.cs)
		for _, c := range g.cs {
			if g.scope == escalation.OneEndpoint && c.EndpointID != g.cs[0].EndpointID {
				t.Errorf("%s mixes %s and %s", name, g.cs[0].EndpointID, c.EndpointID)
			}
		}
	}
	if told != len(cs) || scopes[escalation.OneEndpoint] != escalation.MaxOwn || scopes[escalation.ManyEndpoints] != 1 ||
		scopes[escalation.NoEndpoint] != 1 {
		t.Errorf("%d of %d alerts in incidents %v", told, len(cs), scopes)
	}
}
