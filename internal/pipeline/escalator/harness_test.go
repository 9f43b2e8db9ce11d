package escalator_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// bench is an escalator under test, with what it talks to.
type bench struct {
	t        *testing.T
	server   *testkit.Server
	js       jetstream.JetStream
	kv       jetstream.KeyValue
	channels *revision.Store[channel.Channel]
	policies *revision.Store[escalation.Policy]
	ledger   *testkit.Ledger
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
	b.ledger = testkit.FollowLedger(t, b.js)
	return b
}

// escalator starts one, and returns once it knows whom to tell.
func (b *bench) escalator(alter ...func(*escalator.Options)) *testkit.Running {
	b.t.Helper()
	nc := b.server.Connect()
	sender := sender.New(sender.Options{Egress: testkit.Loopback(b.t), NC: nc, Timeout: 2 * time.Second})
	o := escalator.Options{NC: nc, Name: "escalator", Sender: sender, DrainTimeout: 5 * time.Second,
		Random: func() float64 { return 0.1 },
		Log:    log(b.t), Metrics: prometheus.NewRegistry()}
	for _, f := range alter {
		f(&o)
	}
	e, err := escalator.New(b.t.Context(), o)
	must(b.t, err)
	b.t.Cleanup(sender.Close)
	return testkit.Start(b.t, e.Run)
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
	_, err := b.channels.Create(b.t.Context(), name, channel.Channel{Name: name, Kind: channel.Webhook, URL: r.URL,
		Secret: channel.Secret(r.Secret)},
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

// dead is a dead letter of one endpoint; n tells them apart.
func dead(n int, within time.Duration) escalation.Problem { return deadTo("ep_1", n, within) }

func deadTo(endpoint string, n int, within time.Duration) escalation.Problem {
	now := time.Now().UTC()
	t := escalation.Problem{Kind: record.DeliveryDeadLetter, Tenant: "default", EventID: fmt.Sprintf("evt-%d", n),
		EndpointID: endpoint,
		EventType:  "lab_result.critical", Host: "hooks.example.com", Reason: "attempts_exhausted", Attempts: 3, At: now}
	if within != 0 {
		t.DeliverBy = now.Add(within)
	}
	t.ID = record.EndID(t.Kind, t.EventID, t.EndpointID, "")
	return t
}

// ask publishes what asks for people to be told.
func (b *bench) ask(ts ...escalation.Problem) {
	b.t.Helper()
	for _, t := range ts {
		m, err := t.Message()
		must(b.t, err)
		_, err = b.js.PublishMsg(b.t.Context(), m)
		must(b.t, err)
	}
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
		DeadLetters []escalation.Problem `json:"dead_letters"`
		AckedBy     string               `json:"acknowledged_by"`
	}
}

type receiver = testkit.Receiver[notice]

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, n notice)) *receiver {
	t.Helper()
	return testkit.NewReceiver(t, func(r *http.Request, body []byte, unsigned error) notice {
		var e struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		n := notice{id: r.Header.Get("webhook-id"), at: time.Now()}
		if err := errors.Join(unsigned, json.Unmarshal(body, &e), json.Unmarshal(e.Data, &n.data)); err != nil {
			t.Errorf("a notice: %v", err)
		}
		n.kind = e.Type
		return n
	}, answer)
}

func accept(w http.ResponseWriter, _ notice) { w.WriteHeader(http.StatusNoContent) }

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
