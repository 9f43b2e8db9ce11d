package escalator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/streams"
)

// childEnv makes this test binary an escalator of its own, to be killed.
const childEnv = "WAYBILL_TEST_ESCALATOR"

func TestMain(m *testing.M) {
	if url := os.Getenv(childEnv); url != "" {
		if err := child(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(url string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}
	e, err := escalator.New(context.Background(), escalator.Options{NC: nc, Name: "escalator",
		Sender:       sender.New(sender.Options{Egress: allow, NC: nc, Timeout: 2 * time.Second}),
		DrainTimeout: time.Second, Log: zerolog.New(os.Stderr).Level(zerolog.ErrorLevel), Metrics: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	return e.Run(context.Background())
}

// killable is an escalator in a process of its own.
type killable struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

func (b *bench) process() *killable {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+b.server.URL)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(b.t, cmd.Start())
	k := &killable{cmd: cmd, gone: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(k.gone) }()
	b.t.Cleanup(k.kill)
	return k
}

func (k *killable) kill() {
	_ = k.cmd.Process.Kill()
	<-k.gone
}

// TestKilledAtEachHandOffItLosesNothing leaves behind what an escalator that
// died on some line has stored, starts another one, and sees each dead letter
// told exactly as often as it must be.
func TestKilledAtEachHandOffItLosesNothing(t *testing.T) {
	t.Parallel()
	type state struct {
		b *bench
		d escalation.Problem
		p escalation.Policy
	}
	problem := func(s state, incident string) uint64 {
		body, err := json.Marshal(escalation.Member{Problem: s.d, Incident: incident})
		must(s.b.t, err)
		rev, err := s.b.kv.Create(s.b.t.Context(), streams.TroubleKey(s.d.ID), body)
		must(s.b.t, err)
		return rev
	}
	incident := func(s state, alter func(*escalation.Incident)) {
		rev := problem(s, escalation.IncidentID(s.d.ID))
		doc := escalation.Begin(s.d, s.p, rev, time.Now())
		doc.Steps, doc.Messages = 1, 1
		doc.Reach["oncall"] = &escalation.Reach{Step: 1, Active: true, Message: 1, To: rev, StartedAt: time.Now(),
			TryAt: time.Now()}
		if alter != nil {
			alter(doc)
		}
		body, err := doc.Encode()
		must(s.b.t, err)
		_, err = s.b.kv.Create(s.b.t.Context(), streams.IncidentKey(doc.ID), body)
		must(s.b.t, err)
	}
	message := func(s state) { s.b.ask(s.d) }
	toldOnRecord := func(s state) {
		id := escalation.IncidentID(s.d.ID)
		r := record.Record{ID: record.EscalationID(id+"-1", "oncall", 1, s.d.ID), Kind: record.Escalation, At: time.Now(),
			Tenant:  "default",
			EventID: s.d.EventID, EndpointID: s.d.EndpointID, Outcome: "delivered", IncidentID: id, Channel: "oncall"}
		m, err := r.Message()
		must(s.b.t, err)
		_, err = s.b.js.PublishMsg(s.b.t.Context(), m)
		must(s.b.t, err)
	}
	done := func(doc *escalation.Incident) {
		r := doc.Reach["oncall"]
		r.Active, r.Told, r.ToldAt, r.Tries, doc.ToldAt = false, r.To, time.Now(), 1, time.Now()
	}
	for _, c := range []struct {
		name string
		left func(state)
		told int // how often the new escalator tells
	}{
		{"before anything was stored", message, 1},
		{"after the problem was stored, before its incident",
			func(s state) { message(s); problem(s, escalation.IncidentID(s.d.ID)) }, 1},
		{"after the incident was stored, before the message was acknowledged", func(s state) { message(s); incident(s, nil) },
			1},
		{"after the message was acknowledged, before anything was sent", func(s state) { incident(s, nil) }, 1},
		{"after it was sent and recorded, before that was stored: told again under the same id",
			func(s state) { incident(s, nil); toldOnRecord(s) }, 1},
		{"after all of it: nobody is told again", func(s state) { incident(s, done); toldOnRecord(s) }, 0},
		{"after all of it, and the message came again", func(s state) { incident(s, done); toldOnRecord(s); message(s) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			r := newReceiver(t, accept)
			b.hook("oncall", r)
			b.policy(func(p *escalation.Policy) { p.Window = time.Second }, step(0, "oncall"))
			p, err := b.policies.Get(t.Context(), "all")
			must(t, err)
			c.left(state{b, dead(1, 0), p})
			b.escalator()
			if c.told > 0 {
				n := r.WaitFor(t, 1)[0]
				if n.id != escalation.IncidentID(dead(1, 0).ID)+"-1" {
					t.Errorf("told under the id %s: a receiver could not drop it", n.id)
				}
			}
			// A second dead letter is told after everything that was due.
			b.ask(dead(2, 0))
			got := r.WaitUntil(t, "the one after", func(got []notice) bool { return covered(got) >= c.told+1 })
			if covered(got) != c.told+1 {
				t.Errorf("told of %d, want %d: %+v", covered(got), c.told+1, got)
			}
			b.ledger.WaitFor(t, 2, told)
		})
	}
}

func TestAKilledEscalatorIsFollowedByOneThatGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var victim *killable
	ready := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, n notice) {
		<-ready
		// Killed while its request is under way: whether we have it, it never learns.
		victim.kill()
	})
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	victim = b.process()
	close(ready)
	b.ask(dead(1, 0))
	first := r.WaitFor(t, 1)[0]
	victim.kill()
	for i := 2; i < 20; i++ {
		b.ask(dead(i, 0))
	}
	// The name is the same: it need not wait for the lease of the dead one.
	healthy := newReceiver(t, accept)
	_, err := b.channels.Update(t.Context(), "oncall", change("moved"), func(c *channel.Channel) error {
		c.URL, c.Secret = healthy.URL, channel.Secret(healthy.Secret)
		return nil
	})
	must(t, err)
	b.escalator()
	got := healthy.WaitUntil(t, "all of them", func(got []notice) bool { return covered(got) >= 19 })
	if got[0].id != first.id {
		t.Errorf("what was under way came again as %s, it was %s", got[0].id, first.id)
	}
	seen := map[string]int{}
	for _, rec := range b.ledger.WaitFor(t, 19, told) {
		seen[rec.EventID]++
	}
	if len(seen) != 19 {
		t.Errorf("%d of 19 dead letters are on record as told", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was told %d times", id, n)
		}
	}
}

