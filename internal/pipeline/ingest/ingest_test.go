package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// system is ingest on a real NATS server, behind a real HTTP server.
type system struct {
	t       testing.TB
	nats    *testkit.Server
	nc      *nats.Conn
	url     string
	metrics *prometheus.Registry
	stage   *ingest.Ingest
	running *testkit.Running // with listen
}

func start(t testing.TB, change func(*ingest.Options)) *system {
	t.Helper()
	s := &system{t: t, nats: testkit.NATS(t), metrics: prometheus.NewRegistry()}
	s.nc = s.nats.Connect()
	o := ingest.Options{NC: s.nc, Metrics: s.metrics}
	if change != nil {
		change(&o)
	}
	stage, err := ingest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.stage = stage
	mux := http.NewServeMux()
	stage.Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *system) send(method, path, contentType, body string, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

func (s *system) post(body string, header ...string) answer {
	s.t.Helper()
	return s.send("POST", ingest.Path, "application/json", body, header...)
}

type problemDoc struct {
	Type, Title, Code, Detail, Field string
	Status                           int
	EventID                          string `json:"event_id"`
	Results                          []result
}

type result struct {
	Index, Status    int
	ID, Tenant, Type string
	Duplicate        *bool
	Seq              uint64
	Problem          *problemDoc
}

func (a answer) decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// accepted checks the answer to an event that is stored.
func (a answer) accepted(t testing.TB, status int) ingest.Accepted {
	t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("answered %d %s %s, want %d", a.status, a.header.Get("Content-Type"), a.body, status)
	}
	var got ingest.Accepted
	a.decode(t, &got)
	return got
}

// problem checks that the answer is a problem document with a status and code.
func (a answer) problem(t testing.TB, status int, code string) problemDoc {
	t.Helper()
	var p problemDoc
	if a.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answered %d as %q: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	a.decode(t, &p)
	if a.status != status || p.Status != status || p.Code != code || p.Type != "urn:waybill:problem:"+code ||
		p.Title == "" || p.Detail == "" {
		t.Fatalf("answered %d %s, want %d %s", a.status, a.body, status, code)
	}
	return p
}

// stored is what EVENTS holds at a sequence.
func (s *system) stored(seq uint64) (subject string, header nats.Header, body string) {
	s.t.Helper()
	stream, err := s.nats.JetStream().Stream(context.Background(), streams.Events)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := stream.GetMsg(context.Background(), seq)
	if err != nil {
		s.t.Fatal(err)
	}
	return m.Subject, m.Header, string(m.Data)
}

// count is how many events EVENTS holds, without those that were refused.
func (s *system) count() uint64 {
	s.t.Helper()
	return s.messages() - uint64(len(s.refused()))
}

