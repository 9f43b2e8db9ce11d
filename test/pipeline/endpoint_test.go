package pipeline_test

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// control is what operators use, with the bench's keys.
func (b *bench) control(keys *sealed.Keyring) *control.Control {
	b.t.Helper()
	c, err := control.New(b.t.Context(), control.Options{NC: b.server.Connect(), Egress: testkit.Loopback(b.t),
		Keys: keys})
	must(b.t, err)
	return c
}

// mutual is a receiver that wants a client certificate. It answers 500 until
// accepting, and notes who called with which headers.
type mutual struct {
	*httptest.Server
	accept atomic.Bool

	mu      sync.Mutex
	calls   []string
	arrived chan struct{}
}

func newMutual(t *testing.T, ca *testkit.CA) *mutual {
	t.Helper()
	m := &mutual{arrived: make(chan struct{}, 1000)}
	m.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.calls = append(m.calls, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.Header.Get("X-Tenant-Key"))
		m.mu.Unlock()
		m.arrived <- struct{}{}
		if !m.accept.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, "you sent %s", r.Header.Get("X-Tenant-Key"))
	}))
	m.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Server(time.Now().Add(time.Hour)).TLS(t)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool()}
	m.StartTLS()
	t.Cleanup(m.Close)
	return m
}

func (m *mutual) wait(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-m.arrived:
		case <-time.After(patience):
			t.Fatalf("the receiver got %d requests", len(m.calls))
		}
	}
}

// Certificate, headers and issuers of an endpoint change while two dispatchers
// work on many deliveries to it: every attempt after the change is made with
// the new ones, by both.
func TestAChangeOfCredentialsTakesEffectAtTheNextAttemptInEveryDispatcher(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ca := testkit.NewCA(t, "ours")
	m := newMutual(t, ca)
	ctl := b.control(b.keys)
	first, second := ca.Client("first", time.Now().Add(time.Hour)), ca.Client("second", time.Now().Add(time.Hour))
	const events = 12
	policy := retry.Policy{Name: "quick"}
	for range 400 {
		policy.Delays = append(policy.Delays, 50*time.Millisecond)
	}
	made, err := ctl.CreateEndpoint(t.Context(),
		control.EndpointSpec{URL: m.URL, Types: []string{">"}, CA: ca.PEM, Policy: &policy,
			Headers:           map[string]string{"X-Tenant-Key": "key-of-the-first"},
			ClientCertificate: &control.ClientCertificateSpec{Certificate: first.Cert, Key: first.Key}}, "ann")
	must(t, err)
	b.fanout()
	b.dispatcher(func(o *dispatcher.Options) { o.Name = "one" })
	b.dispatcher(func(o *dispatcher.Options) { o.Name = "other" })
	for i := range events {
		b.publish("default", fmt.Sprint("evt-", i), "order.paid", `1`)
	}
	m.wait(t, 2*events)
	_, err = ctl.UpdateEndpoint(t.Context(), made.Endpoint.ID, control.Patch(control.EndpointSpec{
		Headers:           map[string]string{"X-Tenant-Key": "key-of-the-second"},
		ClientCertificate: &control.ClientCertificateSpec{Certificate: second.Cert, Key: second.Key},
	}, "headers", "client_certificate"), "bob", "yearly")
	must(t, err)
	by := map[string]bool{}
	b.ledger.WaitFor(t, 2*events, func(r record.Record) bool {
		if r.Kind == record.Attempt && r.EndpointRevision == 2 {
			by[r.Dispatcher] = true
		}
		return r.Kind == record.Attempt && r.EndpointRevision == 2
	})
	m.accept.Store(true)
	b.ledger.WaitFor(t, events, ended)
	if !by["one"] || !by["other"] {
		t.Errorf("only %v made attempts after the change", by)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, c := range m.calls {
		counts[c]++
	}
	attempts := map[uint64]int{}
	for _, r := range b.ledger.Where(kind(record.Attempt)) {
		attempts[r.EndpointRevision]++
		if r.ClientFingerprint == "" || strings.Contains(fmt.Sprintf("%+v", r), "key-of-the") {
			t.Errorf("on record: %+v", r)
		}
	}
	if len(counts) != 2 || counts["first key-of-the-first"] != attempts[1] ||
		counts["second key-of-the-second"] != attempts[2] {
		t.Errorf("requests %v, attempts on record by revision %v", counts, attempts)
	}
	changes := b.ledger.WaitFor(t, 2, kind(record.EndpointChanged))
	if s := changes[1].Settings; changes[1].Actor != "bob" || s["headers"] != "X-Tenant-Key" ||
		s["client_certificate"] == "" || s["client_certificate"] == changes[0].Settings["client_certificate"] {
		t.Errorf("the change on record: %+v", changes[1])
	}
}

func TestWithoutTheKeyDeliveriesWaitAndNothingIsSpent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wrong := testkit.Keys(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	other := newReceiver(t, ok)
	otherEndpoint := b.endpoint(other, func(e *registry.Endpoint) {
		k, err := envelope.ParseSecretFor(e.Scheme, other.Secret)
		must(t, err)
		e.Secrets = []registry.Secret{e.SealSecret(wrong, k)}
	})
	b.fanout() // needs no key
	d := b.dispatcher(func(o *dispatcher.Options) { o.Keys = wrong })
	b.publish("default", "evt-1", "order.paid", `1`)
	b.ledger.WaitFor(t, 1, ended) // to the endpoint whose secret opens
	// The other delivery has been moved out of the way.
	waitFor(t, func() bool {
		s, err := b.js.Stream(t.Context(), streams.Retry)
		must(t, err)
		return s.CachedInfo().State.Msgs == 1
	})
	if got := b.ledger.Where(func(r record.Record) bool {
		return r.EndpointID == e.ID &&
			(r.Kind == record.Attempt || ended(r))
	}); len(got) != 0 || len(r.Got()) != 0 {
		t.Errorf("without the key: %+v, %d requests", got, len(r.Got()))
	}
	changes := b.ledger.WaitFor(t, 2, kind(record.EndpointChanged))
	for _, c := range changes {
		if len(c.KeyIDs) != 1 {
			t.Errorf("fanout does not know the key's id: %+v", c)
		}
	}
	d.Stop(t)
	if otherEndpoint.ID == e.ID || len(other.Got()) != 1 {
		t.Errorf("%d requests to the other", len(other.Got()))
	}
	// With the key the delivery goes out, as its first attempt.
	b.dispatcher()
	if got := r.WaitFor(t, 1); got[0].attempt != 1 || got[0].badSig != nil {
		t.Errorf("%+v", got[0])
	}
}

// waitFor waits for what no record tells.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not happen")
		}
	}
}

