package dispatcher

import (
	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/internal/registry"
)

// wellFormed drops trace context that no request can carry. Ingest does so as
// well, but what it or an older version stored before is still on its way.
func wellFormed(delivery delivery.Delivery) delivery.Delivery {
	c := tracing.Context{Parent: delivery.Traceparent, State: delivery.Tracestate}.WellFormed()
	delivery.Traceparent, delivery.Tracestate = c.Parent, c.State
	return delivery
}

// span is the one call of an attempt: a child of its fanout's, with a link to
// the attempt before. The receiver's spans become its children.
func (d *Dispatcher) span(delivery delivery.Delivery, endpoint *registry.Endpoint, number int, c claim) *tracing.Span {
	if d.o.Tracer == nil {
		return nil
	}
	return d.o.Tracer.Start("attempt", tracing.Client, tracing.Context{Parent: delivery.Traceparent,
		State: delivery.Tracestate}, tracing.Context{Parent: delivery.LastAttempt}).
		Text("http.request.method", "POST").Text("url.full", endpoint.SafeURL()).Text("waybill.tenant", delivery.Tenant).
		Text("waybill.event_id", delivery.EventID).Text("waybill.event_type", delivery.Type).Text("waybill.endpoint_id",
		delivery.EndpointID).
		Text("waybill.attempt_id", c.AttemptID).Number("waybill.attempt", number).Text("waybill.replay_id", delivery.Replay)
}

// within is the delivery as the receiver is told of it: below the attempt's span.
func within(s *tracing.Span, delivery delivery.Delivery) delivery.Delivery {
	c := s.Context(tracing.Context{Parent: delivery.Traceparent, State: delivery.Tracestate})
	delivery.Traceparent, delivery.Tracestate = c.Parent, c.State
	return delivery
}

func endSpan(s *tracing.Span, res attempt.Result) {
	if s == nil {
		return
	}
	s.Text("waybill.outcome", string(res.Outcome)).Text("network.peer.address", res.RemoteAddr)
	if res.Status > 0 {
		s.Number("http.response.status_code", res.Status)
	}
	if res.Class != outcome.ClassDelivered {
		s.Failed(string(res.Outcome))
	}
	s.End()
}
