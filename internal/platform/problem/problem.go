// Package problem is how every HTTP API of Waybill says what went wrong: RFC
// 9457 problem documents with a stable code.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// ContentType of a problem document.
const ContentType = "application/problem+json"

// typePrefix and the code make the problem's type, a URI that names it and is
// not meant to be fetched.
const typePrefix = "urn:waybill:problem:"

// Problem is one problem document.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`             // stable: for programs
	Detail string `json:"detail,omitempty"` // for people: what is wrong and what to do next
	Field  string `json:"field,omitempty"`  // which field or parameter is wrong
	// EventID is the id of the event that the problem is about, where known:
	// also one that was assigned, so that it can be published again under it.
	EventID string `json:"event_id,omitempty"`
	// Results are those of a batch none of whose events was stored.
	Results any `json:"results,omitempty"`

	// RetryAfter becomes the header Retry-After. Optional.
	RetryAfter time.Duration `json:"-"`
	// Allow becomes the header Allow. Optional.
	Allow []string `json:"-"`
}

// New makes a problem. Its title is the status's, its type follows from code.
func New(status int, code, detail string) *Problem {
	return &Problem{Type: typePrefix + code, Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// Of names the field that is wrong.
func (p *Problem) Of(field string) *Problem {
	p.Field = field
	return p
}

// Error makes a problem an error.
func (p *Problem) Error() string { return p.Detail }

// Write answers with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	if len(p.Allow) > 0 {
		w.Header().Set("Allow", strings.Join(p.Allow, ", "))
	}
	write(w, ContentType, p.Status, p)
}

// WriteJSON answers with a value.
func WriteJSON(w http.ResponseWriter, status int, v any) { write(w, "application/json", status, v) }

// write encodes first, so that what cannot be encoded is not half an answer.
func write(w http.ResponseWriter, contentType string, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, contentType = http.StatusInternalServerError, ContentType
		b = []byte(`{"type":"` + typePrefix + `internal","title":"Internal Server Error","status":500,"code":"internal"}`)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(text.JSON(b), '\n')) // a client that went away is told nothing
}

// NotFound answers every path that nothing else does.
func NotFound(w http.ResponseWriter, r *http.Request) {
	New(http.StatusNotFound, "no_such_route",
		"nothing is at "+strconv.Quote(r.URL.Path)+"; the API is under /v1/").Write(w)
}

// MethodNotAllowed says which methods a path has.
func MethodNotAllowed(method string, allow ...string) *Problem {
	p := New(http.StatusMethodNotAllowed, "method_not_allowed",
		method+" is not for this path; use "+strings.Join(allow, " or "))
	p.Allow = allow
	return p
}
