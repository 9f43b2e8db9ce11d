package escalator_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/streams"
)

func told(r record.Record) bool { return r.Kind == record.Escalation && r.Outcome == "delivered" }

func TestADeadLetterReachesAPersonBeforeItsDeadlineAndIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	b.escalator()
	d := dead(1, 12*time.Second)
	b.ask(d)
	got := r.WaitFor(t, 1)[0]
	if !got.at.Before(d.DeliverBy) || got.data.Count != 1 || got.data.DeadLetters[0].EventID != d.EventID {
		t.Errorf("told at %s of %+v; promised by %s", got.at, got.data, d.DeliverBy)
	}
	rec := b.ledger.WaitFor(t, 1, told)[0]
	if rec.EventID != d.EventID || rec.EndpointID != d.EndpointID || rec.Channel != "oncall" ||
		rec.ChannelKind != "webhook" || rec.Status != 204 ||
		rec.Step != 1 || rec.Attempt != 1 || rec.IncidentID != got.data.Incident || rec.MessageID != got.id ||
		!rec.At.Before(d.DeliverBy) ||
		rec.URL != r.URL || rec.EscalationPolicy != "all" || rec.Action != "trigger" {
		t.Errorf("on record: %+v", rec)
	}
}

func TestABurstBecomesOneMessageMoreAndTheFirstIsNotDelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(func(p *escalation.Policy) { p.Window = 3 * time.Second }, step(0, "oncall"))
	b.escalator()
	const n = 120
	first := dead(0, 0)
	b.ask(first)
	early := r.WaitFor(t, 1)[0]
	if late := early.at.Sub(first.At); late >= 3*time.Second || early.data.Count != 1 {
		t.Errorf("the first took %s and told of %d", late, early.data.Count)
	}
	for i := 1; i < n; i++ {
		b.ask(dead(i, 0))
	}
	got := r.WaitUntil(t, "the rest", func(got []notice) bool { return covered(got) >= n })
	if len(got) > 4 || covered(got) != n {
		t.Errorf("%d messages told of %d dead letters, want a few for %d", len(got), covered(got), n)
	}
	second := got[1].data
	if second.Reasons["attempts_exhausted"] != second.Count || len(second.Endpoints) != 1 || len(second.DeadLetters) != 5 {
		t.Errorf("the group says %+v", second)
	}
	events := map[string]bool{}
	for _, rec := range b.ledger.WaitFor(t, n, told) {
		events[rec.EventID] = true
	}
	if len(events) != n {
		t.Errorf("%d of %d dead letters are on record as told", len(events), n)
	}
}

func TestAcknowledgementStopsTheStepsAndIsOnRecordForEachDeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := newReceiver(t, accept), newReceiver(t, accept)
	b.hook("a", first)
	b.hook("b", second)
	b.policy(func(p *escalation.Policy) { p.Window = time.Second }, step(0, "a"), step(6*time.Second, "b"))
	b.escalator()
	b.ask(dead(1, 0), dead(2, 0))
	got := first.WaitUntil(t, "both", func(got []notice) bool { return covered(got) == 2 })
	id := got[0].data.Incident
	b.acknowledge(id, "ann@example.com")
	acks := b.ledger.WaitFor(t, 2, func(r record.Record) bool { return r.Kind == record.EscalationAcked })
	for _, a := range acks {
		if a.Actor != "ann@example.com" || a.IncidentID != id || a.EventID == "" {
			t.Errorf("on record: %+v", a)
		}
	}
	got = first.WaitUntil(t, "word that somebody has taken it", func(got []notice) bool {
		return got[len(got)-1].kind == "waybill.escalation.acknowledged"
	})
	if got[len(got)-1].data.AckedBy != "ann@example.com" {
		t.Errorf("told %+v", got[len(got)-1])
	}
	// The next dead letter begins an incident of its own; by the time its second
	// step is told, the first incident's would have been.
	b.ask(dead(3, 0))
	for _, n := range second.WaitFor(t, 1) {
		if n.data.Incident == id || n.data.DeadLetters[0].EventID != "evt-3" {
			t.Errorf("the second step told of %s although it was acknowledged", n.data.Incident)
		}
	}
}

