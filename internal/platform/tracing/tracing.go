// Package tracing makes OpenTelemetry spans of what happens to an event: publish,
// fanout, and each attempt. It is off unless an endpoint for them is given: then
// a Tracer is nil, and the methods of a nil Tracer and of a nil Span do nothing.
package tracing

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Options of Start.
type Options struct {
	// Endpoint is the base URL of a collector that takes OTLP over HTTP, such as
	// http://127.0.0.1:4318. Optional: else what the environment variables of
	// OpenTelemetry say, else off.
	Endpoint string
	Service  string // service.name, unless the environment gives one
	Version  string // service.version
	// Env looks up an environment variable. Sampling (OTEL_TRACES_SAMPLER) and
	// batching (OTEL_BSP_…) are read by the library itself.
	Env func(string) string
	Log zerolog.Logger
}

// Tracer starts spans. Nil: it is off.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdk.TracerProvider
}

// Start returns nil, and no error, when tracing is off.
func Start(ctx context.Context, o Options) (*Tracer, error) {
	to, err := targetOf(o)
	if err != nil || to == nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", o.Service),
		attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(&exporter{target: *to, log: o.Log}), sdk.WithResource(about))
	o.Log.Info().Str("endpoint", to.shown()).Msg(logevent.TracingOn)
	return &Tracer{tracer: p.Tracer("github.com/waybill-dev/waybill", trace.WithInstrumentationVersion(o.Version)),
		provider: p}, nil
}

// Stop sends what is left, until ctx ends.
func (t *Tracer) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Context is W3C trace context as headers carry it. The zero value is none.
type Context struct{ Parent, State string }

func (c Context) span() trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": c.Parent, "tracestate": c.State}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Span is one of ours. Nil: tracing is off.
type Span struct {
	span    trace.Span
	context Context
}

// What a span is in OpenTelemetry's terms.
const (
	Producer = trace.SpanKindProducer
	Consumer = trace.SpanKindConsumer
	Client   = trace.SpanKindClient
)

// Start begins a span under parent, or a trace of its own when there is none;
// link names a span that it follows from.
func (t *Tracer) Start(name string, kind trace.SpanKind, parent, link Context) *Span {
	if t == nil {
		return nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if s := link.span(); s.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: s}))
	}
	_, s := t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent.span()), name, options...)
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), s), carrier)
	return &Span{span: s, context: Context{carrier["traceparent"], carrier["tracestate"]}}
}

// Context is what the work that follows carries on: this span's, or, when
// tracing is off, otherwise, untouched.
func (s *Span) Context(otherwise Context) Context {
	if s == nil {
		return otherwise
	}
	return s.context
}

// Text, Number and Failed say more about a span; End ends it.
func (s *Span) Text(key, value string) *Span {
	if s != nil && value != "" {
		s.span.SetAttributes(attribute.String(key, value))
	}
	return s
}

// Number sets an attribute.
func (s *Span) Number(key string, value int) *Span {
	if s != nil {
		s.span.SetAttributes(attribute.Int(key, value))
	}
	return s
}

// Failed marks the span. why is short and has no data in it.
func (s *Span) Failed(why string) {
	if s != nil {
		s.span.SetStatus(codes.Error, why)
		s.span.SetAttributes(attribute.String("error.type", why))
	}
}

// End ends the span now, or at a time.
func (s *Span) End(at ...time.Time) {
	if s == nil {
		return
	}
	if len(at) > 0 {
		s.span.End(trace.WithTimestamp(at[0]))
		return
	}
	s.span.End()
}
