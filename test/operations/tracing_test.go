package operations_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// What a producer sends, and its parts.
const (
	producerTrace  = "0af7651916cd43dd8448eb211c80319c"
	producerSpan   = "b7ad6b7169203331"
	producerParent = "00-" + producerTrace + "-" + producerSpan + "-01"
)

// collector takes traces as an OpenTelemetry collector does. It is busy at
// first, to be asked again.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	spans    []*wire.Span
	service  string
	failed   error
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.requests++; c.requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := c.take(r); err != nil {
			c.failed = err
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(r *http.Request) error {
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		r.Header.Get("X-Key") != "a b" {
		return fmt.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var data wire.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		return err
	}
	for _, rs := range data.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				c.service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return nil
}

// named waits for n spans of a name.
func (c *collector) named(t *testing.T, name string, n int) []*wire.Span {
	t.Helper()
	var out []*wire.Span
	eventually(t, fmt.Sprintf("%d spans %s came", n, name), func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.failed != nil {
			t.Fatal(c.failed)
		}
		out = nil
		for _, s := range c.spans {
			if s.Name == name {
				out = append(out, s)
			}
		}
		if len(out) < n {
			return fmt.Sprint(len(out))
		}
		return ""
	})
	return out
}

func attributes(s *wire.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
		if out[a.Key] == "" {
			out[a.Key] = fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return out
}

// parents gives each request's traceparent. The first request fails.
func parents(t *testing.T) (url string, got <-chan string) {
	t.Helper()
	seen := make(chan string, 10)
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		seen <- r.Header.Get("Traceparent")
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

// send publishes one event with trace context, for an endpoint that fails once.
func send(t *testing.T, api string) (first, second string) {
	t.Helper()
	url, got := parents(t)
	endpoint(t, api, fmt.Sprintf(`{"url":%q,"types":["order.*"],"policy":{"delays":["200ms","1s"]}}`,
		url+"/hooks?secret=1"))
	if status, answer := call(t, http.MethodPost, "http://"+api+"/v1/events",
		`{"id":"traced","type":"order.paid","data":{}}`,
		"traceparent", producerParent, "tracestate", "vendor=1"); status != http.StatusAccepted {
		t.Fatalf("publish: %d %s", status, answer)
	}
	return <-got, <-got
}

func TestATraceLeadsFromTheProducerThroughEachAttemptToTheReceiver(t *testing.T) {
	c := newCollector(t)
	_, a := up(t, []string{"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b"}, "--otlp-endpoint",
		c.URL)
	first, second := send(t, a.HTTP)

	publish, fanout, attempts := c.named(t, "publish", 1)[0], c.named(t, "fanout", 1)[0], c.named(t, "attempt", 2)
	if attributes(attempts[0])["waybill.attempt"] == "2" {
		attempts[0], attempts[1] = attempts[1], attempts[0]
	}
	for _, s := range append([]*wire.Span{publish, fanout}, attempts...) {
		if hex.EncodeToString(s.TraceId) != producerTrace || s.TraceState != "vendor=1" ||
			s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s is %v", s.Name, s)
		}
	}
	for _, c := range []struct {
		name         string
		child        *wire.Span
		parent, kind string
	}{
		{"publish", publish, producerSpan, "SPAN_KIND_PRODUCER"},
		{"fanout", fanout, hex.EncodeToString(publish.SpanId), "SPAN_KIND_CONSUMER"},
		{"attempt 1", attempts[0], hex.EncodeToString(fanout.SpanId), "SPAN_KIND_CLIENT"},
		{"attempt 2", attempts[1], hex.EncodeToString(fanout.SpanId), "SPAN_KIND_CLIENT"},
	} {
		if got := hex.EncodeToString(c.child.ParentSpanId); got != c.parent || c.child.Kind.String() != c.kind {
			t.Errorf("%s is a %s below %s, want %s below %s", c.name, c.child.Kind, got, c.kind, c.parent)
		}
	}
	if l := attempts[1].Links; len(attempts[0].Links) != 0 || len(l) != 1 ||
		string(l[0].SpanId) != string(attempts[0].SpanId) {
		t.Errorf("links: %v, then %v", attempts[0].Links, l)
	}
	for i, header := range []string{first, second} {
		if want := "00-" + producerTrace + "-" + hex.EncodeToString(attempts[i].SpanId) + "-01"; header != want {
			t.Errorf("request %d has traceparent %s, want %s", i+1, header, want)
		}
	}
	got := attributes(attempts[0])
	if attempts[0].Status.Code != wire.Status_STATUS_CODE_ERROR ||
		attempts[1].Status.Code != wire.Status_STATUS_CODE_UNSET ||
		got["http.response.status_code"] != "500" || got["waybill.outcome"] != "status_retryable" ||
		got["waybill.event_id"] != "traced" {
		t.Errorf("attempt 1: %v %v", attempts[0].Status, got)
	}
	if u := got["url.full"]; u == "" || u[len(u)-len("/hooks"):] != "/hooks" {
		t.Errorf("the span holds %q: more or less than the URL without its query", u)
	}
	if c.service != "waybill" {
		t.Errorf("service.name is %q", c.service)
	}
}

func TestWithoutTracingTheProducersContextReachesTheReceiverUntouched(t *testing.T) {
	_, a := up(t, nil)
	if first, second := send(t, a.HTTP); first != producerParent || second != producerParent {
		t.Errorf("traceparent %s, then %s", first, second)
	}
}
