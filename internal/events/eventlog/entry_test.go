package eventlog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

var noon = time.Date(2026, 8, 19, 12, 0, 0, 0, time.UTC)

func TestTraceContextIsPassedOnOnlyWhenItIsWellFormed(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	for name, c := range map[string]struct {
		parent, state         string
		wantParent, wantState string
	}{
		"both":                  {"00-" + id + "-01", "a=b,c=d", "00-" + id + "-01", "a=b,c=d"},
		"a later version":       {"cc-" + id + "-01-what", "", "cc-" + id + "-01-what", ""},
		"a long state":          {"00-" + id + "-01", strings.Repeat("x", 513), "00-" + id + "-01", ""},
		"a state alone":         {"", "a=b", "", ""},
		"capital letters":       {"00-" + strings.ToUpper(id) + "-01", "a=b", "", ""},
		"a long parent":         {"00-" + id + "-01-" + strings.Repeat("x", 100), "", "", ""},
		"what is not a parent":  {"hello", "a=b", "", ""},
		"a parent with a break": {"00-" + id + "-01\r\nX: y", "", "", ""},
	} {
		e, err := Prepare(Draft{Tenant: "default", Raw: []byte(`{"type":"a","data":1}`)}, 1000, noon)
		if err != nil {
			t.Fatal(err)
		}
		e.Trace = TraceOf([]string{c.parent}, []string{c.state})
		h := e.message().Header
		if got := strings.Join(h["traceparent"], "|"); got != c.wantParent {
			t.Errorf("%s: traceparent %q, want %q", name, got, c.wantParent)
		}
		if got := strings.Join(h["tracestate"], "|"); got != c.wantState {
			t.Errorf("%s: tracestate %q, want %q", name, got, c.wantState)
		}
	}
}

func TestTheLimitCountsWhatIsStored(t *testing.T) {
	raw := []byte(`{"type":"a","data":1}`)
	var large *TooLargeError
	if _, err := Prepare(Draft{Tenant: "default", Raw: raw}, len(raw), noon); !errors.As(err, &large) ||
		large.Bytes <= len(raw) {
		t.Errorf("got %v", err)
	}
	if _, err := Prepare(Draft{Tenant: "default", Raw: raw}, len(raw)-1, noon); !errors.As(err, &large) ||
		large.Bytes != len(raw) {
		t.Errorf("got %v", err)
	}
}

// FuzzPrepare: what is stored is an event that fanout can read, with the
// producer's data, and is recognised as itself.
func FuzzPrepare(f *testing.F) {
	for _, s := range []string{`{"type":"a","data":1}`, `{"id":"x","type":"a","data":{"a": 1e400}}`,
		`{"type":"a","timestamp":"2026-08-19T14:32:07.421+02:00","data":[]}`,
		`{"id":"x","type":"a","timestamp":"2026-08-19T14:32:07Z","deliver_by":"2027-01-01T00:00:00+01:00","subject":{"type":"t\"","id":"\u00e9\\"},"data":null}`, `{"data":"\ud800","type":"a.b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := Prepare(Draft{Tenant: "default", Raw: raw}, envelope.MaxEventBytes, noon)
		if err != nil {
			return
		}
		stored, err := envelope.Parse(e.Body)
		if err != nil {
			t.Fatalf("%q is stored as %q: %v", raw, e.Body, err)
		}
		if string(stored.Data) != string(e.Event.Data) || stored.ID != e.Event.ID ||
			!stored.Timestamp.Equal(e.Event.Timestamp) || !stored.DeliverBy.Equal(e.Event.DeliverBy) {
			t.Fatalf("%q is stored as %+v", raw, stored)
		}
		m := e.stored()
		again, err := Prepare(Draft{Tenant: "default", Raw: raw}, envelope.MaxEventBytes, noon.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		again.Event.ID = e.Event.ID // a retry has the id
		if again.timeAssigned != e.timeAssigned || !again.same(m.Subject, m.Header, m.Data) {
			t.Fatalf("%q is not recognised as %q", again.Body, e.Body)
		}
		other := again
		other.Event.Data = append([]byte(" "), again.Event.Data...)
		other.Body = other.Event.AppendJSON(nil)
		if other.same(m.Subject, m.Header, m.Data) || again.same("events.other."+e.Event.Type, m.Header, m.Data) ||
			again.same(m.Subject, nats.Header{"Waybill-Only-Endpoint": {"ep_1"}}, m.Data) {
			t.Fatalf("a different event passes for %q", e.Body)
		}
	})
}

// stored is the message as EVENTS has it.
func (e Entry) stored() *nats.Msg {
	m := e.message()
	m.Subject = e.subject()
	return m
}
