package escalator_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

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

// bench is an escalator under test, with what it talks to.
type bench struct {
	t        *testing.T
	server   *testkit.Server
	js       jetstream.JetStream
	kv       jetstream.KeyValue
	channels *revision.Store[channel.Channel]
	policies *revision.Store[escalation.Policy]
	ledger   *ledger
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := testkit.NATS(t)
	b := &bench{t: t, server: server, js: server.JetStream()}
	var err error
	b.channels, err = revision.Open(t.Context(), b.js, channel.Registry())
	must(t, err)
	b.policies, err = revision.Open(t.Context(), b.js, escalation.Policies())
	must(t, err)
	b.kv, err = b.js.KeyValue(t.Context(), streams.IncidentsBucket)
	must(t, err)
	b.ledger = followLedger(t, b.js)
	return b
}

func loopback(t testing.TB) egress.Policy {
	p, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	must(t, err)
	return p
}

// running is an escalator that a test can stop.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("the escalator did not stop")
	}
}

// escalator starts one, and returns once it knows whom to tell.
func (b *bench) escalator(alter ...func(*escalator.Options)) *running {
	b.t.Helper()
	nc := b.server.Connect()
	sender := channel.NewSender(channel.Options{Egress: loopback(b.t), NC: nc, Timeout: 2 * time.Second})
	o := escalator.Options{NC: nc, Name: "escalator", Sender: sender, DrainTimeout: 5 * time.Second, Random: func() float64 { return 0.1 },
		Log: log(b.t), Metrics: prometheus.NewRegistry()}
	for _, f := range alter {
		f(&o)
	}
	e, err := escalator.New(b.t.Context(), o)
	must(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() { r.done <- e.Run(ctx); close(ended) }()
	b.t.Cleanup(func() { cancel(); <-ended; sender.Close() })
	return r
}

func log(t *testing.T) zerolog.Logger {
	if os.Getenv("WAYBILL_TEST_LOG") != "" {
		return zerolog.New(os.Stderr)
	}
	return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel)
}

// hook makes a channel of kind webhook to a receiver.
func (b *bench) hook(name string, r *receiver) {
	b.t.Helper()
	_, err := b.channels.Create(b.t.Context(), name, channel.Channel{Name: name, Kind: channel.Webhook, URL: r.URL, Secret: channel.Secret(r.secret)},
		revision.Change{Actor: "test", Action: "created"})
	must(b.t, err)
}

// policy makes one for everything, with the steps given.
func (b *bench) policy(alter func(*escalation.Policy), steps ...escalation.Step) {
	b.t.Helper()
	p := escalation.Policy{Name: "all", Steps: steps, Window: time.Second}.WithDefaults()
	if alter != nil {
		alter(&p)
	}
	_, err := b.policies.Create(b.t.Context(), p.Name, p, revision.Change{Actor: "test", Action: "created"})
	must(b.t, err)
}

func step(after time.Duration, channels ...string) escalation.Step {
	return escalation.Step{After: after, Channels: channels}
}

// dead is a dead letter; n tells them apart.
func dead(n int, within time.Duration) escalation.Trouble {
	now := time.Now().UTC()
	t := escalation.Trouble{Kind: record.DeliveryDeadLetter, Tenant: "default", EventID: fmt.Sprintf("evt-%d", n), EndpointID: fmt.Sprintf("ep_%d", n%3),
		EventType: "lab_result.critical", Host: "hooks.example.com", Reason: "attempts_exhausted", Attempts: 3, At: now}
	if within != 0 {
		t.DeliverBy = now.Add(within)
	}
	t.ID = record.EndID(t.Kind, t.EventID, t.EndpointID, "")
	return t
}

// ask publishes what asks for people to be told.
func (b *bench) ask(ts ...escalation.Trouble) {
	b.t.Helper()
	for _, t := range ts {
		m, err := t.Message()
		must(b.t, err)
		_, err = b.js.PublishMsg(b.t.Context(), m)
		must(b.t, err)
	}
}

func (b *bench) incident(id string) *escalation.Incident {
	b.t.Helper()
	e, err := b.kv.Get(b.t.Context(), streams.IncidentKey(id))
	must(b.t, err)
	doc, err := escalation.DecodeIncident(e.Value())
	must(b.t, err)
	return doc
}

