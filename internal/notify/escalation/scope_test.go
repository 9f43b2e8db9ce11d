package escalation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

func TestAnEndpointIsHeardOfInOnePlaceHoweverManyFail(t *testing.T) {
	var f escalation.Front
	at := func(endpoint string, want escalation.Scope) {
		t.Helper()
		if got := f.Place(escalation.Problem{EndpointID: endpoint}); got != want {
			t.Errorf("%q is in an incident of scope %q, want %q", endpoint, got, want)
		}
	}
	at("", escalation.NoEndpoint)
	for i := range escalation.MaxOwn {
		at(fmt.Sprint("ep_", i), escalation.OneEndpoint)
	}
	at("ep_late", escalation.ManyEndpoints)
	at("ep_0", escalation.OneEndpoint)
	f.Close(escalation.OneEndpoint, "ep_0")
	at("ep_late", escalation.ManyEndpoints) // although there is room now
	at("ep_0", escalation.ManyEndpoints)
	f.Close(escalation.ManyEndpoints, "")
	at("ep_late", escalation.OneEndpoint)
	at("ep_0", escalation.ManyEndpoints)
	at("", escalation.NoEndpoint)
}

func TestAnIncidentFromBeforeScopesIsReadByWhatItCounts(t *testing.T) {
	to := func(endpoints ...string) *escalation.Incident {
		var i *escalation.Incident
		for n, endpoint := range endpoints {
			tr := escalation.Problem{ID: fmt.Sprint(n), Kind: record.DeliveryDeadLetter, Tenant: "acme", EndpointID: endpoint,
				Reason: "attempts_exhausted"}
			if i == nil {
				i = escalation.Begin(tr, escalation.Default(), 1, time.Now())
			} else {
				i.Add(tr, uint64(n+1))
			}
		}
		i.Scope = ""
		return i
	}
	for _, c := range []struct {
		incident *escalation.Incident
		scope    escalation.Scope
		endpoint string
	}{
		{to("ep_1", "ep_1"), escalation.OneEndpoint, "ep_1"},
		{to("ep_1", "ep_2"), "", ""},
		{to("ep_1", ""), "", ""},
		{to("", ""), escalation.NoEndpoint, ""},
	} {
		if scope, endpoint := c.incident.About(); scope != c.scope || endpoint != c.endpoint {
			t.Errorf("%v: %q %q, want %q %q", c.incident.Endpoints, scope, endpoint, c.scope, c.endpoint)
		}
	}
}
