// Package webhook makes attempts at receivers that take an HTTP POST: one signed
// request at a time (Client.Try).
package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

const (
	defaultTimeout     = 10 * time.Second // What receivers are promised.
	defaultMaxResponse = 64 << 10
	defaultMaxHeader   = 64 << 10
	defaultIdle        = 1024
	defaultIdleTimeout = 90 * time.Second

	// maxStaleDials bounds how many idle connections may turn out to be closed
	// before one attempt gives up looking for a live one.
	maxStaleDials = 8
)

// Options configures a Client. The zero value is safe: special addresses are
// blocked, TLS is verified against the system's roots.
type Options struct {
	Egress egress.Policy

	Timeout        time.Duration // For requests that set none. Default 10 s.
	MaxResponse    int64         // Body bytes read per response. Default 64 KiB.
	MaxHeader      int64         // Header bytes read per response. Default 64 KiB.
	UserAgent      string        // For requests that set none. Default "Waybill".
	MaxIdlePerHost int           // Idle connections kept per receiver. Default 1024.
	IdleTimeout    time.Duration // How long one is kept. Default 90 s.

	// Redact says what of a receiver's answer goes on record.
	// Default: redact.Default.
	Redact *redact.Redactor

	// Proxy is asked for tunnels to every receiver whose endpoint names no other.
	// Optional. It gets checked addresses, or with ProxyNames host names, which it
	// looks up itself.
	Proxy      *egress.Proxy
	ProxyNames bool

	RootCAs  *x509.CertPool   // Optional; default: the system's. Verification cannot be turned off.
	Resolver *net.Resolver    // Optional; default: the system's.
	Now      func() time.Time // Optional; default: time.Now.
}

// request is one that is being made.
type request struct {
	attempt.Request
	token      string
	tokenFresh bool // It was got for this attempt.
}

// Client makes attempts. It is safe for concurrent use.
type Client struct {
	opts      Options
	transport *http.Transport // Of all endpoints that connect in no way of their own.
	oldHTTP   *http.Transport // The same for receivers that want HTTP/1.1.
	pool      *pool           // Of those that do.
	http1     http1Hosts
	tokens    tokens
	buffers   sync.Pool // Of *bodyBuffer.

	closing context.Context // Ends with Close.
	close   context.CancelFunc
}

// NewClient returns a Client. Close it to drop its idle connections.
func NewClient(o Options) *Client {
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.MaxResponse, defaultMaxResponse)
	setDefault(&o.MaxHeader, defaultMaxHeader)
	setDefault(&o.UserAgent, "Waybill")
	setDefault(&o.MaxIdlePerHost, defaultIdle)
	setDefault(&o.IdleTimeout, defaultIdleTimeout)
	if o.Redact == nil {
		o.Redact = redact.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Client{opts: o, pool: newPool(o, maxIdentities), tokens: tokens{by: map[string]*token{}},
		buffers: sync.Pool{New: func() any { return new(bodyBuffer) }}}
	c.transport, _ = newTransport(o, nil, nil, false) // It fails for an endpoint's own connection only.
	c.oldHTTP, _ = newTransport(o, nil, nil, true)
	c.closing, c.close = context.WithCancel(context.Background())
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Close closes idle connections. Attempts that are running are not affected,
// but for those that wait for an access token.
func (c *Client) Close() {
	c.close()
	c.transport.CloseIdleConnections()
	c.oldHTTP.CloseIdleConnections()
	c.pool.close()
}

// transportOf returns the transport to use and what MUST be called after use.
func (c *Client) transportOf(owner, url string, via *registry.Connection) (*http.Transport, func(), error) {
	http1 := c.http1.has(url, c.opts.Now())
	switch {
	case via == nil && http1:
		return c.oldHTTP, func() {}, nil
	case via == nil:
		return c.transport, func() {}, nil
	}
	e, err := c.pool.acquire(owner, via, http1)
	if err != nil {
		return nil, nil, err
	}
	return e.transport, func() { c.pool.release(e) }, nil
}

// Causes of the end of an attempt's context.
var (
	errAttemptTimeout = errors.New("the attempt's time was over")
	errTooManyInterim = errors.New("too many informational responses")
)

// Try makes exactly one HTTP request and says what became of it. It returns
// within the request's timeout, whatever the receiver does, and earlier with
// OutcomeInterrupted when ctx ends.
//
// One request means one: see newPost for how a second, unrecorded one is ruled out.
// If the process dies inside Try, the receiver may or may not have the request;
// only the caller's record of having started can tell.
func (c *Client) Try(ctx context.Context, of attempt.Request) attempt.Result {
	r := request{Request: of}
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = c.opts.Timeout
	}
	x := &exchange{now: c.opts.Now, started: c.opts.Now(), limit: time.Now().Add(timeout)}
	res := attempt.Result{StartedAt: x.started, Proxy: c.proxyOf(of.Connection)}

	if err := c.check(r); err != nil {
		res.FailBefore(err)
		c.cleanError(r, &res)
		res.Total = c.opts.Now().Sub(x.started)
		return res
	}
	attempt, cancel := context.WithDeadlineCause(ctx, x.limit, errAttemptTimeout)
	defer cancel()
	if c.authorize(attempt, &r, x, &res) {
		c.exchange(attempt, cancel, r, x, &res)
	}
	now := c.opts.Now()
	res.Total = now.Sub(x.started)
	x.report(&res, now)
	c.cleanError(r, &res)
	return res
}

