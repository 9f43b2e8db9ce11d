package watchdog

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/channel"
	"github.com/waybill-dev/waybill/internal/egress"
	"github.com/waybill-dev/waybill/internal/escalation"
	"github.com/waybill-dev/waybill/internal/escalator"
	"github.com/waybill-dev/waybill/internal/record"
	"github.com/waybill-dev/waybill/internal/revision"
	"github.com/waybill-dev/waybill/internal/testkit"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// bench is a deployment without stages, with what a watchdog talks to.
type bench struct {
	t       *testing.T
	server  *testkit.Server
	js      jetstream.JetStream
	policy  egress.Policy
	roots   *x509.CertPool // of the channels' servers; nil: the system's
	records *records
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := testkit.NATS(t)
	policy, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	must(t, err)
	b := &bench{t: t, server: server, js: server.JetStream(), policy: policy}
	b.records = b.followLedger()
	return b
}

// dog is a watchdog under test.
type dog struct {
	*Watchdog
	nc     *nats.Conn
	cancel context.CancelFunc
	done   chan error
	reg    *prometheus.Registry
}

func (b *bench) watchdog(name string, alter ...func(*Options)) *dog {
	b.t.Helper()
	nc := b.server.Connect()
	sender := channel.NewSender(channel.Options{Egress: b.policy, RootCAs: b.roots, NC: nc, Timeout: 2 * time.Second})
	d := &dog{nc: nc, done: make(chan error, 1), reg: prometheus.NewRegistry()}
	o := Options{NC: nc, Name: name, Sender: sender, Every: 50 * time.Millisecond, LookEvery: 200 * time.Millisecond,
		Hold: Hold{Raise: 1, Clear: 1}, Log: log(b.t), Metrics: d.reg}
	for _, f := range alter {
		f(&o)
	}
	var err error
	d.Watchdog, err = New(o)
	must(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	ended := make(chan struct{})
	go func() { d.done <- d.Run(ctx); close(ended) }()
	b.t.Cleanup(func() { cancel(); <-ended; sender.Close() })
	return d
}

func (d *dog) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	select {
	case err := <-d.done:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("the watchdog did not stop")
	}
}

// metric is the value of a counter or gauge, summed over its labels.
func (d *dog) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := d.reg.Gather()
	must(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			match := f.GetName() == name
			for _, l := range m.GetLabel() {
				if len(labels) > 0 && l.GetValue() != labels[0] {
					match = false
				}
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func (b *bench) escalator(alter ...func(*escalator.Options)) {
	b.t.Helper()
	nc := b.server.Connect()
	sender := channel.NewSender(channel.Options{Egress: b.policy, RootCAs: b.roots, NC: nc, Timeout: 2 * time.Second})
	o := escalator.Options{NC: nc, Name: "escalator", Sender: sender, DrainTimeout: 5 * time.Second, Log: log(b.t), Metrics: prometheus.NewRegistry()}
	for _, f := range alter {
		f(&o)
	}
	e, err := escalator.New(b.t.Context(), o)
	must(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	b.t.Cleanup(func() { cancel(); <-ended; sender.Close() })
}

func log(t *testing.T) zerolog.Logger {
	if os.Getenv("WAYBILL_TEST_LOG") != "" {
		return zerolog.New(os.Stderr).With().Timestamp().Logger()
	}
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.FatalLevel)
}

// tellable makes a channel to a receiver and a policy for everything.
func (b *bench) tellable(r *receiver) {
	b.t.Helper()
	b.channel(r.channel())
	b.policyOf("hook")
}

func (r *receiver) channel() channel.Channel {
	return channel.Channel{Name: "hook", Kind: channel.Webhook, URL: r.URL, Secret: channel.Secret(r.secret)}
}

var created = revision.Change{Actor: "test", Action: "created"}

func (b *bench) channel(c channel.Channel) {
	b.t.Helper()
	store, err := revision.Open(b.t.Context(), b.js, channel.Registry())
	must(b.t, err)
	_, err = store.Create(b.t.Context(), c.Name, c, created)
	must(b.t, err)
}

// policyOf makes a policy for everything, whose one step uses these channels.
func (b *bench) policyOf(channels ...string) {
	b.t.Helper()
	store, err := revision.Open(b.t.Context(), b.js, escalation.Policies())
	must(b.t, err)
	p := escalation.Policy{Name: "all", Steps: []escalation.Step{{Channels: channels}}, Window: time.Second}.WithDefaults()
	_, err = store.Create(b.t.Context(), p.Name, p, created)
	must(b.t, err)
}

// owed is the record of a delivery; n tells them apart.
func owed(n int, from time.Time, within time.Duration) record.Record {
	r := record.Record{Kind: record.DeliveryOwed, At: from, Tenant: "default", EventID: fmt.Sprintf("evt-%d", n), EndpointID: fmt.Sprintf("ep_%d", n%7),
		EventType: "lab_result.critical", StoredAt: from}
	if within != 0 {
		r.DeliverBy = from.Add(within)
	}
	r.ID = record.OwedID(r.EventID, r.EndpointID, "")
	return r
}

func deadLetter(o record.Record, at time.Time) record.Record {
	o.Kind, o.At, o.Reason = record.DeliveryDeadLetter, at, "attempts_exhausted"
	o.ID = record.EndID(o.Kind, o.EventID, o.EndpointID, o.ReplayID)
	return o
}

func (b *bench) publish(rs ...record.Record) {
	b.t.Helper()
	for _, r := range rs {
		m, err := r.Message()
		must(b.t, err)
		_, err = b.js.PublishMsg(b.t.Context(), m)
		must(b.t, err)
	}
}

func (b *bench) ask(r record.Record) {
	b.t.Helper()
	m, err := escalation.Of(r).Message()
	must(b.t, err)
	_, err = b.js.PublishMsg(b.t.Context(), m)
	must(b.t, err)
}

// eventually asks until a condition holds; each question waits for the server,
// or for the next of something that comes.
func (b *bench) eventually(what string, cond func() bool) {
	b.t.Helper()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-t.C:
		case <-deadline:
			b.t.Fatalf("waited for: %s", what)
		}
	}
}

