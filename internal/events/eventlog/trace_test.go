package eventlog

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestOnlyTraceContextThatW3CAllowsIsTaken(t *testing.T) {
	thirtyThree := strings.TrimSuffix(strings.Repeat("a@b=1,", 33), ",")
	for name, c := range map[string]struct {
		parents, states []string
		want            Trace
	}{
		"nothing":               {nil, nil, Trace{}},
		"several states":        {[]string{parent}, []string{"a=1", "b=2"}, Trace{parent, "a=1,b=2"}},
		"an empty member":       {[]string{parent}, []string{"a=1, ,b=2"}, Trace{parent, "a=1, ,b=2"}},
		"a tenant in the key":   {[]string{parent}, []string{"0a@b=x y"}, Trace{parent, "0a@b=x y"}},
		"two parents":           {[]string{parent, parent}, []string{"a=1"}, Trace{}},
		"a version of its own":  {[]string{parent + "-x"}, nil, Trace{}},
		"version ff":            {[]string{"ff" + parent[2:]}, nil, Trace{}},
		"no trace":              {[]string{"00-" + strings.Repeat("0", 32) + parent[35:]}, nil, Trace{}},
		"no span":               {[]string{parent[:36] + strings.Repeat("0", 16) + "-01"}, nil, Trace{}},
		"a control character":   {[]string{parent}, []string{"a\x01b"}, Trace{Parent: parent}},
		"one in the value":      {[]string{parent}, []string{"a=b\x01"}, Trace{Parent: parent}},
		"beyond ASCII":          {[]string{parent}, []string{"a=\u202e"}, Trace{Parent: parent}},
		"no value":              {[]string{parent}, []string{"a="}, Trace{Parent: parent}},
		"a key twice":           {[]string{parent}, []string{"a=1,a=2"}, Trace{Parent: parent}},
		"more than 32 members":  {[]string{parent}, []string{thirtyThree}, Trace{Parent: parent}},
		"an upper-case key":     {[]string{parent}, []string{"A=1"}, Trace{Parent: parent}},
		"512 characters":        {[]string{parent}, []string{long(512)}, Trace{parent, long(512)}},
		"more":                  {[]string{parent}, []string{long(513)}, Trace{Parent: parent}},
		"60 KB":                 {[]string{parent}, []string{long(60_000)}, Trace{Parent: parent}},
		"a line break":          {[]string{parent + "\r\nX: y"}, nil, Trace{}},
		"a delete character":    {[]string{"x\x7fy"}, []string{"a=1"}, Trace{}},
		"a later version":       {[]string{"cc" + parent[2:] + "-more"}, nil, Trace{Parent: "cc" + parent[2:] + "-more"}},
		"a later one, run on":   {[]string{"cc" + parent[2:] + "more"}, nil, Trace{}},
		"equals sign in value":  {[]string{parent}, []string{"a=b=c"}, Trace{Parent: parent}},
		"a member without sign": {[]string{parent}, []string{"a=1,b"}, Trace{Parent: parent}},
	} {
		if got := TraceOf(c.parents, c.states); got != c.want {
			t.Errorf("%s: took %.80q %.80q, want %.80q %.80q", name, got.Parent, got.State, c.want.Parent, c.want.State)
		}
	}
}

// long is a tracestate of n characters.
func long(n int) string {
	var b strings.Builder
	for key := byte('a'); b.Len() < n; key++ {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(key)
		b.WriteByte('=')
		b.WriteString(strings.Repeat("x", min(200, max(1, n-b.Len()))))
	}
	return b.String()[:n]
}

// FuzzReadMessage: whatever a producer sends ends as an event that can be
// carried on, or as a refusal that fanout can read.
func FuzzReadMessage(f *testing.F) {
	f.Add("events.default.a", "x", parent, "a=b", []byte(`{"id":"x","type":"a","data":1}`))
	f.Add("events.default", "", "", "", []byte(`{`))
	f.Add("events.*.\x00é", "a b", "x\x7fy", "a\x01b", []byte(`{"type":"a","data":1}`))
	f.Fuzz(func(t *testing.T, subject, id, traceparent, tracestate string, body []byte) {
		m := &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Msg-Id": {id}, "traceparent": {traceparent},
			"tracestate": {tracestate}}, Data: body}
		d, err := ReadMessage(m)
		var e Entry
		if err == nil {
			e, err = Prepare(d, envelope.MaxEventBytes, noon)
		}
		if err != nil {
			refused(t, m, err)
			return
		}
		stored := e.stored()
		if stored.Subject != subject || id != "" && e.Event.ID != id {
			t.Fatalf("%q %q is stored as %q %q", subject, id, stored.Subject, e.Event.ID)
		}
		if _, err := envelope.Parse(stored.Data); err != nil {
			t.Fatalf("%q is stored as %q: %v", body, stored.Data, err)
		}
		carried(t, TraceIn(stored.Header))
	})
}

func refused(t *testing.T, m *nats.Msg, err error) {
	t.Helper()
	if reason, _, ok := ReasonOf(err); !ok || reason == "" {
		t.Fatalf("%q is refused without a reason: %v", m.Data, err)
	}
	stored, err := RefusalOf(m, err).message()
	if err != nil {
		t.Fatal(err)
	}
	again, ok := Refused(stored.Header)
	if !ok || again.Reason == "" || strings.ContainsAny(stored.Subject, " *>\x00") || len(stored.Subject) > maxSubject ||
		strings.ContainsAny(stored.Header.Get("Waybill-Refused"), "\r\n") {
		t.Fatalf("%q is kept as %q, %q", m.Subject, stored.Subject, stored.Header)
	}
}

// carried checks that a request can carry it, and that OpenTelemetry reads it.
func carried(t *testing.T, c Trace) {
	t.Helper()
	if c.Parent == "" {
		return
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("traceparent", c.Parent)
	r.Header.Set("tracestate", c.State)
	if strings.ContainsFunc(c.Parent+c.State, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Fatalf("no request can carry %q", c)
	}
	span := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(),
		propagation.HeaderCarrier(r.Header)))
	if !span.IsValid() && c.Parent[:2] == "00" {
		t.Fatalf("OpenTelemetry cannot read %q", c)
	}
}
