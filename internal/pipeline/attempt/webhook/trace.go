package webhook

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// maxInterim bounds informational responses per attempt. Real ones are one or
// two (100, 103); more is a flood.
const maxInterim = 16

// exchange collects what happens on the wire during one attempt. net/http calls
// its hooks from goroutines of its own, also after the attempt has returned, so
// every field below mu is read and written under it.
type exchange struct {
	now     func() time.Time
	started time.Time
	limit   time.Time // When the attempt's time is over. Immutable.

	mu        sync.Mutex
	dns       span
	connect   span
	tls       span
	ready     time.Time // A connection was obtained.
	firstByte time.Time
	interim   int // Informational responses seen.
	lastCode  int // Status of the last one.

	conn        *countingConn
	offeredAt   int64 // The counters of conn when it was obtained.
	writtenAt   int64
	readAt      int64
	premature   bool // The answer was there before the request.
	remote      string
	reused      bool
	tlsVersion  string
	fingerprint string
}

type span struct{ from, to time.Time }

// until returns the span's length; a span that is still open ends at end.
func (s span) until(end time.Time) time.Duration {
	switch {
	case s.from.IsZero():
		return 0
	case s.to.IsZero() || s.to.After(end):
		return max(0, end.Sub(s.from))
	}
	return s.to.Sub(s.from)
}

type exchangeKey struct{}

// attach makes ctx carry the exchange: net/http keeps the values of a context,
// but neither its deadline nor its cancellation, for the dials it starts.
func (x *exchange) attach(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, exchangeKey{}, x)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(httptrace.DNSStartInfo) { x.begin(&x.dns) },
		DNSDone:              func(httptrace.DNSDoneInfo) { x.end(&x.dns) },
		ConnectStart:         func(_, _ string) { x.begin(&x.connect) },
		ConnectDone:          func(_, _ string, _ error) { x.end(&x.connect) },
		GotConn:              x.gotConn,
		GotFirstResponseByte: x.gotFirstByte,
		Got1xxResponse:       x.gotInterim,
	})
}

func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange) // Only Try starts requests, so it is always there.
}

// begin and end keep the first start and the last end: addresses of one host are
// tried side by side.
func (x *exchange) begin(s *span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.from.IsZero() {
		s.from = x.now()
	}
}

func (x *exchange) end(s *span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.to = x.now()
}

func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	var version, fingerprint string
	if t, ok := info.Conn.(*tls.Conn); ok {
		version, fingerprint = describe(t.ConnectionState())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ready = x.now()
	x.reused = info.Reused
	x.remote = info.Conn.RemoteAddr().String()
	x.tlsVersion, x.fingerprint = version, fingerprint
	x.conn = counter(info.Conn)
	if x.conn != nil {
		x.offeredAt, x.writtenAt, x.readAt = x.conn.offered.Load(), x.conn.written.Load(), x.conn.read.Load()
	}
}

func describe(s tls.ConnectionState) (version, fingerprint string) {
	if len(s.PeerCertificates) > 0 {
		sum := sha256.Sum256(s.PeerCertificates[0].Raw)
		fingerprint = hex.EncodeToString(sum[:])
	}
	return tls.VersionName(s.Version), fingerprint
}

func (x *exchange) gotFirstByte() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.firstByte.IsZero() {
		return
	}
	x.firstByte = x.now()
	if x.conn != nil {
		x.premature = x.conn.offered.Load() == x.offeredAt || x.conn.read.Load() == x.readAt
	}
}

// tooEarly reports whether the answer was sent before the request was: a leftover
// of an earlier exchange on the connection. net/http drops a connection on which it
// finds one while the connection is idle, but one that is taken into use at that
// moment takes the leftover for the new answer, and a delivery would count as
// accepted by a receiver that never read it. HTTP/2 answers carry their stream.
func (x *exchange) tooEarly(protoMajor int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.premature && protoMajor == 1
}

func (x *exchange) gotInterim(code int, _ textproto.MIMEHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lastCode = code
	if x.interim++; x.interim > maxInterim {
		return errTooManyInterim
	}
	return nil
}

// connected reports whether there was a connection for the request.
func (x *exchange) connected() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.ready.IsZero()
}

// staleConnection reports whether the request went onto a connection that had
// served an earlier one, and nothing came back on it: the receiver may have been
// about to close it all the time.
func (x *exchange) staleConnection() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reused && x.firstByte.IsZero() && x.interim == 0 && (x.conn == nil || x.conn.read.Load() == x.readAt)
}

// again forgets a connection on which nothing was sent.
func (x *exchange) again() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ready, x.conn, x.reused = time.Time{}, nil, false
	x.remote, x.tlsVersion, x.fingerprint = "", "", ""
}

// nothingSent reports whether the request failed on a reused connection before
// the kernel took a byte from us. Bytes of other streams on a shared HTTP/2
// connection count as ours: that errs towards not sending again.
func (x *exchange) nothingSent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reused && x.conn != nil && x.firstByte.IsZero() && x.conn.written.Load() == x.writtenAt
}

func (x *exchange) interimSeen() (count, lastCode int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.interim, x.lastCode
}

// report copies what was seen so far. Hooks that fire later change only x.
func (x *exchange) report(r *attempt.Result, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.RemoteAddr, r.Reused = x.remote, x.reused
	r.TLSVersion, r.PeerFingerprint = x.tlsVersion, x.fingerprint
	if !x.firstByte.IsZero() && !x.ready.IsZero() {
		r.FirstByte = x.firstByte.Sub(x.ready)
	}
	end := x.ready
	if end.IsZero() {
		end = now // The attempt ended while it was connecting.
	}
	// The dial of this attempt may have lost to a connection that became free, or
	// that another attempt had opened. Then it is no part of this call.
	if !x.reused && !x.tls.to.After(end) && !x.connect.to.After(end) {
		r.Resolve, r.Connect, r.TLS = x.dns.until(end), x.connect.until(end), x.tls.until(end)
	}
}

// answered reports whether anything came back on the connection.
func (x *exchange) answered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.firstByte.IsZero()
}