// heard is what a receiver was told.
type heard struct {
	id   string
	at   time.Time
	data struct {
		Incident    string               `json:"incident_id"`
		Count       int                  `json:"count"`
		DeadLetters []escalation.Trouble `json:"dead_letters"`
	}
}

// receiver is a real HTTP server that verifies what it gets.
type receiver struct {
	*httptest.Server
	secret string

	mu      sync.Mutex
	status  int
	notices []heard
	arrived chan struct{}
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	k, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	r := &receiver{secret: k.Reveal(), arrived: make(chan struct{}), status: http.StatusNoContent}
	verifier, err := envelope.NewVerifier(r.secret)
	must(t, err)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if err := verifier.Verify(req.Header, body); err != nil {
			t.Errorf("a notice does not verify: %v", err)
		}
		var e struct{ Data json.RawMessage }
		n := heard{id: req.Header.Get("webhook-id"), at: time.Now()}
		if err := errors.Join(json.Unmarshal(body, &e), json.Unmarshal(e.Data, &n.data)); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notices = append(r.notices, n)
		close(r.arrived)
		r.arrived = make(chan struct{})
		w.WriteHeader(r.status)
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) got() []heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]heard(nil), r.notices...)
}

// about are the notices that tell of a record.
func (r *receiver) about(id string) []heard {
	var out []heard
	for _, n := range r.got() {
		for _, t := range n.data.DeadLetters {
			if t.ID == id {
				out = append(out, n)
			}
		}
	}
	return out
}

func (r *receiver) waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		arrived := r.arrived
		r.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("waited for %s; got %+v", what, r.got())
		}
	}
}

// records follows LEDGER.
type records struct {
	mu      sync.Mutex
	all     []record.Record
	arrived chan struct{}
}

func (b *bench) followLedger() *records {
	b.t.Helper()
	l := &records{arrived: make(chan struct{})}
	c, err := b.js.OrderedConsumer(b.t.Context(), streams.Ledger, jetstream.OrderedConsumerConfig{})
	must(b.t, err)
	cc, err := c.Consume(func(m jetstream.Msg) {
		r, err := record.Decode(m.Data())
		if err != nil {
			b.t.Errorf("LEDGER holds what is no record: %v", err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, r)
		close(l.arrived)
		l.arrived = make(chan struct{})
	})
	must(b.t, err)
	b.t.Cleanup(cc.Stop)
	return l
}

// waitFor waits until n records satisfy a condition, and returns them.
func (l *records) waitFor(t *testing.T, what string, n int, cond func(record.Record) bool) []record.Record {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		arrived := l.arrived
		var got []record.Record
		for _, r := range l.all {
			if cond(r) {
				got = append(got, r)
			}
		}
		l.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("LEDGER has %d records of %s, want %d", len(got), what, n)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
