package escalation_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

func TestOneMessageOnOneChannel(t *testing.T) {
	now := time.Date(2026, 11, 2, 3, 14, 0, 0, time.UTC)
	p := escalation.Problem{ID: "p1", Tenant: "acme"}
	i := escalation.Begin(p, escalation.Policy{Name: "all"}, 7, now)
	r := i.ReachOf("pager", 2)
	if again := i.ReachOf("pager", 3); again != r || r.Step != 2 {
		t.Errorf("the step that chose the channel first stays: %+v", again)
	}
	r.Start(1, 0, 7, now, now.Add(time.Minute))
	if !r.Active || r.Message != 1 || r.To != 7 || r.Tries != 0 || !r.TryAt.Equal(now.Add(time.Minute)) {
		t.Errorf("started: %+v", r)
	}
	r.Tried(1, channel.Result{Outcome: outcome.Busy, Status: 503, Error: "answered 503"})
	i.Heard(r, 7, false, now)
	if r.Tries != 1 || r.Failures != 1 || r.Status != 503 || i.Told() != 0 || !i.ToldAt.IsZero() {
		t.Errorf("after a failure: %+v of %+v", r, i)
	}
	i.Heard(r, 7, true, now.Add(time.Second))
	i.Heard(r, 5, true, now.Add(time.Minute)) // an earlier message, whose answer came late
	if r.Failures != 0 || i.Told() != 7 || !i.ToldAt.Equal(now.Add(time.Second)) {
		t.Errorf("people know of everything up to 7 since the first time: %+v of %+v", r, i)
	}
}

func TestATryIsOnRecordOnceForEachProblem(t *testing.T) {
	began := time.Date(2026, 11, 2, 3, 14, 0, 0, time.UTC)
	try := escalation.Try{Incident: "inc_1", Policy: "all", Step: 1, Channel: "pager", Kind: "pagerduty",
		Address: "https://events.pagerduty.com", Message: "inc_1-1", Number: 2, Action: "trigger", Program: "esc_1",
		Result: channel.Result{Class: outcome.ClassDelivered, Outcome: outcome.Delivered, Status: 202, StartedAt: began,
			Duration: 1500 * time.Microsecond}}
	a := try.Record(escalation.Problem{ID: "p1", Tenant: "acme", EventID: "evt_1", EndpointID: "ep_1"})
	b := try.Record(escalation.Problem{ID: "p2", Tenant: "acme", EventID: "evt_2", EndpointID: "ep_1"})
	if a.ID == b.ID || a.EventID != "evt_1" || b.EventID != "evt_2" || a.MessageID != b.MessageID {
		t.Errorf("%+v and %+v", a, b)
	}
	if !a.At.Equal(began.Add(1500*time.Microsecond)) || a.DurationUS != 1500 || a.Attempt != 2 ||
		a.Outcome != "delivered" || a.Class != "delivered" {
		t.Errorf("%+v", a)
	}
}
