// Package attempt is what one attempt to deliver is: the request to make, what came
// of it, and what that means for the delivery. Who makes requests to receivers of
// one kind is a Destination, in a folder of its own below this one.
package attempt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

// Destination makes attempts at receivers of one kind. It is safe for concurrent use.
type Destination interface {
	// Try makes at most one request and says what became of it. It returns within
	// the request's timeout, whatever the receiver does, and earlier with
	// outcome.Interrupted when ctx ends. What came back of the receiver MUST be
	// redacted before it is returned. If the process dies inside Try, the receiver
	// may or may not have the request: only the caller's record of having started
	// can tell.
	Try(ctx context.Context, r Request) Result
	// Close drops what is kept between attempts. Attempts that are running are not
	// affected, but for those that wait for something else than the receiver.
	Close()
}

// Destinations are those that there are, by the scheme of an endpoint's URL.
type Destinations map[string]Destination

// Try makes the attempt at the destination of the URL's scheme. Without one the
// failure is ours: nothing was sent.
func (d Destinations) Try(ctx context.Context, r Request) Result {
	scheme, _, _ := strings.Cut(r.URL, ":")
	if to, ok := d[strings.ToLower(scheme)]; ok {
		return to.Try(ctx, r)
	}
	return NotMade(&Fault{Text: fmt.Sprintf("there is no way to reach a URL of the scheme %.20q", scheme)})
}

// Close closes each of them.
func (d Destinations) Close() {
	for _, to := range d {
		to.Close() // one that serves two schemes is closed twice
	}
}

// Request is one attempt to make.
type Request struct {
	URL     string
	Body    []byte        // MUST NOT change until Try has returned.
	Header  http.Header   // Complete: signature, ids, content type. Not modified.
	Timeout time.Duration // For the whole exchange, a token for it included. 0: the Client's.

	// Owner is the endpoint. Required with Connection or OAuth2.
	Owner      string
	Connection *registry.Connection        // nil: as every other endpoint connects
	OAuth2     *registry.ClientCredentials // nil: Header has what there is of authorization
	Sensitive  []string                    // Values that MUST NOT go on record, whatever the receiver answers.
	Payload    []byte                      // Of Body, what MUST NOT go on record either.
}

// Result is everything that is known about one attempt. Durations are of
// the call alone; a part that did not happen is 0.
type Result struct {
	StartedAt time.Time
	Auth      time.Duration // Getting an access token.
	Resolve   time.Duration // DNS.
	Connect   time.Duration // TCP, over all addresses tried.
	TLS       time.Duration
	FirstByte time.Duration // From a ready connection to the first byte of the response.
	Total     time.Duration

	Outcome     outcome.Outcome
	Class       outcome.Class
	Again       bool   // Another attempt at once may do better: of the receiver this one says nothing.
	ByName      bool   // With OutcomeAddressBlocked: a name was looked up and had that address.
	Fault       bool   // With OutcomeNotSent: it will fail again until somebody mends what is ours.
	Err         string // What went wrong, for people. No secrets, no URL, at most 300 bytes.
	Status      int    // 0 when no response came.
	GotResponse bool   // A status line came, whatever it says.

	Proxy           string // That the request went through, as it may be shown, or "".
	RemoteAddr      string // "ip:port" of the connection used, or "".
	Reused          bool   // The connection had served an earlier request.
	HTTPVersion     string // "1.1", "2.0", or "".
	TLSVersion      string // "TLS 1.3", or "".
	PeerFingerprint string // SHA-256 of the peer's leaf certificate, hex, or "".

	ResponseHeaders map[string]string // Lower-case names; only those worth keeping.
	Excerpt         string            // First 1 KiB of the body after redaction; valid UTF-8.
	ResponseBytes   int64             // Body bytes read.
	Redacted        redact.Counts     // Pieces removed from headers, excerpt and error, by kind.
	Truncated       bool              // The body went on, or broke off, beyond ResponseBytes.
	RetryAfter      time.Duration     // From 429 and 503; 0 when absent or not sensible.
}

// Facts returns what a decision needs.
func (r Result) Facts() Facts {
	return Facts{Outcome: r.Outcome, Status: r.Status, RetryAfter: r.RetryAfter, GotResponse: r.GotResponse,
		Again: r.Again, ByName: r.ByName}
}

// FailBefore is the end of an attempt that check, or what prepares a request,
// put an end to.
func (r *Result) FailBefore(err error) {
	if own := (*Fault)(nil); errors.As(err, &own) {
		r.Fail(outcome.NotSent, NeverSent+text.Spaced(own.Text))
		r.Fault = true
		return
	}
	r.Fail(outcome.AddressBlocked, text.Spaced(err.Error()))
}

// SetOutcome sets the outcome and its class.
func (r *Result) SetOutcome(o outcome.Outcome) { r.Outcome, r.Class = o, o.Class() }

// Fail ends the attempt with an outcome, and says why.
func (r *Result) Fail(o outcome.Outcome, why string) {
	r.SetOutcome(o)
	r.Err = why
}

// Facts are what an attempt means for its delivery. Result.Facts returns them;
// an attempt whose process died is Facts{Outcome: OutcomeUnknown}.
type Facts struct {
	Outcome     outcome.Outcome
	Status      int           // HTTP status; 0 when no response came.
	RetryAfter  time.Duration // The receiver's wish; 0 when it had none.
	GotResponse bool
	Again       bool // The attempt met a connection or a protocol, and says nothing of the receiver.
	Repeated    bool // The attempt before was such a one.
	ByName      bool // With OutcomeAddressBlocked: a name had that address, and may have another one next time.
}

// Free says that the attempt costs the delivery's budget nothing: it made no
// request, or it is made again at once, which happens no more than once in a row.
func (f Facts) Free() bool { return f.Outcome == outcome.NotSent || f.Again && !f.Repeated }

// AboutReceiver says whether the attempt is a word about the receiver: see
// Outcome.AboutReceiver.
func (f Facts) AboutReceiver() bool { return f.Outcome.AboutReceiver() && !(f.Again && !f.Repeated) }

// Fault is a failure of ours: the request could not be made, and the receiver has
// nothing to do with it.
type Fault struct{ Text string }

func (f *Fault) Error() string { return f.Text }

// NeverSent is how what goes on record of such an attempt begins.
const NeverSent = "no request was made: "

// CheckHeader says what of a header cannot be sent. net/http refuses the same
// things, but only once it has a connection.
func CheckHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, notToken) {
			return &Fault{Text: fmt.Sprintf("the name of the header %.40q cannot be sent", name)}
		}
		for _, v := range values {
			if i := strings.IndexFunc(v, unsendable); i >= 0 {
				return &Fault{Text: fmt.Sprintf("the value of the header %s has a character at byte %d that cannot be sent", name,
					i)}
			}
		}
	}
	return nil
}

// notToken follows RFC 9110, section 5.6.2.
func notToken(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
		!strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func unsendable(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// MaxErrorText bounds what goes on record of an error.
const MaxErrorText = 300

// NotMade is the result of an attempt whose request could not be put together.
func NotMade(err error) Result {
	r := Result{StartedAt: time.Now()}
	r.FailBefore(err)
	r.Err = text.Truncate(r.Err, MaxErrorText)
	return r
}