func (s *system) messages() uint64 {
	s.t.Helper()
	stream, err := s.nats.JetStream().Stream(context.Background(), streams.Events)
	if err != nil {
		s.t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// refused are the refusals that EVENTS holds for fanout, by their ids, then reasons.
func (s *system) refused() (out []string) {
	s.t.Helper()
	for seq := range s.messages() {
		if _, header, _ := s.stored(seq + 1); header.Get(streams.HeaderRefused) != "" {
			r, _ := eventlog.Refused(header)
			out = append(out, r.Subject+" "+r.ID+" "+string(r.Reason))
		}
	}
	return out
}

func event(id, eventType, data string) string {
	return fmt.Sprintf(`{"id":%q,"type":%q,"timestamp":"2026-08-19T14:32:07.421Z","data":%s}`, id, eventType, data)
}

func TestAnEventIsStoredByteForByteBeforeItIsAnswered(t *testing.T) {
	s := start(t, nil)
	body := ` {"data": {"n": 12345678901234567890.10, "s":"\u00e9"} , "type":"payment.captured","timestamp":"2026-08-19T14:32:07.421+02:00","id":"pay:17/a"}`
	got := s.send("POST", ingest.Path+"?tenant=acme", "application/json; charset=utf-8", body,
		"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate", "a=b").accepted(t, 202)
	if want := (ingest.Accepted{ID: "pay:17/a", Tenant: "acme", Type: "payment.captured", Seq: 1}); got != want {
		t.Fatalf("answered %+v, want %+v", got, want)
	}
	subject, header, stored := s.stored(1)
	if subject != "events.acme.payment.captured" || stored != body {
		t.Errorf("stored %s %s", subject, stored)
	}
	for name, want := range map[string]string{"Nats-Msg-Id": "acme/pay:17/a", "tracestate": "a=b",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		if header.Get(name) != want {
			t.Errorf("header %s is %q, want %q", name, header.Get(name), want)
		}
	}
}

func TestWhatAProducerLeavesOutIsAssigned(t *testing.T) {
	now := time.Date(2026, 8, 19, 14, 0, 0, 5000, time.UTC)
	s := start(t, func(o *ingest.Options) { o.Now = func() time.Time { return now } })
	got := s.post(`{"type":"a","data":{"x": 1}}`).accepted(t, 202)
	if !strings.HasPrefix(got.ID, "evt_") || got.Tenant != "default" {
		t.Fatalf("answered %+v", got)
	}
	want := `{"id":"` + got.ID + `","type":"a","timestamp":"2026-08-19T14:00:00.000005Z","data":{"x": 1}}`
	if _, header, stored := s.stored(got.Seq); stored != want || header.Get("Nats-Msg-Id") != "default/"+got.ID {
		t.Errorf("stored %s, want %s", stored, want)
	}
}

func TestMalformedTraceContextIsDropped(t *testing.T) {
	s := start(t, nil)
	s.post(event("a", "t", "1"), "traceparent", "00-zz-zz-00", "tracestate", "a=b").accepted(t, 202)
	if _, header, _ := s.stored(1); header.Get("traceparent") != "" || header.Get("tracestate") != "" {
		t.Errorf("stored with %v", header)
	}
}

func TestTheSameEventPublishedAgainIsADuplicateAndADifferentOneAConflict(t *testing.T) {
	s := start(t, nil)
	first := s.post(event("id-1", "a.b", `{"x":1}`)).accepted(t, 202)
	s.post(event("id-2", "a.b", `{"x":1}`)).accepted(t, 202)

	noTime := `{"id":"id-3","type":"a.b","data":1}`
	third := s.post(noTime).accepted(t, 202)
	for name, c := range map[string]struct {
		body string
		seq  uint64
	}{
		"the same bytes":                         {event("id-1", "a.b", `{"x":1}`), first.Seq},
		"other key order around the same data":   {`{"data":{"x":1},"id":"id-1","timestamp":"2026-08-19T14:32:07.421Z","type":"a.b"}`, first.Seq},
		"a timestamp that is assigned each time": {noTime, third.Seq},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.post(c.body).accepted(t, 200); !got.Duplicate || got.Seq != c.seq {
				t.Errorf("answered %+v, want a duplicate of %d", got, c.seq)
			}
		})
	}
	for name, c := range map[string]struct{ tenant, body string }{
		"other data":       {"default", event("id-1", "a.b", `{"x":2}`)},
		"other whitespace": {"default", event("id-1", "a.b", `{"x": 1}`)},
		"another type":     {"default", event("id-1", "a.c", `{"x":1}`)},
		"another time":     {"default", strings.Replace(event("id-1", "a.b", `{"x":1}`), "07.421Z", "08Z", 1)},
		"a deadline": {"default", strings.Replace(event("id-1", "a.b", `{"x":1}`), `"data"`,
			`"deliver_by":"2026-08-20T00:00:00Z","data"`, 1)},
		"a subject": {"default", strings.Replace(event("id-1", "a.b", `{"x":1}`), `"data"`,
			`"subject":{"type":"p","id":"1"},"data"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			p := s.send("POST", ingest.Path+"?tenant="+c.tenant, "application/json", c.body).problem(t, 409, "id_in_use")
			if p.Field != "id" || p.EventID != "id-1" {
				t.Errorf("the problem is %+v", p)
			}
		})
	}
	if n := s.count(); n != 3 {
		t.Errorf("EVENTS holds %d, want 3", n)
	}
	if n := len(s.refused()); n != 6 {
		t.Errorf("%d refused events are on their way to the record, want 6", n)
	}
}

func TestOneTenantsIDsNeverMeetAnothers(t *testing.T) {
	s := start(t, nil)
	for _, tenant := range []string{"acme", "globex"} {
		s.send("POST", ingest.Path+"?tenant="+tenant, "application/json", event("ord-1", "a.b", `"`+tenant+`"`)).accepted(t,
			202)
	}
	for seq, tenant := range []string{"acme", "globex"} {
		if subject, _, body := s.stored(uint64(seq + 1)); subject != "events."+tenant+".a.b" ||
			!strings.Contains(body, tenant) {
			t.Errorf("EVENTS holds %s of %s at %d", body, subject, seq+1)
		}
	}
}

func TestAConflictRevealsNothingOfTheOtherEvent(t *testing.T) {
	s := start(t, nil)
	s.post(event("shared", "secret.merger", `"CONFIDENTIAL"`)).accepted(t, 202)
	s.post(event("shared", "other", `1`)).problem(t, 409, "id_in_use")
	a := s.post(event("shared", "other", `1`))
	for _, secret := range []string{"secret.merger", "CONFIDENTIAL", `"seq"`} {
		if bytes.Contains(a.body, []byte(secret)) {
			t.Errorf("the answer reveals %s: %s", secret, a.body)
		}
	}
}

func TestWrongRequestsGetExactProblems(t *testing.T) {
	s := start(t, func(o *ingest.Options) { o.MaxEventBytes = 1000 })
	const json, lines = "application/json", "application/x-ndjson"
	many := strings.Repeat(`{"type":"a","data":1}`+"\n", ingest.MaxBatchEvents+1)
	for name, c := range map[string]struct {
		method, path, kind, body string
		header                   []string
		status                   int
		code, field              string
	}{
		"no content type": {"POST", "", "", event("a", "b", "1"), nil, 415, "unsupported_media_type", ""},
		"a form": {"POST", "", "application/x-www-form-urlencoded", "a=b", nil, 415,
			"unsupported_media_type", ""},
		"another charset": {"POST", "", json + "; charset=latin1", event("a", "b", "1"), nil, 415,
			"unsupported_media_type", ""},
		"a compressed body": {"POST", "", json, "x", []string{"Content-Encoding", "gzip"}, 415,
			"unsupported_media_type", ""},
		"GET": {"GET", "", "", "", nil, 405, "method_not_allowed", ""},
		"an unknown parameter": {"POST", "?tennant=acme", json, event("a", "b", "1"), nil, 400,
			"unknown_parameter", "tennant"},
		"two tenants": {"POST", "?tenant=a&tenant=b", json, event("a", "b", "1"), nil, 400, "invalid",
			"tenant"},
		"header and parameter that differ": {"POST", "?tenant=a", json, event("a", "b", "1"), []string{"Waybill-Tenant", "b"},
			400, "invalid", "tenant"},
		"a tenant with a full stop": {"POST", "?tenant=a.b", json, event("a", "b", "1"), nil, 422, "invalid",
			"tenant"},
		"no JSON":       {"POST", "", json, "hello", nil, 400, "malformed", "event"},
		"an empty body": {"POST", "", json, "", nil, 400, "malformed", "event"},
		"an array": {"POST", "", json, "[" + event("a", "b", "1") + "]", nil, 400, "malformed",
			"event"},
		"two events": {"POST", "", json, event("a", "b", "1") + event("b", "b", "1"), nil, 400,
			"malformed", "event"},
		"no type":                   {"POST", "", json, `{"id":"a","data":1}`, nil, 422, "invalid", "type"},
		"a type that is no subject": {"POST", "", json, event("a", "b.>", "1"), nil, 422, "invalid", "type"},
		"no data":                   {"POST", "", json, `{"id":"a","type":"b"}`, nil, 422, "invalid", "data"},
		"an id with a space":        {"POST", "", json, event("a b", "b", "1"), nil, 422, "invalid", "id"},
		"an id with a comma":        {"POST", "", json, event("a,b", "b", "1"), nil, 422, "invalid", "id"},
		"an empty id":               {"POST", "", json, `{"id":"","type":"b","data":1}`, nil, 422, "invalid", "id"},
		"a wrong time": {"POST", "", json, `{"type":"b","timestamp":"today","data":1}`, nil, 422,
			"invalid", "timestamp"},
		"an unknown key": {"POST", "", json, `{"type":"b","deliver_buy":"x","data":1}`, nil, 422, "invalid",
			"deliver_buy"},
		"a wrong subject": {"POST", "", json, `{"type":"b","subject":{"type":"x"},"data":1}`, nil, 422,
			"invalid", "subject.id"},
		"an event over the limit": {"POST", "", json, event("a", "b", `"`+strings.Repeat("x", 1000)+`"`), nil, 413,
			"too_large", ""},
		"over the limit once completed": {"POST", "", json, `{"type":"b","data":"` + strings.Repeat("x", 960) + `"}`, nil,
			413, "too_large", ""},
		"a body over the limit": {"POST", "", json, strings.Repeat(" ", ingest.MaxBatchBytes+1), nil, 413,
			"too_large", ""},
		"an empty batch":             {"POST", "", json, `{"events":[]}`, nil, 422, "invalid", "events"},
		"events that are no array":   {"POST", "", json, `{"events":{}}`, nil, 422, "invalid", "events"},
		"a batch with another key":   {"POST", "", json, `{"events":[1],"tenant":"x"}`, nil, 422, "invalid", "tenant"},
		"a batch with the key twice": {"POST", "", json, `{"events":[1],"events":[2]}`, nil, 422, "invalid", "events"},
		"a batch that is cut off":    {"POST", "", json, `{"events":[1,`, nil, 400, "malformed", "events"},
		"bytes after a batch":        {"POST", "", json, `{"events":[1]}{}`, nil, 400, "malformed", ""},
		"too many events": {"POST", "", json, `{"events":[` +
			strings.TrimSuffix(strings.ReplaceAll(many, "\n", ","), ",") + `]}`, nil, 413, "too_many_events", ""},
		"too many lines": {"POST", "", lines, many, nil, 413, "too_many_events", ""},
		"no line":        {"POST", "", lines, "\n \r\n", nil, 422, "invalid", "events"},
		"a page of another origin": {"POST", "", json, event("a", "b", "1"),
			[]string{"Origin", "https://evil.example"}, 403, "cross_origin", ""},
		"a name that was rebound": {"POST", "", json, event("a", "b", "1"), []string{"Host", "evil.example"}, 403,
			"wrong_host", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.send(c.method, ingest.Path+c.path, c.kind, c.body, c.header...)
			if p := a.problem(t, c.status, c.code); p.Field != c.field {
				t.Errorf("the field is %q, want %q: %s", p.Field, c.field, a.body)
			}
			if c.status == 405 && a.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q", a.header.Get("Allow"))
			}
		})
	}
	if n := s.count(); n != 0 {
		t.Errorf("EVENTS holds %d events after wrong requests alone", n)
	}
}

func TestABodyThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	s := start(t, func(o *ingest.Options) { o.BodyTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"100\r\n\r\n{", ingest.Path)
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		t.Errorf("answered %q (%v)", answer, err)
	}
}