func TestStepsAndRemindersGoOnUntilSomebodyAcknowledges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := newReceiver(t, accept), newReceiver(t, accept)
	b.hook("a", first)
	b.hook("b", second)
	b.policy(func(p *escalation.Policy) { p.Repeat = 3 * time.Second }, step(0, "a"), step(time.Second, "b"))
	b.escalator()
	b.ask(dead(1, 0))
	got := first.WaitFor(t, 3)
	for i, n := range got[:3] {
		if n.data.Reminder != (i > 0) || n.data.Count != 1 {
			t.Errorf("message %d: %+v", i, n.data)
		}
	}
	if s := second.WaitFor(t, 1)[0]; s.data.Step != 2 || s.at.Sub(got[0].at) < 500*time.Millisecond {
		t.Errorf("the second step: %+v, %s after the first", s.data, s.at.Sub(got[0].at))
	}
}

func TestAChannelThatHangsDelaysNoOtherAndTheNextStepIsBroughtForward(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	hanging := newReceiver(t, func(w http.ResponseWriter, _ notice) { <-release })
	t.Cleanup(func() { close(release) })
	healthy, fallback := newReceiver(t, accept), newReceiver(t, accept)
	b.hook("hanging", hanging)
	b.hook("healthy", healthy)
	b.hook("fallback", fallback)
	b.policy(func(p *escalation.Policy) { p.Name, p.Tenants = "slow", []string{"slow"} }, step(0, "hanging"),
		step(time.Hour, "fallback"))
	b.policy(func(p *escalation.Policy) { p.Name, p.Tenants = "quick", []string{"quick"} }, step(0, "healthy"))
	b.escalator()
	var slow []escalation.Problem
	for i := range 20 {
		d := dead(i, 30*time.Second)
		d.Tenant, d.ID = "slow", d.ID+"/slow"
		slow = append(slow, d)
	}
	b.ask(slow...)
	hanging.WaitFor(t, 1)
	d := dead(100, 30*time.Second)
	d.Tenant = "quick"
	b.ask(d)
	// which is when one that hangs is given up
	if n := healthy.WaitFor(t, 1)[0]; n.at.Sub(d.At) > sender.DefaultTimeout-2*time.Second {
		t.Errorf("the healthy channel was told after %s", n.at.Sub(d.At))
	}
	n := fallback.WaitUntil(t, "the next step", func(got []notice) bool { return covered(got) >= 20 })
	if !n[0].at.Before(slow[0].DeliverBy) {
		t.Error("the next step came after the deadline")
	}
	b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Channel == "hanging" && r.Outcome == "timeout" && r.Class == "retryable"
	})
}

func TestAChannelThatFailsIsTriedAgainUntilItTakesTheMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tries := 0
	r := newReceiver(t, func(w http.ResponseWriter, _ notice) {
		if tries++; tries < 4 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	b.hook("flaky", r)
	b.policy(nil, step(0, "flaky"))
	b.escalator()
	d := dead(1, 20*time.Second)
	b.ask(d)
	got := r.WaitFor(t, 4)
	if got[3].id != got[0].id {
		t.Errorf("the tries have the ids %s and %s: a receiver could not tell that it is one message", got[0].id, got[3].id)
	}
	rec := b.ledger.WaitFor(t, 1, told)[0]
	if rec.Attempt != 4 || !rec.At.Before(d.DeliverBy) {
		t.Errorf("told by try %d at %s", rec.Attempt, rec.At)
	}
	failed := b.ledger.WaitFor(t, 3, func(r record.Record) bool { return r.Outcome == "busy" })
	if failed[0].Status != 503 || failed[0].Error == "" {
		t.Errorf("on record: %+v", failed[0])
	}
}

func TestWithoutAPolicyItIsSaidThatNobodyIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heard := make(chan *nats.Msg, 8)
	nc := b.server.Connect()
	_, err := nc.ChanSubscribe(streams.AlertSubject("default"), heard)
	must(t, err)
	must(t, nc.Flush()) // the server has the subscription
	b.escalator()
	b.ask(dead(1, 0))
	select {
	case <-heard:
	case <-time.After(patience):
		t.Fatal("no alert was published")
	}
	rec := b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Kind == record.Escalation })[0]
	if rec.Outcome != "nobody_told" || rec.Class != "terminal" || rec.Error == "" {
		t.Errorf("on record: %+v", rec)
	}
}

