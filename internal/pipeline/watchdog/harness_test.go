package watchdog

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// bench is a deployment without stages, with what a watchdog talks to.
type bench struct {
	t      *testing.T
	server *testkit.Server
	js     jetstream.JetStream
	roots  *x509.CertPool // of the channels' servers; nil: the system's
	ledger *testkit.Ledger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := testkit.NATS(t)
	js := server.JetStream()
	return &bench{t: t, server: server, js: js, ledger: testkit.FollowLedger(t, js)}
}

// dog is a watchdog under test.
type dog struct {
	*Watchdog
	*testkit.Running
	nc  *nats.Conn
	reg *prometheus.Registry
}

func (b *bench) watchdog(name string, alter ...func(*Options)) *dog {
	b.t.Helper()
	nc := b.server.Connect()
	sender := sender.New(sender.Options{Egress: testkit.Loopback(b.t), RootCAs: b.roots, NC: nc,
		Timeout: 2 * time.Second})
	d := &dog{nc: nc, reg: prometheus.NewRegistry()}
	o := Options{NC: nc, Name: name, Sender: sender, Every: 50 * time.Millisecond, LookEvery: 200 * time.Millisecond,
		Hold: Hold{Raise: 1, Clear: 1}, Log: log(b.t), Metrics: d.reg}
	for _, f := range alter {
		f(&o)
	}
	var err error
	d.Watchdog, err = New(o)
	must(b.t, err)
	b.t.Cleanup(sender.Close)
	d.Running = testkit.Start(b.t, d.Run)
	return d
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
	sender := sender.New(sender.Options{Egress: testkit.Loopback(b.t), RootCAs: b.roots, NC: nc,
		Timeout: 2 * time.Second})
	o := escalator.Options{NC: nc, Name: "escalator", Sender: sender, DrainTimeout: 5 * time.Second, Log: log(b.t),
		Metrics: prometheus.NewRegistry()}
	for _, f := range alter {
		f(&o)
	}
	e, err := escalator.New(b.t.Context(), o)
	must(b.t, err)
	b.t.Cleanup(sender.Close)
	testkit.Start(b.t, e.Run)
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
	return channel.Channel{Name: "hook", Kind: channel.Webhook, URL: r.URL, Secret: channel.Secret(r.Secret)}
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
	r := record.Record{Kind: record.DeliveryOwed, At: from, Tenant: "default", EventID: fmt.Sprintf("evt-%d", n),
		EndpointID: fmt.Sprintf("ep_%d", n%7),
		EventType:  "lab_result.critical", StoredAt: from}
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
		DeadLetters []escalation.Problem `json:"dead_letters"`
	}
}

// receiver is told of things, and answers with status.
type receiver struct {
	*testkit.Receiver[heard]
	status atomic.Int64
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.status.Store(http.StatusNoContent)
	r.Receiver = testkit.NewReceiver(t, func(req *http.Request, body []byte, unsigned error) heard {
		var e struct{ Data json.RawMessage }
		n := heard{id: req.Header.Get("webhook-id"), at: time.Now()}
		if err := errors.Join(unsigned, json.Unmarshal(body, &e), json.Unmarshal(e.Data, &n.data)); err != nil {
			t.Errorf("a notice: %v", err)
		}
		return n
	}, func(w http.ResponseWriter, _ heard) { w.WriteHeader(int(r.status.Load())) })
	return r
}

// about are the notices that tell of a record.
func (r *receiver) about(id string) []heard {
	var out []heard
	for _, n := range r.Got() {
		for _, t := range n.data.DeadLetters {
			if t.ID == id {
				out = append(out, n)
			}
		}
	}
	return out
}

// waitAbout waits until a notice tells of a record.
func (r *receiver) waitAbout(t *testing.T, id string) {
	t.Helper()
	r.WaitUntil(t, "a notice of "+id, func([]heard) bool { return len(r.about(id)) > 0 })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
