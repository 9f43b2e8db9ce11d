package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func TestEvidenceIsAnsweredByteForByte(t *testing.T) {
	s := start(t)
	s.ledger.event = control.EventRecord{ID: "order/17"}
	const ep = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"
	res, body := s.do("GET", "/v1/events/order%2F17/evidence?tenant=acme&wait=2s&endpoint="+ep, "", "Waybill-Actor",
		"alice")
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" ||
		!strings.Contains(res.Header.Get("Content-Disposition"), "attachment") {
		t.Fatalf("%d %v %s", res.StatusCode, res.Header, body)
	}
	if err := evidence.Intact([]byte(body)); err != nil {
		t.Error(err)
	}
	f, err := evidence.Decode([]byte(body))
	if err != nil || f.Statement.ExportedBy != "alice" || string(f.Records[0].Body) != "<&>" {
		t.Errorf("%+v, %v", f, err)
	}
	if want := (control.EvidenceRequest{EventID: "order/17", Tenant: "acme", EndpointID: ep, Actor: "alice",
		Wait: 2 * time.Second}); s.ledger.asked != want {
		t.Errorf("asked %+v", s.ledger.asked)
	}
	for path, want := range map[string]int{"/v1/events/none/evidence": 404, "/v1/events/x/evidence?wait=1h": 422,
		"/v1/events/x/evidence?wait=soon":     422,
		"/v1/events/x/evidence?endpoint=ep_1": 422, "/v1/events/x/evidence?tenant=a.b": 422,
		"/v1/events/x/evidence?more=1": 400} {
		if res, body := s.do("GET", path, ""); res.StatusCode != want {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}
