package eventlog

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/streams"
)

// Trace is W3C trace context, as in the headers traceparent and tracestate.
type Trace struct{ Parent, State string }

// Limits of W3C Trace Context: what everybody is asked to pass on.
const (
	maxTraceParent  = 128
	maxTraceState   = 512
	maxTraceMembers = 32
)

// TraceOf reads trace context from the values of both headers. What cannot be
// read is dropped, as W3C Trace Context asks, and never a reason to refuse an
// event: a receiver would get what no HTTP request can carry.
func TraceOf(parents, states []string) Trace {
	if len(parents) != 1 || !validParent(parents[0]) {
		return Trace{}
	}
	t := Trace{Parent: parents[0]}
	if state := strings.Join(states, ","); validState(state) {
		t.State = state
	}
	return t
}

// TraceIn reads the trace context of a message.
func TraceIn(h nats.Header) Trace {
	return TraceOf(h[streams.HeaderTraceparent], h[streams.HeaderTracestate])
}

// validParent: version-traceid-parentid-flags; a later version may add to it.
func validParent(s string) bool {
	if len(s) < 55 || len(s) > maxTraceParent || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:55]
	switch {
	case !isHex(version) || !isHex(trace) || !isHex(parent) || !isHex(flags):
		return false
	case version == "ff" || strings.Trim(trace, "0") == "" || strings.Trim(parent, "0") == "":
		return false
	case len(s) == 55:
		return true
	}
	return version != "00" && s[55] == '-' && printable(s[56:])
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// validState: a list of key=value, each key once. Empty members are allowed.
func validState(s string) bool {
	if len(s) > maxTraceState {
		return false
	}
	seen := map[string]bool{}
	for member := range strings.SplitSeq(s, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || seen[key] || len(seen) == maxTraceMembers || !validKey(key) || !validValue(value) {
			return false
		}
		seen[key] = true
	}
	return true
}

// validKey: key, or tenant@system.
func validKey(s string) bool {
	name, system, multi := strings.Cut(s, "@")
	if multi {
		return validName(name, 241, true) && validName(system, 14, false)
	}
	return validName(name, 256, false)
}

func validName(s string, most int, digitFirst bool) bool {
	if s == "" || len(s) > most || !isLower(s[0]) && !(digitFirst && isDigit(s[0])) {
		return false
	}
	for i := range len(s) {
		if !isLower(s[i]) && !isDigit(s[i]) && !strings.ContainsRune("_-*/", rune(s[i])) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func validValue(s string) bool {
	if s == "" || len(s) > 256 || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '=' {
			return false
		}
	}
	return true
}
