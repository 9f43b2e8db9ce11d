package control_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit"
)

const actor = "ada@example.com"

// system is a Control on a real NATS server, with a ledger of the test's.
type system struct {
	*control.Control
	t      testing.TB
	nats   *testkit.Server
	ledger *ledger
	now    time.Time
	ctx    context.Context
	store  *registry.Store
	keys   *sealed.Keyring
}

func start(t testing.TB, change func(*control.Options)) *system {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &system{t: t, nats: testkit.NATS(t), keys: testkit.Keys(t),
		ledger: &ledger{events: map[string]control.EventRecord{}}, ctx: ctx,
		now: time.Date(2026, 8, 19, 14, 0, 0, 0, time.UTC)}
	o := control.Options{NC: s.nats.Connect(), Ledger: s.ledger, Keys: s.keys, Now: func() time.Time { return s.now }}
	if change != nil {
		change(&o)
	}
	c, err := control.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	s.Control = c
	if s.store, err = registry.OpenStore(ctx, s.nats.JetStream()); err != nil {
		t.Fatal(err)
	}
	return s
}

// endpoint makes one, changed as the test needs it.
func (s *system) endpoint(change func(*control.EndpointSpec)) control.WithSecret {
	s.t.Helper()
	spec := control.EndpointSpec{URL: "https://hooks.example.com/in", Types: []string{"a.*"}}
	if change != nil {
		change(&spec)
	}
	made, err := s.CreateEndpoint(s.ctx, spec, actor)
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// failed checks an error's code and field.
func failed(t testing.TB, err error, code control.Code, field string) *control.Error {
	t.Helper()
	var e *control.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a control.Error", err)
	}
	if e.Code != code || e.Field != field {
		t.Fatalf("got %s of %q (%v), want %s of %q", e.Code, e.Field, err, code, field)
	}
	return e
}

// ledger is a control.Ledger in memory: what a test says is on record.
type ledger struct {
	mu          sync.Mutex
	events      map[string]control.EventRecord
	deliveries  []control.Delivery
	deadLetters []control.DeadLetter
	attempts    []record.Record
	changes     []control.EndpointChange
	unowed      []control.UnowedEvent
	page        int // at most so many a page, to make listings turn pages
}

func (l *ledger) Event(_ context.Context, _, id string) (control.EventRecord, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.events[id]
	return e, ok, nil
}

func (l *ledger) Deliveries(_ context.Context, f control.DeliveryFilter, cursor string,
	limit int) (control.DeliveryPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.page > 0 {
		limit = min(limit, l.page)
	}
	var page control.DeliveryPage
	started := cursor == ""
	for _, d := range l.deliveries {
		if !started {
			started = d.EndpointID == cursor
			continue
		}
		if f.EventID != "" && d.EventID != f.EventID || f.EndpointID != "" && d.EndpointID != f.EndpointID || f.State != "" &&
			d.State != f.State ||
			f.Tenant != "" && d.Tenant != f.Tenant {
			continue
		}
		if len(page.Deliveries) == limit {
			page.Next = page.Deliveries[limit-1].EndpointID
			break
		}
		page.Deliveries = append(page.Deliveries, d)
	}
	if !started {
		return page, control.ErrBadCursor
	}
	return page, nil
}

func (l *ledger) Evidence(context.Context, control.EvidenceRequest) (*evidence.File, error) {
	return nil, errors.New("there is no tree here")
}

func (l *ledger) DeadLetters(_ context.Context, f control.DeadLetterFilter, _ string,
	limit int) (control.DeadLetterPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page control.DeadLetterPage
	for _, d := range l.deadLetters {
		if len(page.DeadLetters) < limit && (f.EventID == "" || d.EventID == f.EventID) &&
			(f.EndpointID == "" || d.EndpointID == f.EndpointID) {
			page.DeadLetters = append(page.DeadLetters, d)
		}
	}
	return page, nil
}

func (l *ledger) EndpointChanges(context.Context, string) ([]control.EndpointChange, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes, nil
}

func (l *ledger) Pending(_ context.Context, endpoint string) (n control.Pending, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.deliveries {
		if d.EndpointID == endpoint && d.State == outcome.StatePending {
			n.Deliveries++
			if d.Attempts > 0 {
				n.Attempted++
			}
		}
	}
	return n, nil
}

func (l *ledger) EventsNotOwedTo(_ context.Context, _, _ string, from, to time.Time, after uint64,
	limit int) (out []control.UnowedEvent, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.unowed {
		if u.Idx > after && !u.At.Before(from) && (to.IsZero() || u.At.Before(to)) && len(out) < limit {
			out = append(out, u)
		}
	}
	return out, nil
}

func (l *ledger) Attempts(_ context.Context, eventID, endpointID string) ([]record.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []record.Record
	for _, r := range l.attempts {
		if r.EventID == eventID && r.EndpointID == endpointID {
			out = append(out, r)
		}
	}
	return out, nil
}

