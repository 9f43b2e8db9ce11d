package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/operator/api"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/test/testkit"
)

// system is ingest and the API on a real NATS server and one real listener.
type system struct {
	t      testing.TB
	nats   *testkit.Server
	url    string
	ledger *ledger
}

func start(t testing.TB) *system {
	t.Helper()
	s := &system{t: t, nats: testkit.NATS(t), ledger: &ledger{}}
	nc := s.nats.Connect()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := control.New(ctx, control.Options{NC: nc, Ledger: s.ledger, Keys: testkit.Keys(t)})
	if err != nil {
		t.Fatal(err)
	}
	stage, err := ingest.New(ingest.Options{NC: nc, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	stage.Routes(mux)
	api.New(c).Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ledger is a control.Ledger that knows one event, one delivery and one attempt.
type ledger struct {
	event       control.EventRecord
	delivery    control.Delivery
	filter      control.DeliveryFilter // of the last question
	limit       int
	deadLetters []control.DeadLetter
	asked       control.EvidenceRequest // the last one
	pending     control.Pending
}

var longAgo = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (l *ledger) Event(_ context.Context, _, id string) (control.EventRecord, bool, error) {
	return l.event, id == l.event.ID, nil
}

func (l *ledger) Deliveries(_ context.Context, f control.DeliveryFilter, cursor string,
	limit int) (control.DeliveryPage, error) {
	l.filter, l.limit = f, limit
	if cursor != "" && cursor != "next" {
		return control.DeliveryPage{}, control.ErrBadCursor
	}
	if l.delivery.EventID == "" || f.EventID != "" && f.EventID != l.delivery.EventID {
		return control.DeliveryPage{}, nil
	}
	return control.DeliveryPage{Deliveries: []control.Delivery{l.delivery}}, nil
}

func (l *ledger) DeadLetters(_ context.Context, f control.DeadLetterFilter, _ string, _ int) (control.DeadLetterPage,
	error) {
	var page control.DeadLetterPage
	for _, d := range l.deadLetters {
		if (f.EventID == "" || d.EventID == f.EventID) && (f.EndpointID == "" || d.EndpointID == f.EndpointID) {
			page.DeadLetters = append(page.DeadLetters, d)
		}
	}
	return page, nil
}

func (l *ledger) EndpointChanges(context.Context, string) ([]control.EndpointChange, error) {
	return []control.EndpointChange{{At: longAgo, Action: "disabled", Types: []string{"order.*"}}}, nil
}

func (l *ledger) Pending(context.Context, string) (control.Pending, error) { return l.pending, nil }

func (l *ledger) EventsNotOwedTo(_ context.Context, _, _ string, _, _ time.Time, after uint64,
	_ int) ([]control.UnowedEvent, error) {
	if after > 0 {
		return nil, nil
	}
	return []control.UnowedEvent{{Idx: 7, ID: "missed-1", Type: "order.paid", State: control.EventAccepted, At: longAgo,
		StoredAt: longAgo}}, nil
}

func (l *ledger) Attempts(_ context.Context, event, endpoint string) ([]record.Record, error) {
	return []record.Record{{ID: "att_1", Kind: record.Attempt, EventID: event, EndpointID: endpoint, Attempt: 1}}, nil
}

func (l *ledger) Evidence(_ context.Context, q control.EvidenceRequest) (*evidence.File, error) {
	l.asked = q
	if q.EventID != l.event.ID {
		return nil, &control.Error{Code: control.CodeNotFound,
			Err: errors.New("event " + q.EventID + " is not in the ledger")}
	}
	return &evidence.File{Subject: evidence.Subject{Tenant: "default", EventID: q.EventID, EndpointID: q.EndpointID},
		Statement: evidence.Statement{ExportedBy: q.Actor}, Records: []evidence.Record{{Idx: 3, Body: []byte("<&>")}}}, nil
}

// do sends one request. The body is JSON where there is one.
func (s *system) do(method, path, body string, header ...string) (*http.Response, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return s.send(req)
}

func (s *system) send(req *http.Request) (*http.Response, string) {
	s.t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(b)
}

// value decodes an answer that must have a status.
func (s *system) value(into any, want int, method, path, body string, header ...string) {
	s.t.Helper()
	res, got := s.do(method, path, body, header...)
	if res.StatusCode != want || res.Header.Get("Content-Type") != "application/json" ||
		res.Header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%s %s: %d %v %s", method, path, res.StatusCode, res.Header, got)
	}
	if err := json.Unmarshal([]byte(got), into); err != nil {
		s.t.Fatal(err)
	}
}

const minimal = `{"url":"https://hooks.example.com/in","types":["a.*"]}`

func (s *system) endpoint() control.WithSecret {
	s.t.Helper()
	var made control.WithSecret
	s.value(&made, 201, "POST", "/v1/endpoints", minimal)
	return made
}

func TestAnEndpointLivesItsLifeOverHTTP(t *testing.T) {
	s := start(t)
	res, body := s.do("POST", "/v1/endpoints", `{"url":"https://hooks.example.com/in?k=v","types":["a.*",">"],"tenant":"acme","description":"é",
		"scheme":"t,v1","signature_header":"X-Sig","timeout":"1.5s","max_in_flight":3,"policy":"urgent","deliver_within":"1h"}`, api.ActorHeader, "ada")
	var made control.WithSecret
	if err := json.Unmarshal([]byte(body), &made); err != nil || res.StatusCode != 201 ||
		res.Header.Get("Location") != "/v1/endpoints/"+made.Endpoint.ID {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	path := "/v1/endpoints/" + made.Endpoint.ID
	for _, want := range []string{`"timeout":"1.5s"`, `"deliver_within":"1h"`, `"policy":{"name":"urgent"`,
		`"updated_by":"ada"`, `"scheme":"t,v1"`, `"secret":"whsec_`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	var e control.Endpoint
	s.value(&e, 200, "PATCH", path, `{"policy":null,"types":["b"],"reason":"less"}`)
	if e.Policy != nil || len(e.Types) != 1 || e.Reason != "less" || e.UpdatedBy != "api" || e.MaxInFlight != 3 {
		t.Errorf("changed to %+v", e)
	}
	s.value(&e, 200, "POST", path+"/disable", `{"reason":"down"}`)
	s.value(&e, 200, "POST", path+"/enable", "")
	var rotated control.WithSecret
	s.value(&rotated, 200, "POST", path+"/rotate-secret", "")
	if rotated.Secret == made.Secret || len(rotated.Endpoint.Keys) != 2 {
		t.Errorf("rotated to %+v", rotated.Endpoint)
	}
	var ack control.Ack
	s.value(&ack, 202, "POST", path+"/test", "{}")
	s.value(&e, 200, "DELETE", path+"?reason=moved", "")
	s.value(&e, 200, "GET", path, "")
	if e.State != "deleted" || e.StateReason != "moved" || e.Revision != 6 {
		t.Errorf("at the end %+v", e)
	}
}

func TestEndpointsComeInPages(t *testing.T) {
	s := start(t)
	want := []string{s.endpoint().Endpoint.ID, s.endpoint().Endpoint.ID, s.endpoint().Endpoint.ID}
	var got []string
	cursor := ""
	for {
		var page struct {
			Endpoints []control.Endpoint
			Next      string
		}
		s.value(&page, 200, "GET", "/v1/endpoints?limit=2&cursor="+cursor, "")
		for _, e := range page.Endpoints {
			got = append(got, e.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	// Made in one millisecond, they may come in another order: what counts is that each comes once.
	if len(got) != 3 || got[0] == got[1] || got[1] == got[2] || !strings.Contains(strings.Join(got, " "), want[0]) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestIdsInPathsMayHoldWhatAPathCannot(t *testing.T) {
	s := start(t)
	s.ledger.event = control.EventRecord{ID: "a/b:c%2F?#/replay", Tenant: "default", State: control.EventAccepted}
	var e control.EventRecord
	s.value(&e, 200, "GET", "/v1/events/a%2Fb:c%252F%3F%23%2Freplay", "")
	if e.ID != s.ledger.event.ID {
		t.Errorf("got %+v", e)
	}
	s.ledger.delivery = control.Delivery{EventID: s.ledger.event.ID, EndpointID: "ep_x"}
	var d control.DeliveryDetails
	s.value(&d, 200, "GET", "/v1/deliveries/a%2Fb:c%252F%3F%23%2Freplay?endpoint=ep_x", "")
	if len(d.History) != 1 {
		t.Errorf("got %+v", d)
	}
}

func TestFiltersReachTheLedger(t *testing.T) {
	s := start(t)
	var page control.DeliveryPage
	s.value(&page, 200, "GET", "/v1/deliveries?tenant=acme&event_id=e%2F1&endpoint_id=ep_1&type=a.b&state=pending&since=2026-08-19T14:00:00%2B02:00&until=2026-08-20T00:00:00Z&cursor=next&limit=7", "")
	f := s.ledger.filter
	if f.Tenant != "acme" || f.EventID != "e/1" || f.EndpointID != "ep_1" || f.EventType != "a.b" ||
		f.State != "pending" ||
		f.Since.UTC().Hour() != 12 || f.Until.Day() != 20 || s.ledger.limit != 7 || page.Deliveries == nil {
		t.Errorf("asked %+v limit %d, got %+v", f, s.ledger.limit, page)
	}
}

func TestWrongRequestsGetExactProblems(t *testing.T) {
	s := start(t)
	ep := "/v1/endpoints/" + s.endpoint().Endpoint.ID
	big := `{"url":"` + strings.Repeat("x", 200<<10) + `"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code, field        string
	}{
		"an unknown path":         {"GET", "/v1/nothing", "", nil, 404, "no_such_route", ""},
		"an unknown path, posted": {"POST", "/v1/endpoints/x/y/z", "{}", nil, 404, "no_such_route", ""},
		"a wrong method":          {"PUT", ep, "{}", nil, 405, "method_not_allowed", ""},
		"no body":                 {"POST", "/v1/endpoints", "", nil, 415, "unsupported_media_type", ""},
		"a form": {"POST", "/v1/endpoints", minimal, []string{"Content-Type", "text/plain"}, 415,
			"unsupported_media_type", ""},
		"no JSON":                   {"POST", "/v1/endpoints", "hello", nil, 400, "malformed", ""},
		"JSON that is cut off":      {"POST", "/v1/endpoints", `{"url":`, nil, 400, "malformed", ""},
		"an array":                  {"POST", "/v1/endpoints", `[]`, nil, 400, "malformed", ""},
		"two objects":               {"POST", "/v1/endpoints", minimal + minimal, nil, 400, "malformed", ""},
		"invalid UTF-8":             {"POST", "/v1/endpoints", "{\"description\":\"\xff\"}", nil, 400, "malformed", ""},
		"a body over the limit":     {"POST", "/v1/endpoints", big, nil, 413, "too_large", ""},
		"an unknown field":          {"POST", "/v1/endpoints", `{"uri":"x"}`, nil, 422, "unknown_field", "uri"},
		"a field in other case":     {"POST", "/v1/endpoints", `{"URL":"x"}`, nil, 422, "unknown_field", "URL"},
		"a field of the server's":   {"POST", "/v1/endpoints", `{"id":"ep_1"}`, nil, 422, "unknown_field", "id"},
		"a field given twice":       {"POST", "/v1/endpoints", `{"url":"a","url":"b"}`, nil, 422, "invalid", "url"},
		"null":                      {"POST", "/v1/endpoints", `{"url":null}`, nil, 422, "invalid", "url"},
		"a number for a duration":   {"POST", "/v1/endpoints", `{"timeout":10}`, nil, 422, "invalid", "timeout"},
		"a duration without a unit": {"POST", "/v1/endpoints", `{"timeout":"10"}`, nil, 422, "invalid", "timeout"},
		"a string for a list":       {"POST", "/v1/endpoints", `{"types":"a"}`, nil, 422, "invalid", "types"},
		"a fraction": {"POST", "/v1/endpoints", `{"max_in_flight":1.5}`, nil, 422, "invalid",
			"max_in_flight"},
		"an unknown policy": {"POST", "/v1/endpoints", `{"policy":"fast"}`, nil, 422, "invalid", "policy"},
		"a misspelt policy": {"POST", "/v1/endpoints", `{"policy":{"delay":["1s"]}}`, nil, 422, "invalid",
			"policy"},
		"a blocked address": {"POST", "/v1/endpoints", `{"url":"http://10.0.0.1/","types":[">"]}`, nil, 422,
			"invalid", "url"},
		"no types": {"POST", "/v1/endpoints", `{"url":"https://example.com/"}`, nil, 422, "invalid",
			"types"},
		"a null entry in a list": {"POST", "/v1/endpoints", `{"url":"https://example.com/","types":[null]}`, nil, 422,
			"invalid", "types"},
		"a long actor": {"POST", "/v1/endpoints", minimal,
			[]string{api.ActorHeader, strings.Repeat("x", 201)}, 422, "invalid", "actor"},
		"a parameter where none is": {"POST", "/v1/endpoints?dry_run=1", minimal, nil, 400, "unknown_parameter",
			"dry_run"},
		"an empty change":           {"PATCH", ep, `{}`, nil, 422, "invalid", ""},
		"a change of tenant":        {"PATCH", ep, `{"tenant":"x"}`, nil, 422, "unknown_field", "tenant"},
		"a change to null":          {"PATCH", ep, `{"timeout":null}`, nil, 422, "invalid", "timeout"},
		"disable without a reason":  {"POST", ep + "/disable", "", nil, 422, "invalid", "reason"},
		"an unknown endpoint":       {"GET", "/v1/endpoints/ep_x", "", nil, 404, "not_found", ""},
		"a cursor that is made up":  {"GET", "/v1/endpoints?cursor=x", "", nil, 422, "invalid", "cursor"},
		"a flag that is none":       {"GET", "/v1/endpoints?deleted=yes", "", nil, 422, "invalid", "deleted"},
		"a limit of nothing":        {"GET", "/v1/endpoints?limit=0", "", nil, 422, "invalid", "limit"},
		"a limit over the most":     {"GET", "/v1/deliveries?limit=501", "", nil, 422, "invalid", "limit"},
		"a parameter given twice":   {"GET", "/v1/deliveries?state=a&state=b", "", nil, 400, "invalid", "state"},
		"an unknown state":          {"GET", "/v1/deliveries?state=lost", "", nil, 422, "invalid", "state"},
		"a time that is none":       {"GET", "/v1/deliveries?since=yesterday", "", nil, 422, "invalid", "since"},
		"a delivery cursor made up": {"GET", "/v1/deliveries?cursor=x", "", nil, 422, "invalid", "cursor"},
		"a delivery that is none":   {"GET", "/v1/deliveries/e1?endpoint=ep_1", "", nil, 404, "not_found", ""},
		"an event that is none":     {"GET", "/v1/events/e1", "", nil, 404, "not_found", ""},
		"an id that is none":        {"GET", "/v1/events/a%20b", "", nil, 422, "invalid", "id"},
		"a replay without a reason": {"POST", "/v1/events/e1/replay", "{}", nil, 422, "invalid", "reason"},
		"a page of another origin": {"POST", "/v1/endpoints", minimal, []string{"Origin", "http://evil.example"}, 403,
			"cross_origin", ""},
		"a page of another site":     {"DELETE", ep, "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin", ""},
		"a name rebound to loopback": {"GET", "/v1/endpoints", "", []string{"Host", "evil.example"}, 403, "wrong_host", ""},
		"a GET to publish":           {"GET", "/v1/events", "", nil, 405, "method_not_allowed", ""},
		"an origin that is not a name": {"POST", "/v1/endpoints", minimal, []string{"Origin", "null"}, 403, "cross_origin",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			res, body := s.do(c.method, c.path, c.body, c.header...)
			var p struct {
				Type, Title, Code, Field, Detail string
				Status                           int
			}
			if err := json.Unmarshal([]byte(body), &p); err != nil ||
				res.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if res.StatusCode != c.status || p.Status != c.status || p.Code != c.code || p.Field != c.field || p.Detail == "" {
				t.Errorf("%d %s; want %d %s of %q", res.StatusCode, body, c.status, c.code, c.field)
			}
			if c.status == 405 && res.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
		})
	}
	var page struct{ Endpoints []control.Endpoint }
	s.value(&page, 200, "GET", "/v1/endpoints?deleted=true", "")
	if len(page.Endpoints) != 1 || page.Endpoints[0].Revision != 1 {
		t.Errorf("after wrong requests alone there is %+v", page.Endpoints)
	}
}

func TestAPageOfOurOwnOriginMayChangeThings(t *testing.T) {
	s := start(t)
	res, body := s.do("POST", "/v1/endpoints", minimal, "Origin", s.url)
	if res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestWithNATSAwayTheAPISaysWhenToTryAgain(t *testing.T) {
	s := start(t)
	ep := s.endpoint().Endpoint.ID
	s.nats.Kill()
	res, body := s.do("POST", "/v1/endpoints/"+ep+"/test", "")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, `"code":"unavailable"`) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
