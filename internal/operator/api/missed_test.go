package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

func TestAStopThatWouldEndDeliveriesIsRefusedUntilItIsMeant(t *testing.T) {
	for name, stop := range map[string][3]string{
		"disable": {"POST", "/disable", `{"reason":"down","end_pending":true}`},
		"delete":  {"DELETE", "?end_pending=true", ""},
	} {
		s := start(t)
		var made struct{ Endpoint struct{ ID string } }
		s.value(&made, 201, "POST", "/v1/endpoints", `{"url":"https://example.com/hooks","types":["order.*"]}`)
		path := "/v1/endpoints/" + made.Endpoint.ID
		s.ledger.pending = control.Pending{Deliveries: 300, Attempted: 12}
		route := strings.TrimSuffix(stop[1], "?end_pending=true")
		resp, body := s.do(stop[0], path+route, strings.Replace(stop[2], `,"end_pending":true`, "", 1))
		if resp.StatusCode != http.StatusConflict || !strings.Contains(body, `"pending_deliveries"`) ||
			!strings.Contains(body, "300 deliveries") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		var e struct{ State string }
		s.value(&e, 200, stop[0], path+stop[1], stop[2])
		if e.State == "enabled" {
			t.Errorf("%s, meant: %+v", name, e)
		}
	}
}

func TestWhatAnEndpointMissedHasARoute(t *testing.T) {
	s := start(t)
	var made struct{ Endpoint struct{ ID string } }
	s.value(&made, 201, "POST", "/v1/endpoints", `{"url":"https://example.com/hooks","types":["order.*"]}`)
	var page control.MissedPage
	s.value(&page, 200, "GET", "/v1/endpoints/"+made.Endpoint.ID+"/missed?since=2026-01-01T00:00:00Z&limit=10", "")
	if len(page.Events) != 1 || page.Events[0].ID != "missed-1" || !page.Events[0].DisabledAt.Equal(longAgo) {
		t.Errorf("%+v", page)
	}
	for _, wrong := range []string{"?limit=0x", "?cursor=x", "?since=x", "?other=1"} {
		if resp, body := s.do("GET", "/v1/endpoints/"+made.Endpoint.ID+"/missed"+wrong, ""); resp.StatusCode/100 != 4 {
			t.Errorf("%s: %d %s", wrong, resp.StatusCode, body)
		}
	}
}
