package tracing

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// defaultTimeout is OTLP's own for one request.
const defaultTimeout = 10 * time.Second

// target is where spans go.
type target struct {
	url     string
	header  http.Header
	timeout time.Duration
}

// shown is the target without what may be a password.
func (t target) shown() string {
	u, err := url.Parse(t.url)
	if err != nil {
		return ""
	}
	return u.Redacted()
}

// targetOf reads the setting and the environment as the specification of the
// OTLP exporter says; nil: off.
func targetOf(o Options) (*target, error) {
	if o.Env("OTEL_SDK_DISABLED") == "true" || o.Endpoint == "" && o.Env("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	name, base, suffix := "--otlp-endpoint", o.Endpoint, "/v1/traces"
	if base == "" {
		name, base, suffix = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", o.Env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), ""
	}
	if base == "" {
		name, base, suffix = "OTEL_EXPORTER_OTLP_ENDPOINT", o.Env("OTEL_EXPORTER_OTLP_ENDPOINT"), "/v1/traces"
	}
	if base == "" {
		return nil, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: want the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318",
			name)
	}
	if suffix != "" {
		u = u.JoinPath(suffix)
	}
	t := &target{url: u.String(), header: http.Header{}, timeout: defaultTimeout}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if err := addHeaders(t.header, o.Env(variable)); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"} {
		if v := o.Env(variable); v != "" {
			ms, err := strconv.Atoi(v)
			if err != nil || ms < 1 {
				return nil, fmt.Errorf("%s: want milliseconds, such as 10000", variable)
			}
			t.timeout = time.Duration(ms) * time.Millisecond
		}
	}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if v := o.Env(variable); v != "" && v != "http/protobuf" {
			return nil, fmt.Errorf("%s %q: only http/protobuf is spoken here; collectors take it at port 4318", variable, v)
		}
	}
	return t, nil
}

// addHeaders reads "name=value,name=value", percent-encoded.
func addHeaders(h http.Header, list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return fmt.Errorf("want name=value pairs, percent-encoded, comma-separated")
		}
		h.Set(strings.TrimSpace(name), decoded)
	}
	return nil
}
