package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
)

func TestAStopThatWouldEndDeliveriesSaysHowMany(t *testing.T) {
	past := &ledger{}
	s := start(t, func(o *control.Options) { o.Ledger = past })
	id := s.endpoint(nil).Endpoint.ID
	for i := range 300 {
		past.deliveries = append(past.deliveries, control.Delivery{EventID: fmt.Sprint("e", i), EndpointID: id,
			State: outcome.StatePending, Attempts: min(i, 1)})
	}
	past.deliveries = append(past.deliveries,
		control.Delivery{EventID: "done", EndpointID: id, State: outcome.StateDelivered},
		control.Delivery{EventID: "e", EndpointID: "ep_other", State: outcome.StatePending})
	for name, stop := range map[string]func(control.Stop) (control.Endpoint, error){
		"disable": func(p control.Stop) (control.Endpoint, error) { return s.DisableEndpoint(s.ctx, id, p, actor) },
		"delete":  func(p control.Stop) (control.Endpoint, error) { return s.DeleteEndpoint(s.ctx, id, p, actor) },
	} {
		_, err := stop(control.Stop{Reason: "maintenance"})
		if e := failed(t, err, control.CodePendingDeliveries, ""); !strings.Contains(e.Error(), "300 deliveries") ||
			!strings.Contains(e.Error(), "299 had") {
			t.Errorf("%s: %v", name, e)
		}
		if e, err := s.Endpoint(s.ctx, id); err != nil || e.State != registry.Enabled {
			t.Errorf("%s was refused and happened: %+v, %v", name, e, err)
		}
	}
	if e, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "maintenance", EndPending: true}, actor); err != nil ||
		e.State != registry.Disabled {
		t.Errorf("meant: %+v, %v", e, err)
	}
	// It is disabled: what waits ends already, so deleting it ends nothing more.
	if e, err := s.DeleteEndpoint(s.ctx, id, control.Stop{}, actor); err != nil || e.State != registry.Deleted {
		t.Errorf("deleting one that is disabled: %+v, %v", e, err)
	}
}

func TestAStopNeedsItsNumberOrAYes(t *testing.T) {
	s := start(t, func(o *control.Options) { o.Ledger = nil })
	id := s.endpoint(nil).Endpoint.ID
	_, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "x"}, actor)
	if e := failed(t, err, control.CodePendingDeliveries, ""); !strings.Contains(e.Error(), "cannot be told") {
		t.Error(e)
	}
	if _, err := s.DisableEndpoint(s.ctx, id, control.Stop{Reason: "x", EndPending: true}, actor); err != nil {
		t.Error(err)
	}
}

func TestWhatAnEndpointMissedIsListed(t *testing.T) {
	at := func(m int) time.Time { return time.Date(2026, 1, 2, 3, m, 0, 0, time.UTC) }
	past := &ledger{changes: []control.EndpointChange{
		{At: at(0), Action: "created", Types: []string{"order.*"}},
		{At: at(10), Action: "disabled", Types: []string{"order.*"}},
		{At: at(20), Action: "updated", Types: []string{"order.*", "lab.*"}},
		{At: at(30), Action: "enabled", Types: []string{"order.*", "lab.*"}},
		{At: at(40), Action: "disabled", Types: []string{"lab.*"}},
	}}
	s := start(t, func(o *control.Options) { o.Ledger = past })
	id := s.endpoint(nil).Endpoint.ID
	want := map[string]time.Time{}
	for i, u := range []struct {
		minute int
		kind   string
		missed int // disabled at; 0: not missed
	}{
		{5, "order.paid", 0}, {10, "order.paid", 10}, {11, "lab.done", 0}, {20, "lab.done", 10}, {29, "order.paid", 10},
		{30, "order.paid", 0}, {39, "lab.done", 0}, {41, "order.paid", 0}, {42, "lab.done", 40}, {43, control.TestType, 0},
	} {
		event := fmt.Sprint("e", i)
		past.unowed = append(past.unowed, control.UnowedEvent{Idx: uint64(i + 1), ID: event, Type: u.kind,
			State: control.EventAccepted, At: at(u.minute), StoredAt: at(u.minute)})
		if u.missed > 0 {
			want[event] = at(u.missed)
		}
	}
	got, cursor := map[string]time.Time{}, ""
	for pages := 0; ; pages++ {
		page, err := s.Missed(s.ctx, id, control.MissedFilter{}, cursor, 1)
		if err != nil || len(page.Events) > 1 || pages > len(want) {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, e := range page.Events {
			got[e.ID] = e.DisabledAt
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	page, err := s.Missed(s.ctx, id, control.MissedFilter{Since: at(25), Until: at(35)}, "", 0)
	if err != nil || len(page.Events) != 1 || page.Events[0].ID != "e4" {
		t.Errorf("between 25 and 35: %+v, %v", page, err)
	}
	_, err = s.Missed(s.ctx, id, control.MissedFilter{}, "x", 0)
	failed(t, err, control.CodeInvalid, "cursor")
	_, err = s.Missed(s.ctx, "ep_nobody", control.MissedFilter{}, "", 0)
	failed(t, err, control.CodeNotFound, "")
}