// Rotation while events flow: every request verifies with the secret that the
// receiver has, whichever of the three it is.
func TestASecondRotationInsideTheOverlapKeepsEveryOlderSecretToItsOwnEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctl := b.control(b.keys)
	r := newReceiver(t, ok)
	made, err := ctl.CreateEndpoint(t.Context(), control.EndpointSpec{URL: r.URL, Types: []string{">"}, Secret: r.Secret},
		"ann")
	must(t, err)
	secrets := []string{made.Secret}
	day := control.Duration(24 * time.Hour)
	for range 2 {
		next, err := ctl.RotateSecret(t.Context(), made.Endpoint.ID, control.Rotation{Overlap: &day}, "ann")
		must(t, err)
		secrets = append(secrets, next.Secret)
	}
	e, err := ctl.Endpoint(t.Context(), made.Endpoint.ID)
	must(t, err)
	if len(e.Keys) != 3 || !e.Keys[0].ExpiresAt.IsZero() || !e.Keys[1].ExpiresAt.After(e.Keys[2].ExpiresAt) {
		t.Fatalf("keys %+v", e.Keys)
	}
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	got := r.WaitFor(t, 1)[0]
	for i, secret := range secrets {
		v, err := envelope.NewVerifier(secret)
		must(t, err)
		if err := v.Verify(got.header, got.body); err != nil {
			t.Errorf("secret %d: %v", i, err)
		}
	}
	if a := b.ledger.WaitFor(t, 1, kind(record.Attempt))[0]; len(a.KeyIDs) != 3 {
		t.Errorf("key ids on record: %v", a.KeyIDs)
	}
	for range 5 {
		_, err = ctl.RotateSecret(t.Context(), made.Endpoint.ID, control.Rotation{Overlap: &day}, "ann")
		must(t, err)
	}
	if _, err = ctl.RotateSecret(t.Context(), made.Endpoint.ID, control.Rotation{Overlap: &day}, "ann"); err == nil ||
		!strings.Contains(err.Error(), "8 secrets") {
		t.Errorf("a ninth secret: %v", err)
	}
}