func TestWhatACrashLeftUncountedIsCountedByTheNextOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	e := b.escalator()
	b.ask(dead(1, 0), dead(2, 0), dead(3, 0))
	id := r.WaitUntil(t, "all of them", func(got []notice) bool { return covered(got) >= 3 })[0].data.Incident
	e.Stop(t)
	stored, err := b.kv.Get(t.Context(), streams.IncidentKey(id))
	must(t, err)
	doc, err := escalation.DecodeIncident(stored.Value())
	must(t, err)
	doc.Count, doc.Reasons = 1, map[string]int{doc.First.Reason: 1}
	bytes, err := doc.Encode()
	must(t, err)
	_, err = b.kv.Update(t.Context(), streams.IncidentKey(id), bytes, stored.Revision())
	must(t, err)
	b.escalator()
	b.ask(dead(4, 0))
	w, err := b.kv.Watch(t.Context(), streams.IncidentKey(id))
	must(t, err)
	defer w.Stop()
	late := time.After(patience)
	for {
		select {
		case e := <-w.Updates():
			if e == nil {
				continue
			}
			if doc, err = escalation.DecodeIncident(e.Value()); err != nil {
				t.Fatal(err)
			}
			if doc.Count == 4 && doc.Reasons[doc.First.Reason] == 4 {
				return
			}
		case <-late:
			t.Fatalf("%d are counted, %v, want 4", doc.Count, doc.Reasons)
		}
	}
}

func TestAServerThatIsKilledDelaysNobodyForLong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	b.escalator()
	b.ask(dead(1, 0))
	r.WaitFor(t, 1)
	b.ledger.WaitFor(t, 1, told)
	b.server.Kill()
	b.server.Restart()
	d := dead(2, 0)
	m, err := d.Message()
	must(t, err)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = b.js.PublishMsg(ctx, m)
		cancel()
		if err == nil {
			break
		}
		if time.Since(d.At) > patience {
			t.Fatal(err)
		}
	}
	got := r.WaitUntil(t, "the one after the restart", func(got []notice) bool { return covered(got) >= 2 })
	if covered(got) != 2 {
		t.Errorf("told of %d", covered(got))
	}
}

func TestAStandbyTakesOverAnOrderlyStop(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	first := b.escalator(func(o *escalator.Options) { o.Name = "one" })
	b.ask(dead(1, 0))
	r.WaitFor(t, 1)
	b.escalator(func(o *escalator.Options) { o.Name = "two" })
	first.Stop(t)
	b.ask(dead(2, 0))
	got := r.WaitUntil(t, "the second, by the other escalator", func(got []notice) bool { return covered(got) >= 2 })
	if covered(got) != 2 {
		t.Errorf("told of %d, want 2: what the first one told was not stored", covered(got))
	}
	recs := b.ledger.WaitFor(t, 2, told)
	if recs[0].Dispatcher != "one" || recs[1].Dispatcher != "two" {
		t.Errorf("told by %s and %s", recs[0].Dispatcher, recs[1].Dispatcher)
	}
}
