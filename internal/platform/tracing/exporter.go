package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	about "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// exporter sends spans as OTLP over HTTP. The library's own does the same, and
// brings gRPC: 11 MB more in every program.
type exporter struct {
	target target
	client http.Client
	log    zerolog.Logger
	failed atomic.Bool // what was logged last
}

const (
	// exportTries and exportPause bound how long spans wait for a collector that
	// is busy or restarts. Then they are lost: no delivery waits for a trace.
	exportTries = 4
	exportPause = time.Second
)

// ExportSpans implements sdk.SpanExporter. A failure is logged here, once.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := proto.Marshal(encode(spans))
	for try := 1; err == nil; try++ {
		var again bool
		if again, err = e.post(ctx, body); err == nil || !again || try == exportTries {
			break
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(time.Duration(try) * exportPause):
			err = nil
		}
	}
	if before := e.failed.Swap(err != nil); err != nil && !before {
		e.log.Warn().Err(err).Int("spans", len(spans)).Str("endpoint", e.target.shown()).Msg(logevent.TracesLost)
	} else if err == nil && before {
		e.log.Info().Msg(logevent.TracesSentAgain)
	}
	return nil
}

// post says whether to try again.
func (e *exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.target.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.target.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header = e.target.header.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := e.client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, fmt.Errorf("the collector answered %s", resp.Status)
	}
	if resp.StatusCode/100 != 2 {
		return false, fmt.Errorf("the collector answered %s", resp.Status)
	}
	return false, nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// encode puts spans of one process, all of our tracer, into OTLP's shape.
// TracesData is on the wire what an ExportTraceServiceRequest is.
func encode(spans []sdk.ReadOnlySpan) *wire.TracesData {
	if len(spans) == 0 {
		return &wire.TracesData{}
	}
	scope := spans[0].InstrumentationScope()
	out := &wire.ScopeSpans{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version}}
	for _, s := range spans {
		out.Spans = append(out.Spans, encodeSpan(s))
	}
	return &wire.TracesData{ResourceSpans: []*wire.ResourceSpans{{
		Resource:   &about.Resource{Attributes: encodeAttributes(spans[0].Resource().Attributes())},
		ScopeSpans: []*wire.ScopeSpans{out}}}}
}

func encodeSpan(s sdk.ReadOnlySpan) *wire.Span {
	id, trace := s.SpanContext().SpanID(), s.SpanContext().TraceID()
	out := &wire.Span{
		TraceId: trace[:], SpanId: id[:], TraceState: s.SpanContext().TraceState().String(), Name: s.Name(),
		Kind:              wire.Span_SpanKind(s.SpanKind()), // both count from internal = 1
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: encodeAttributes(s.Attributes()), Flags: uint32(s.SpanContext().TraceFlags()),
		Status: &wire.Status{Message: s.Status().Description},
	}
	if s.Status().Description != "" {
		out.Status.Code = wire.Status_STATUS_CODE_ERROR
	}
	if p := s.Parent(); p.SpanID().IsValid() {
		parent := p.SpanID()
		out.ParentSpanId = parent[:]
	}
	for _, l := range s.Links() {
		id, trace := l.SpanContext.SpanID(), l.SpanContext.TraceID()
		out.Links = append(out.Links, &wire.Span_Link{TraceId: trace[:], SpanId: id[:],
			Flags: uint32(l.SpanContext.TraceFlags())})
	}
	return out
}

// encodeAttributes keeps texts and numbers, which are all that we set; anything
// else, from OTEL_RESOURCE_ATTRIBUTES say, becomes text.
func encodeAttributes(all []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, 0, len(all))
	for _, a := range all {
		v := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: a.Value.String()}}
		if a.Value.Type() == attribute.INT64 {
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		}
		out = append(out, &common.KeyValue{Key: string(a.Key), Value: v})
	}
	return out
}
