package torture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/pipeline/watchdog"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// within is the deadline of the events: ten of its seconds are kept for telling
// somebody.
const within = 18 * time.Second

// people runs what tells people beside the stages, and gives them a mailbox and
// a desk, in one step of one policy for everything.
func (s *system) people(t *testing.T) (*testkit.SMTP, *desk) {
	t.Helper()
	ca := testkit.NewCA(t, "mail")
	caFile := filepath.Join(s.dir, "ca.pem")
	must(t, os.WriteFile(caFile, []byte(ca.PEM), 0o600))
	for _, name := range []string{"escalator", "watchdog"} {
		address := loopback.Address(t)
		s.programs = append(s.programs, startProgram(t, s.dir, name, name, "--nats-url", s.natsURL, "--http", address,
			"--name", name, "--egress-allow", ourselves,
			"--secrets-key-file", s.keyFile, "--ca-file", caFile, "--partitions", fmt.Sprint(partitions)))
		s.health = append(s.health, address)
	}
	s.ready()
	box, d := testkit.NewSMTP(t, ca.Server(time.Now().Add(time.Hour)), nil), newDesk(t)
	for _, c := range []control.ChannelSpec{
		{Name: "mail", Kind: channel.Email, Host: "localhost", Port: box.Port(), Username: box.User, Secret: box.Password,
			From: "waybill@example.com", To: []string{"oncall@example.com"}},
		{Name: "desk", Kind: channel.Webhook, URL: d.URL},
	} {
		made, err := s.control.CreateChannel(t.Context(), c, "torture")
		must(t, err)
		if made.NewSecret != "" {
			d.verifier, err = envelope.NewVerifier(made.NewSecret)
			must(t, err)
		}
	}
	_, err := s.control.CreateEscalationPolicy(t.Context(), control.EscalationPolicySpec{Name: "oncall",
		Steps: []control.EscalationStep{{Channels: []string{"mail", "desk"}}}}, "torture")
	must(t, err)
	return box, d
}

// desk is an HTTP server that people are told through.
type desk struct {
	*httptest.Server
	verifier *envelope.Verifier // set before anybody is told

	mu      sync.Mutex
	calls   []deskCall
	arrived chan struct{} // closed and replaced on each call
}

type deskCall struct {
	body string
	at   time.Time
}

func newDesk(t *testing.T) *desk {
	d := &desk{arrived: make(chan struct{})}
	d.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if err := d.verifier.Verify(r.Header, body); err != nil || !json.Valid(body) {
			t.Errorf("what the desk got does not verify: %v", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.calls = append(d.calls, deskCall{string(body), time.Now()})
		close(d.arrived)
		d.arrived = make(chan struct{})
	}))
	t.Cleanup(d.Close)
	return d
}

// about waits for the first call that tells of an event.
func (d *desk) about(t *testing.T, event string) deskCall {
	t.Helper()
	bound := time.After(patience)
	for {
		d.mu.Lock()
		calls, arrived := d.calls, d.arrived
		d.mu.Unlock()
		for _, c := range calls {
			if strings.Contains(c.body, event) {
				return c
			}
		}
		select {
		case <-arrived:
		case <-bound:
			t.Fatalf("the desk heard nothing of %s; %d calls", event, len(calls))
		}
	}
}

// Every dispatcher is stopped, then the escalator too: whoever is to be told of
// a delivery that has a deadline is told before it, by mail and by HTTP.
func TestPeopleAreToldBeforeTheDeadlineThoughEveryDispatcherIsStopped(t *testing.T) {
	t.Parallel()
	s := separate(t)
	box, d := s.people(t)
	r := newReceiver(t, newRequestLog(), "would take it", good)
	s.endpoint(r, control.EndpointSpec{Types: []string{">"}, DeliverWithin: control.Duration(within)})
	s.program("dispatcher-1").stop()
	s.program("dispatcher-2").kill()

	s.toldInTime(t, box, d, r, "evt-escalator-runs", false)
	s.program("escalator").stop()
	s.toldInTime(t, box, d, r, "evt-nobody-runs", true)

	// When all run again, nothing is delivered after its deadline, and nobody is told twice.
	for _, name := range []string{"dispatcher-1", "dispatcher-2", "escalator"} {
		s.program(name).start()
	}
	s.ready()
	eventually(t, patience, "the dispatchers end both deliveries", func(ctx context.Context) error {
		rows, err := s.rows(ctx)
		ends := 0
		for _, row := range rows {
			if row.Record.Kind == record.DeliveryDeadLetter && row.Record.EndpointID == r.endpoint {
				ends++
			}
		}
		if err == nil && ends != 2 {
			err = fmt.Errorf("%d dead letters", ends)
		}
		return err
	})
	s.rest()
	for _, event := range []string{"evt-escalator-runs", "evt-nobody-runs"} {
		mails := 0
		for _, m := range box.Mails() {
			if strings.Contains(m.Body, event) {
				mails++
			}
		}
		if mails != 1 {
			t.Errorf("%d mails about %s", mails, event)
		}
	}
	if requests, _ := r.log.all(); len(requests) > 0 {
		t.Errorf("requests after the deadline: %+v", requests)
	}
}

// toldInTime publishes an event and checks that both channels tell of it before
// its deadline, and that the ledger says so: by the watchdog where it is alone.
func (s *system) toldInTime(t *testing.T, box *testkit.SMTP, d *desk, r *receiver, event string, alone bool) {
	t.Helper()
	_, err := s.js.Publish(t.Context(), streams.EventSubject(tenant, "lab_result.critical"),
		envelopeOf(event, "lab_result.critical", 1), jetstream.WithMsgID(event))
	must(t, err)
	mail := box.WaitFor(t, patience, "a mail about "+event,
		func(m testkit.Mail) bool { return strings.Contains(m.Body, event) })
	call := d.about(t, event)
	var by time.Time
	tellers := map[string]bool{}
	eventually(t, patience, "the ledger says that both channels told of "+event, func(ctx context.Context) error {
		rows, err := s.rows(ctx)
		for _, row := range rows {
			rec := row.Record
			if rec.EventID != event || rec.EndpointID != r.endpoint {
				continue
			}
			if rec.Kind == record.DeliveryOwed {
				by = rec.DeliverBy
			}
			if rec.Kind == record.Escalation && rec.Outcome == "delivered" {
				tellers[rec.Channel] = rec.Actor == watchdog.Actor
			}
		}
		if err == nil && (by.IsZero() || len(tellers) != 2) {
			err = fmt.Errorf("deliver_by %s, told by %v", by, tellers)
		}
		return err
	})
	for how, at := range map[string]time.Time{"mailed": mail.At, "called": call.at} {
		if !at.Before(by) {
			t.Errorf("%s about %s %s after the deadline", how, event, at.Sub(by))
		}
		t.Logf("%s about %s %s before the deadline", how, event, by.Sub(at).Round(time.Millisecond))
	}
	if tellers["mail"] != alone || tellers["desk"] != alone {
		t.Errorf("%s: told by the watchdog: %v; it was alone: %v", event, tellers, alone)
	}
	if !strings.Contains(box.Said(), "(tls) AUTH PLAIN") || !strings.Contains(mail.Body, r.endpoint) {
		t.Errorf("%s\n%s", box.Said(), mail.Body)
	}
}
