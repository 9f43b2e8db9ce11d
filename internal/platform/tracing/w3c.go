package tracing

import (
	"regexp"

	"go.opentelemetry.io/otel/trace"
)

const (
	// maxParent is above the 55 characters of version 00: later versions may add to it.
	maxParent = 128
	// maxState is the length that W3C Trace Context, section 3.3.1.5, asks everybody to pass on.
	maxState = 512
)

// traceparent is version-traceid-parentid-flags; a later version may add to it.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?$`)

// WellFormed is what of a context may be passed on. As W3C Trace Context asks, a
// parent that cannot be read is dropped, and the state with it; so is a state
// that cannot be read, or is too long. An event is never refused for it.
func (c Context) WellFormed() Context {
	if len(c.Parent) > maxParent || !traceparent.MatchString(c.Parent) {
		return Context{}
	}
	if len(c.State) > maxState {
		return Context{Parent: c.Parent}
	}
	if _, err := trace.ParseTraceState(c.State); err != nil {
		return Context{Parent: c.Parent}
	}
	return c
}
