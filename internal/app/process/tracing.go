package process

import (
	"context"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

// BindTracing adds --otlp-endpoint.
func BindTracing(f *pflag.FlagSet, endpoint *string) {
	f.StringVar(endpoint, "otlp-endpoint", "", "send OpenTelemetry traces to this collector, OTLP over HTTP, such as "+
		"http://127.0.0.1:4318 (default: what OTEL_EXPORTER_OTLP_ENDPOINT says, else off)")
}

// tracesBound is how long a stop waits for the last spans to be sent.
const tracesBound = 3 * time.Second

// StartTracing returns nil when tracing is off. The cleanup stack stops it.
func StartTracing(ctx context.Context, endpoint, service string, cleanup *Cleanup, log zerolog.Logger) (*tracing.Tracer,
	error) {
	t, err := tracing.Start(ctx, tracing.Options{Endpoint: endpoint, Service: service, Version: version.Version,
		Env: os.Getenv, Log: log})
	if err != nil {
		return nil, &UsageError{err}
	}
	if t != nil {
		cleanup.Push("tracing", tracesBound, t.Stop)
	}
	return t, nil
}