func TestATokenEndpointThatFailsIsOnRecordAndThenTheDeliveryGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ca := testkit.NewCA(t, "ours")
	cert := ca.Server(time.Now().Add(time.Hour)).TLS(t)
	var tokens, requests atomic.Int64
	tokenServer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tokens.Add(1) <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, tokens.Load())
	}))
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1); r.Header.Get("Authorization") != "Bearer token-3" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, s := range []*httptest.Server{tokenServer, receiver} {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.StartTLS()
		t.Cleanup(s.Close)
	}
	made, err := b.control(b.keys).CreateEndpoint(t.Context(),
		control.EndpointSpec{URL: receiver.URL, Types: []string{">"}, CA: ca.PEM, Policy: quick(8, 10*time.Millisecond),
			OAuth2: &control.OAuth2Spec{TokenURL: tokenServer.URL, ClientID: "waybill", ClientSecret: "s3cr3t-of-the-client"}},
		"ann")
	must(t, err)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	attempts := b.ledger.WaitFor(t, 3, kind(record.Attempt))
	for i, want := range []string{"auth_failure", "auth_failure", "delivered"} {
		if a := attempts[i]; a.Outcome != want || a.EndpointID != made.Endpoint.ID || a.AuthUS == 0 || i < 2 &&
			(a.Status != 0 || a.RemoteAddr != "" || a.Decision != "retry") {
			t.Errorf("attempt %d on record: %+v", i+1, a)
		}
	}
	if tokens.Load() != 3 || requests.Load() != 1 {
		t.Errorf("%d token requests, %d to the receiver", tokens.Load(), requests.Load())
	}
}

// A key that is rotated and endpoints that are resealed while everything runs.
func TestKeysAreRotatedAndEndpointsResealedWhileEventsFlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := t.TempDir() + "/secrets.key"
	_, err := sealed.CreateFile(path)
	must(t, err)
	running, err := sealed.Open(path)
	must(t, err)
	b.keys = running
	ctl := b.control(running)
	r := newReceiver(t, ok)
	made, err := ctl.CreateEndpoint(t.Context(), control.EndpointSpec{URL: r.URL, Types: []string{">"}, Secret: r.Secret,
		Headers: map[string]string{"X-Key": "abcdef"}}, "ann")
	must(t, err)
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	r.WaitFor(t, 1)
	id, before, err := sealed.AddKey(path)
	must(t, err)
	done, err := ctl.Reseal(t.Context(), "bob", "yearly")
	if err != nil || len(done.Resealed) != 1 || done.KeyID != id || done.Sealed != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if again, err := ctl.Reseal(t.Context(), "bob", ""); err != nil || len(again.Resealed) != 0 || again.Sealed != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	changes := b.ledger.WaitFor(t, 2, kind(record.EndpointChanged))
	if c := changes[1]; c.Action != "resealed" || c.Actor != "bob" || c.Settings["sealed_under"] != id ||
		changes[0].Settings["sealed_under"] != before ||
		fmt.Sprint(c.KeyIDs) != fmt.Sprint(changes[0].KeyIDs) {
		t.Errorf("on record: %+v", c)
	}
	b.publish("default", "evt-2", "order.paid", `1`)
	if got := r.WaitFor(t, 2)[1]; got.badSig != nil || got.header.Get("X-Key") != "abcdef" {
		t.Errorf("%+v", got)
	}
	stored, err := b.store.Get(t.Context(), made.Endpoint.ID)
	must(t, err)
	if _, err := stored.Open(b.keys); err != nil {
		t.Error(err)
	}
}

// What an older version stored in the clear never signs; sealing it leaves no
// copy behind.
func TestASecretInTheClearIsSealedAndItsCopiesAreRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	e := b.endpoint(r)
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	old := fmt.Sprintf(`{"id":%q,"tenant":"default","url":%q,"types":[">"],"state":"enabled","scheme":"v1","secrets":[{"secret":%q}],"timeout":2000000000,"max_in_flight":32,"revision":2,"change":"updated","updated_by":"old"}`, e.ID, r.URL, k.Reveal())
	kv, err := b.js.KeyValue(t.Context(), streams.EndpointsBucket)
	must(t, err)
	_, err = kv.PutString(t.Context(), e.ID, old)
	must(t, err)
	b.fanout()
	b.ledger.WaitFor(t, 2, kind(record.EndpointChanged))
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	waitFor(t, func() bool {
		s, err := b.js.Stream(t.Context(), streams.Retry)
		must(t, err)
		return s.CachedInfo().State.Msgs == 1
	})
	if len(r.Got()) != 0 {
		t.Error("a secret in the clear signed a request")
	}
	done, err := b.control(b.keys).Reseal(t.Context(), "bob", "")
	if err != nil || len(done.Resealed) != 1 || len(done.Failed) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	revisions, err := kv.History(t.Context(), e.ID)
	must(t, err)
	for _, v := range revisions {
		if strings.Contains(string(v.Value()), k.Reveal()) {
			t.Errorf("revision %d has the secret", v.Revision())
		}
	}
	verifier, err := envelope.NewVerifier(k.Reveal())
	must(t, err)
	if got := r.WaitFor(t, 1)[0]; verifier.Verify(got.header, got.body) != nil {
		t.Error("the sealed secret does not sign as it did")
	}
}
