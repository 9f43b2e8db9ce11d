package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

func TestWhatHoldsForADeliveryIsExplained(t *testing.T) {
	s := start(t, nil)
	e := s.endpoint(func(spec *control.EndpointSpec) {
		spec.DeliverWithin = control.Duration(time.Hour)
		spec.Policies = []registry.PolicyRule{{Types: []string{"report.*"}, Policy: retry.Standard()}}
	}).Endpoint
	_, err := s.SetEventType(s.ctx, "", "lab.*", control.EventTypeSpec{DeliverWithin: control.Duration(2 * time.Minute)},
		actor, "contract")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, eventType, within    string
		deadline, policy, endedBy  string
		end                        time.Duration
		steps                      int
		deadlinePattern, polPatter string
	}{
		{"the event type's deadline makes it urgent", "lab.critical", "0s", "event_type", "deadline", "deadline",
			96 * time.Second, 8, "lab.*", ""},
		{"the event's own deadline goes first", "lab.critical", "1m", "event", "deadline", "deadline", 48 * time.Second, 7,
			"", ""},
		{"the endpoint's rule for the type goes first", "report.daily", "0s", "endpoint", "endpoint_type", "deadline",
			55 * time.Minute, 4, "", "report.*"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			within, err := time.ParseDuration(tt.within)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Explain(s.ctx, e.ID, tt.eventType, control.Duration(within))
			if err != nil {
				t.Fatal(err)
			}
			if string(got.DeadlineFrom.Rule) != tt.deadline || string(got.PolicyFrom.Rule) != tt.policy ||
				got.EndedBy != tt.endedBy ||
				time.Duration(got.AttemptsEnd) != tt.end || len(got.Schedule) != tt.steps ||
				got.DeadlineFrom.Pattern != tt.deadlinePattern || got.PolicyFrom.Pattern != tt.polPatter {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAnEventTypeThatIsWrongIsRefusedByField(t *testing.T) {
	s := start(t, nil)
	minute := control.EventTypeSpec{DeliverWithin: control.Duration(time.Minute)}
	tests := []struct {
		name, pattern string
		spec          control.EventTypeSpec
		actor, field  string
	}{
		{"a pattern that is none", "a.>.b", minute, actor, "pattern"},
		{"nothing set", "a.b", control.EventTypeSpec{}, actor, "deliver_within"},
		{"a deadline in the past", "a.b", control.EventTypeSpec{DeliverWithin: -1}, actor, "deliver_within"},
		{"a policy that is none", "a.b", control.EventTypeSpec{Policy: &retry.Policy{MaxAttempts: -1}}, actor, "policy"},
		{"nobody who does it", "a.b", minute, "", "actor"},
		{"a description as long as a book", "a.b", control.EventTypeSpec{DeliverWithin: 1,
			Description: strings.Repeat("x", 501)}, actor, "description"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.SetEventType(s.ctx, "", tt.pattern, tt.spec, tt.actor, "")
			failed(t, err, control.CodeInvalid, tt.field)
		})
	}
	_, err := s.EventType(s.ctx, "", "a.b")
	failed(t, err, control.CodeNotFound, "")
	_, err = s.Explain(s.ctx, "ep_unknown", "a.b", 0)
	failed(t, err, control.CodeNotFound, "")
	_, err = s.Explain(s.ctx, "ep_unknown", "a b", 0)
	failed(t, err, control.CodeInvalid, "type")
}

func TestOnlySoManyEndpointsMayKeepOrder(t *testing.T) {
	s := start(t, nil)
	ordered := func(spec *control.EndpointSpec) { spec.Ordering = registry.FIFO }
	var first control.WithSecret
	for range streams.MaxFifo {
		first = s.endpoint(ordered)
	}
	spec := control.EndpointSpec{URL: "https://hooks.example.com/in", Types: []string{"a.*"}, Ordering: registry.FIFO}
	_, err := s.CreateEndpoint(s.ctx, spec, actor)
	failed(t, err, control.CodeInvalid, "ordering")
	s.endpoint(nil)
	if _, err := s.DeleteEndpoint(s.ctx, first.Endpoint.ID, control.Stop{Reason: "", EndPending: true},
		actor); err != nil {
		t.Fatal(err)
	}
	s.endpoint(ordered)
}