func TestAnEndpointThatCannotWorkIsRefusedWithTheFieldToCorrect(t *testing.T) {
	s := start(t, nil)
	long := strings.Repeat("x", 501)
	for name, c := range map[string]struct {
		field  string
		change func(*control.EndpointSpec)
	}{
		"no url":                  {"url", func(e *control.EndpointSpec) { e.URL = "" }},
		"another scheme":          {"url", func(e *control.EndpointSpec) { e.URL = "ftp://example.com" }},
		"a loopback address":      {"url", func(e *control.EndpointSpec) { e.URL = "http://127.0.0.1/x" }},
		"localhost":               {"url", func(e *control.EndpointSpec) { e.URL = "http://localhost:8080/x" }},
		"a private IPv6 address":  {"url", func(e *control.EndpointSpec) { e.URL = "http://[fd00::1]/x" }},
		"the metadata address":    {"url", func(e *control.EndpointSpec) { e.URL = "http://169.254.169.254/latest" }},
		"a number for an address": {"url", func(e *control.EndpointSpec) { e.URL = "http://2130706433/" }},
		"a password in the url":   {"url", func(e *control.EndpointSpec) { e.URL = "https://a:b@example.com/" }},
		"no types":                {"types", func(e *control.EndpointSpec) { e.Types = nil }},
		"a wrong pattern":         {"types", func(e *control.EndpointSpec) { e.Types = []string{"a.>.b"} }},
		"a wrong tenant":          {"tenant", func(e *control.EndpointSpec) { e.Tenant = "a.b" }},
		"a long description":      {"description", func(e *control.EndpointSpec) { e.Description = long }},
		"an unknown scheme":       {"scheme", func(e *control.EndpointSpec) { e.Scheme = "v9" }},
		"a header for v1":         {"signature_header", func(e *control.EndpointSpec) { e.SignatureHeader = "X-Sig" }},
		"a header that is none": {"signature_header",
			func(e *control.EndpointSpec) { e.Scheme, e.SignatureHeader = "t,v1", "X Sig" }},
		"a secret that is none":    {"secret", func(e *control.EndpointSpec) { e.Secret = "hunter2" }},
		"a secret that is short":   {"secret", func(e *control.EndpointSpec) { e.Secret = "whsec_AAAA" }},
		"a timeout over the limit": {"timeout", func(e *control.EndpointSpec) { e.Timeout = control.Duration(time.Hour) }},
		"a negative timeout":       {"timeout", func(e *control.EndpointSpec) { e.Timeout = -1 }},
		"too many in flight":       {"max_in_flight", func(e *control.EndpointSpec) { e.MaxInFlight = 100_000 }},
		"a deadline in the past":   {"deliver_within", func(e *control.EndpointSpec) { e.DeliverWithin = -1 }},
		"a public key to sign with": {"secret", func(e *control.EndpointSpec) {
			e.Scheme = "v1a"
			e.Secret = "whpk_" +
				strings.Repeat("A", 43) + "="
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := control.EndpointSpec{URL: "https://hooks.example.com/in", Types: []string{"a.*"}}
			c.change(&spec)
			_, err := s.CreateEndpoint(s.ctx, spec, actor)
			e := failed(t, err, control.CodeInvalid, c.field)
			if spec.Secret != "" && strings.Contains(e.Error(), spec.Secret) {
				t.Errorf("the error quotes the secret: %v", e)
			}
		})
	}
	_, err := s.CreateEndpoint(s.ctx, control.EndpointSpec{URL: "https://example.com", Types: []string{">"}}, " ")
	failed(t, err, control.CodeInvalid, "actor")
	if list, err := s.Endpoints(s.ctx, control.EndpointFilter{Deleted: true}); err != nil || len(list) != 0 {
		t.Errorf("%d endpoints (%v) after refusals alone", len(list), err)
	}
}

func TestAnAllowedPrivateAddressIsTaken(t *testing.T) {
	policy, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *control.Options) { o.Egress = policy })
	s.endpoint(func(e *control.EndpointSpec) { e.URL = "http://127.0.0.1:9/x" })
}

func TestEachSchemeGetsAKeyThatSigns(t *testing.T) {
	s := start(t, nil)
	for _, scheme := range []envelope.Scheme{"", "v1", "v1a", "t,v1"} {
		made := s.endpoint(func(e *control.EndpointSpec) { e.Scheme = scheme })
		if len(made.Endpoint.Keys) != 1 || made.Endpoint.Keys[0].ID != made.KeyID ||
			(scheme == "v1a") != (made.Endpoint.Keys[0].PublicKey != "") {
			t.Errorf("made %+v", made.Endpoint)
		}
		stored, err := s.store.Get(s.ctx, made.Endpoint.ID)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := stored.Open(s.keys)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := opened.Keys(s.now)
		if err != nil || len(keys) != 1 || keys[0].Reveal() != made.Secret {
			t.Errorf("%s: stored keys %v (%v)", scheme, keys, err)
		}
	}
	list, err := s.Endpoints(s.ctx, control.EndpointFilter{Tenant: "default"})
	if err != nil || len(list) != 4 {
		t.Errorf("listed %d (%v)", len(list), err)
	}
	if list, err := s.Endpoints(s.ctx, control.EndpointFilter{Tenant: "other"}); err != nil || len(list) != 0 {
		t.Errorf("another tenant is shown %d (%v)", len(list), err)
	}
}