// notice is what a receiver was told.
type notice struct {
	id   string // webhook-id
	kind string
	at   time.Time
	data struct {
		Incident    string               `json:"incident_id"`
		Count       int                  `json:"count"`
		Step        int                  `json:"step"`
		Reminder    bool                 `json:"reminder"`
		Reasons     map[string]int       `json:"reasons"`
		Endpoints   map[string]int       `json:"endpoints"`
		DeadLetters []escalation.Trouble `json:"dead_letters"`
		AckedBy     string               `json:"acknowledged_by"`
	}
}

// receiver is a real HTTP server that verifies what it gets.
type receiver struct {
	*httptest.Server
	secret string

	mu      sync.Mutex
	notices []notice
	arrived chan struct{}
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, n notice)) *receiver {
	t.Helper()
	key, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	r := &receiver{secret: key.Reveal(), arrived: make(chan struct{})}
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
		var e struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		n := notice{id: req.Header.Get("webhook-id"), at: time.Now()}
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		n.kind = e.Type
		if err := json.Unmarshal(e.Data, &n.data); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.notices = append(r.notices, n)
		close(r.arrived)
		r.arrived = make(chan struct{})
		r.mu.Unlock()
		answer(w, n)
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func accept(w http.ResponseWriter, _ notice) { w.WriteHeader(http.StatusNoContent) }

func refuse(status int) func(http.ResponseWriter, notice) {
	return func(w http.ResponseWriter, _ notice) { w.WriteHeader(status) }
}

func (r *receiver) got() []notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]notice(nil), r.notices...)
}

// waitFor waits until what came satisfies a condition, and returns it.
func (r *receiver) waitFor(t *testing.T, what string, cond func([]notice) bool) []notice {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		arrived, got := r.arrived, append([]notice(nil), r.notices...)
		r.mu.Unlock()
		if cond(got) {
			return got
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("waited for %s; got %d notices: %+v", what, len(got), got)
		}
	}
}

func atLeast(n int) func([]notice) bool { return func(got []notice) bool { return len(got) >= n } }

// covered counts the dead letters that notices told of, reminders aside.
func covered(got []notice) int {
	n := 0
	for _, g := range got {
		if !g.data.Reminder && g.kind == "waybill.escalation.triggered" {
			n += g.data.Count
		}
	}
	return n
}

// ledger follows LEDGER.
type ledger struct {
	mu      sync.Mutex
	records []record.Record
	arrived chan struct{}
}

func followLedger(t *testing.T, js jetstream.JetStream) *ledger {
	t.Helper()
	l := &ledger{arrived: make(chan struct{})}
	c, err := js.OrderedConsumer(t.Context(), streams.Ledger, jetstream.OrderedConsumerConfig{})
	must(t, err)
	cc, err := c.Consume(func(m jetstream.Msg) {
		r, err := record.Decode(m.Data())
		if err != nil {
			t.Errorf("LEDGER holds what is no record: %v", err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.records = append(l.records, r)
		close(l.arrived)
		l.arrived = make(chan struct{})
	})
	must(t, err)
	t.Cleanup(cc.Stop)
	return l
}

// waitFor waits until n records satisfy a condition, and returns them.
func (l *ledger) waitFor(t *testing.T, n int, cond func(record.Record) bool) []record.Record {
	t.Helper()
	deadline := time.After(patience)
	for {
		l.mu.Lock()
		arrived := l.arrived
		var got []record.Record
		for _, r := range l.records {
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
			t.Fatalf("LEDGER has %d such records, want %d", len(got), n)
		}
	}
}

// acknowledge does what control does.
func (b *bench) acknowledge(id, by string) {
	b.t.Helper()
	for {
		e, err := b.kv.Get(b.t.Context(), streams.IncidentKey(id))
		must(b.t, err)
		doc, err := escalation.DecodeIncident(e.Value())
		must(b.t, err)
		doc.State, doc.AckedBy, doc.AckedAt = escalation.Acknowledged, by, time.Now().UTC()
		body, err := doc.Encode()
		must(b.t, err)
		if _, err := b.kv.Update(b.t.Context(), streams.IncidentKey(id), body, e.Revision()); err == nil {
			return
		}
	}
}

func change(why string) revision.Change {
	return revision.Change{Actor: "test", Action: "updated", Reason: why}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