func TestAMessageThatComesAgainTellsNobodyTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	b.escalator()
	d, last := dead(1, 0), dead(2, 0)
	b.ask(d)
	r.WaitFor(t, 1)
	m, err := d.Message()
	must(t, err)
	m.Header.Set(nats.MsgIdHdr, "as if the window of duplicates were over")
	_, err = b.js.PublishMsg(t.Context(), m)
	must(t, err)
	b.ask(last)
	got := r.WaitUntil(t, "the one after", func(got []notice) bool { return covered(got) >= 2 })
	if covered(got) != 2 || got[1].data.DeadLetters[0].EventID != last.EventID {
		t.Errorf("told %+v", got)
	}
}

func TestARejectedEventIsToldWithoutWhatItsProducerSent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	b.escalator()
	b.ask(escalation.Of(record.Record{ID: "event.rejected/7-1", Kind: record.EventRejected, Tenant: "default",
		EventID: "evt-9", EventType: "a.b",
		At: time.Now(), Reason: "invalid_event", Detail: `data: "Mrs Miller, HIV positive" is no object`}))
	n := r.WaitFor(t, 1)[0]
	if d := n.data.DeadLetters[0]; d.Kind != record.EventRejected || d.EventID != "evt-9" || d.Why != "" {
		t.Errorf("told %+v", d)
	}
}

func TestWhenNobodyAcknowledgesTheIncidentEndsAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.policy(func(p *escalation.Policy) { p.MaxDuration, p.Repeat = 2*time.Second, 0 }, step(0, "missing"))
	b.escalator()
	d := dead(1, 0)
	b.ask(d)
	b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Outcome == "misconfigured" && r.Channel == "missing" })
	rec := b.ledger.WaitFor(t, 1, func(r record.Record) bool { return r.Outcome == "expired" })[0]
	if rec.EventID != d.EventID || rec.Class != "terminal" {
		t.Errorf("on record: %+v", rec)
	}
}

func TestChangesOfChannelsAndPoliciesAreOnRecordWithTheirActorAndNoSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, accept)
	b.hook("oncall", r)
	b.policy(nil, step(0, "oncall"))
	_, err := b.channels.Delete(t.Context(), "oncall", "ann", "left the team")
	must(t, err)
	b.escalator()
	recs := b.ledger.WaitFor(t, 3, func(r record.Record) bool { return r.Kind == record.OperatorAction })
	actions := map[string]record.Record{}
	for _, rec := range recs {
		actions[fmt.Sprintf("%s/%d", rec.Action, rec.Revision)] = rec
		if body, err := rec.Encode(); err != nil || bytes.Contains(body, []byte(r.Secret)) {
			t.Errorf("the record shows the secret: %s", body)
		}
	}
	if del := actions["channel.deleted/2"]; del.Actor != "ann" || del.Reason != "left the team" ||
		del.Channel != "oncall" {
		t.Errorf("on record: %+v", actions)
	}
	if p := actions["escalation_policy.created/1"]; p.EscalationPolicy != "all" || p.Detail == "" {
		t.Errorf("on record: %+v", actions)
	}
	_, err = b.channels.Update(t.Context(), "oncall", revision.Change{Actor: "ann", Action: "updated"}, nil)
	if !errors.Is(err, revision.ErrNotFound) {
		t.Errorf("a deleted channel was changed: %v", err)
	}
}