// authorize gets the access token that the request needs, if any. When it
// cannot, the attempt ends here, on record as such, and nothing is sent to the
// receiver.
func (c *Client) authorize(ctx context.Context, r *request, x *exchange, res *attempt.Result) bool {
	if r.OAuth2 == nil {
		return true
	}
	value, fresh, err := c.token(ctx, *r, x.limit)
	res.Auth = c.opts.Now().Sub(x.started)
	if own := (*attempt.Fault)(nil); errors.As(err, &own) {
		res.FailBefore(own)
		return false
	}
	if err != nil {
		res.Fail(outcome.AuthFailure, text.Spaced(err.Error()))
		if ctx.Err() != nil {
			if o, why, ok := ended(ctx, x.limit); ok && o == outcome.Interrupted {
				res.Fail(outcome.NotSent, attempt.NeverSent+why)
			} else {
				res.Err = "the token endpoint: no answer in time"
			}
		}
		return false
	}
	r.token, r.tokenFresh = value, fresh
	r.Sensitive = append(slices.Clip(r.Sensitive), value)
	return true
}

// exchange makes the request and reads the answer.
func (c *Client) exchange(ctx context.Context, cancel context.CancelFunc, r request, x *exchange, res *attempt.Result) {
	transport, release, err := c.transportOf(r.Owner, r.URL, r.Connection)
	if err != nil { // what the endpoint has of its own makes no connections
		res.FailBefore(&attempt.Fault{Text: text.Spaced(err.Error())})
		return
	}
	defer release()
	resp, err := c.roundTrip(x.attach(ctx), transport, r, x)
	switch {
	case err != nil:
		c.failed(ctx, err, x, r, res)
		setInterim(res, x)
	case x.tooEarly(resp.ProtoMajor):
		cancel() // So that the connection cannot be used again.
		_ = resp.Body.Close()
		res.Fail(outcome.BadResponse, earlyText)
	default:
		c.readResponse(ctx, resp, x.limit, r, res)
	}
	if r.OAuth2 != nil && res.Status == http.StatusUnauthorized {
		c.tokens.reject(r.Owner, r.token)
		// One that had served before may have been withdrawn since: the next
		// attempt brings a new one. A new one that is refused will be again.
		if !r.tokenFresh {
			res.Fail(outcome.AuthFailure, "the receiver did not take the access token; the next attempt brings a new one")
		}
	}
}

// roundTrip sends the request. It takes another connection only while no byte of
// the request has left this machine: an idle connection that the receiver had
// closed costs no attempt, and the receiver cannot have seen anything of it.
func (c *Client) roundTrip(ctx context.Context, transport *http.Transport, r request, x *exchange) (*http.Response,
	error) {
	for stale := 0; ; stale++ {
		req, err := c.newPost(ctx, r)
		if err != nil {
			return nil, err
		}
		resp, err := transport.RoundTrip(req)
		if err == nil || ctx.Err() != nil || stale >= maxStaleDials || !x.nothingSent() {
			return resp, err
		}
		x.again()
	}
}

// check finds what keeps the request from being made whatever the receiver does.
// The error is a *fault, or says that the URL may not be called.
func (c *Client) check(r request) error {
	if err := attempt.CheckHeader(r.Header); err != nil {
		return err
	}
	return c.opts.Egress.CheckURL(r.URL)
}

// failed says what a request came to that got no response. Without a connection
// no byte of it can have left: net/http hands a request to one before it writes.
func (c *Client) failed(ctx context.Context, err error, x *exchange, r request, res *attempt.Result) {
	o, why := outcomeOf(ctx, err, x)
	if !x.connected() {
		cause, ours := faultOf(err, c.opts.Proxy != nil && (r.Connection == nil || r.Connection.Proxy == ""))
		switch {
		case o == outcome.Interrupted:
			o, why = outcome.NotSent, attempt.NeverSent+why
		case ours && o != outcome.Timeout:
			o, why = outcome.NotSent, attempt.NeverSent+text.Spaced(cause)
			res.Fault = !errors.Is(err, errRetired) // those that come next have a connection of their own
		}
	}
	res.Fail(o, why)
	switch {
	case o == outcome.AddressBlocked: // check has seen to addresses: this one was looked up
		res.ByName, res.Class = true, outcome.ClassRetryable
	case o == outcome.ConnectionReset && wantsHTTP1(err):
		c.http1.add(r.URL, c.opts.Now())
		res.Again, res.Err = true, "the receiver asks for HTTP/1.1 in place of HTTP/2; the next attempts use it"
	case o == outcome.ConnectionReset && x.staleConnection():
		res.Again, res.Err = true, "the receiver ended a connection that had served before, and answered nothing on it"
	}
}

// newPost builds the request so that net/http cannot send it twice by itself.
//
// http.Transport repeats a request on a new connection when a reused one breaks
// before the answer, if it believes the request to be replayable. It believes so
// of a POST that has an Idempotency-Key header, which ours have, when GetBody is
// set, which http.NewRequest does for a bytes.Reader, or when the body is nil or
// NoBody. HTTP/2 repeats after REFUSED_STREAM and GOAWAY on the same conditions.
// The receiver may have read and acted on the first request, and no record would
// show that there were two.
//
// So GetBody stays nil and Body is never nil, NoBody, or a type that net/http
// knows, not even for an empty body. What is left to net/http is to move an
// HTTP/2 request to another connection before any of its frames was written.
func (c *Client) newPost(ctx context.Context, r request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, egress.EscapeURL(r.URL), nil)
	if err != nil {
		return nil, &attempt.Fault{Text: text.Spaced(err.Error())}
	}
	req.Body = newOnceBody(r.Body)
	req.ContentLength = int64(len(r.Body))
	req.Header = r.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	return req, nil
}
