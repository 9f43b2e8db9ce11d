// Package pipeline_test runs fanout and the dispatcher on a real NATS server
// with real receivers, and reads what they put on record from LEDGER.
package pipeline_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/pipeline/fanout"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait of these tests; none of them waits that long
// unless something is wrong.
const patience = 2 * time.Minute

// bench is a pipeline under test.
type bench struct {
	t      *testing.T
	server *testkit.Server
	js     jetstream.JetStream
	store  *registry.Store
	ledger *testkit.Ledger
	keys   *sealed.Keyring
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := testkit.NATS(t)
	b := &bench{t: t, server: server, js: server.JetStream(), keys: testkit.Keys(t)}
	store, err := registry.OpenStore(t.Context(), b.js)
	must(t, err)
	b.store = store
	server.Front()
	b.ledger = testkit.FollowLedger(t, b.js)
	return b
}

// log shows warnings only when a test fails.
func log(t *testing.T) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
}

func (b *bench) fanout() *testkit.Running { return b.fanoutWith(prometheus.NewRegistry()) }

func (b *bench) fanoutWith(metrics prometheus.Registerer) *testkit.Running {
	nc := b.server.Connect()
	js, err := jetstream.New(nc)
	must(b.t, err)
	view := registry.NewView(js, log(b.t))
	f, err := fanout.New(b.t.Context(), fanout.Options{NC: nc, View: view, Partitions: 1, DrainTimeout: 5 * time.Second,
		Log: log(b.t), Metrics: metrics})
	must(b.t, err)
	return testkit.Start(b.t, view.Run, f.Run)
}

func (b *bench) dispatcher(alter ...func(*dispatcher.Options)) *testkit.Running {
	nc := b.server.Connect()
	js, err := jetstream.New(nc)
	must(b.t, err)
	view := registry.NewView(js, log(b.t))
	o := dispatcher.Options{NC: nc, View: view, Name: "d-" + ids.New("", time.Now()), Partitions: 1, Keys: b.keys,
		Egress:       testkit.Loopback(b.t),
		DrainTimeout: 5 * time.Second, Random: func() float64 { return 0.5 }, Log: log(b.t),
		Metrics: prometheus.NewRegistry()}
	for _, f := range alter {
		f(&o)
	}
	d, err := dispatcher.New(b.t.Context(), o)
	must(b.t, err)
	return testkit.Start(b.t, view.Run, d.Run)
}

// endpoint creates an endpoint for a receiver.
func (b *bench) endpoint(r *receiver, alter ...func(*registry.Endpoint)) registry.Endpoint {
	b.t.Helper()
	e := registry.Endpoint{ID: ids.New(ids.Endpoint, time.Now()), Tenant: "default", URL: r.URL, Types: []string{">"},
		State: registry.Enabled, Scheme: envelope.SchemeHMAC,
		Timeout: 2 * time.Second, MaxInFlight: 32, Policy: quick(8, 10*time.Millisecond)}
	e.Secrets = []registry.Secret{b.seal(e, r.Secret)}
	for _, f := range alter {
		f(&e)
	}
	e, err := b.store.Create(b.t.Context(), e, "test")
	must(b.t, err)
	return e
}

// seal makes the stored form of a secret.
func (b *bench) seal(e registry.Endpoint, secret string) registry.Secret {
	b.t.Helper()
	k, err := envelope.ParseSecretFor(e.Scheme, secret)
	must(b.t, err)
	return e.SealSecret(b.keys, k)
}

// quick is a policy with the same short delay between attempts.
func quick(attempts int, delay time.Duration) *retry.Policy {
	p := retry.Policy{Name: "quick"}
	for range attempts - 1 {
		p.Delays = append(p.Delays, delay)
	}
	return &p
}

// publish publishes an event as a producer does.
func (b *bench) publish(tenant, id, eventType, data string) *jetstream.PubAck {
	b.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"type":%q,"timestamp":"2026-08-19T15:10:00.000Z","data":%s}`, id, eventType, data)
	return b.publishRaw(streams.EventSubject(tenant, eventType), id, body)
}

// publishRaw tries again while nobody listens: after a restart of the server
// that is so until ingest is connected again.
func (b *bench) publishRaw(subject, msgID, body string) *jetstream.PubAck {
	b.t.Helper()
	ack, err := b.tryPublish(subject, msgID, body)
	must(b.t, err)
	return ack
}

func (b *bench) tryPublish(subject, msgID, body string) (*jetstream.PubAck, error) {
	b.t.Helper()
	m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: []byte(body)}
	if msgID != "" {
		m.Header.Set(nats.MsgIdHdr, msgID)
	}
	return b.js.PublishMsg(b.t.Context(), m, jetstream.WithRetryAttempts(100))
}

// request is what a receiver got.
type request struct {
	header  http.Header
	body    []byte
	id      string
	attempt int
	at      time.Time
	badSig  error
}

type receiver = testkit.Receiver[request]

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r request)) *receiver {
	t.Helper()
	return testkit.NewReceiver(t, func(r *http.Request, body []byte, unsigned error) request {
		return request{header: r.Header, body: body, id: r.Header.Get("webhook-id"), attempt: attemptIn(body), at: time.Now(),
			badSig: unsigned}
	}, answer)
}

func ok(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusNoContent) }

func status(code int) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, _ request) { w.WriteHeader(code) }
}

func attemptIn(body []byte) int {
	const key = `"deliveryAttempt":`
	for i := 0; i+len(key) < len(body); i++ {
		if string(body[i:i+len(key)]) == key {
			j := i + len(key)
			for j < len(body) && body[j] >= '0' && body[j] <= '9' {
				j++
			}
			n, _ := strconv.Atoi(string(body[i+len(key) : j]))
			return n
		}
	}
	return 0
}

func kind(k record.Kind) func(record.Record) bool {
	return func(r record.Record) bool { return r.Kind == k }
}

// ended is what ends a delivery.
func ended(r record.Record) bool {
	return r.Kind == record.Attempt && r.Class == "delivered" || r.Kind == record.DeliveryDeadLetter ||
		r.Kind == record.DeliveryCancelled
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
