package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

const (
	// quick is the timeout of attempts that are meant to time out.
	quick = 150 * time.Millisecond
	// unhurried is the timeout of attempts that are meant to time out after the
	// receiver's first bytes, which may take their time on a busy machine.
	unhurried = time.Second
	// patient is the timeout of attempts that are not.
	patient = 10 * time.Second
	// allowance is what a busy machine may add to a timeout; what does not end by itself lasts longer.
	allowance = 8 * time.Second
)

// receiver is a TCP server that answers each request as its script says, and
// counts what reached it.
type receiver struct {
	addr     string
	conns    atomic.Int64
	requests atomic.Int64
}

// peer is the receiver's side of one connection.
type peer struct {
	net.Conn
	br   *bufio.Reader
	gone <-chan struct{} // Closed when the test is over.
	r    *receiver
}

// read reads one whole request, and counts it.
func (p *peer) read() (*http.Request, []byte, bool) {
	req, err := http.ReadRequest(p.br)
	if err != nil {
		return nil, nil, false
	}
	p.r.requests.Add(1)
	body, err := io.ReadAll(req.Body)
	return req, body, err == nil
}

// start waits for the first byte of a request.
func (p *peer) start() { _, _ = p.br.Peek(1) }

func (p *peer) send(s string) bool { _, err := io.WriteString(p.Conn, s); return err == nil }

// reset closes the connection with RST instead of FIN.
func (p *peer) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	_ = p.Conn.Close()
}

// drip sends s again and again, a piece each tick, until the sender hangs up.
func (p *peer) drip(s string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.send(s) {
		select {
		case <-tick.C:
		case <-p.gone:
			return
		}
	}
}

// hold keeps the connection open and silent until the sender hangs up.
func (p *peer) hold() { _, _ = io.Copy(io.Discard, p.br) }

// listen starts a receiver that runs script on each connection, then closes it.
func listen(t *testing.T, script func(p *peer)) *receiver {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{addr: ln.Addr().String()}
	gone := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			r.conns.Add(1)
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				script(&peer{Conn: c, br: bufio.NewReader(c), gone: gone, r: r})
			})
		}
	})
	t.Cleanup(func() {
		close(gone)
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return r
}

// answer is a script that reads each request on a connection and sends s.
func answer(s string) func(*peer) {
	return func(p *peer) {
		for {
			if _, _, ok := p.read(); !ok || !p.send(s) {
				return
			}
		}
	}
}

// once is a script that reads one request, sends s, and closes.
func once(s string) func(*peer) {
	return func(p *peer) {
		if _, _, ok := p.read(); ok {
			p.send(s)
		}
	}
}

// newTestClient returns a client that may call this machine.
func newTestClient(t testing.TB, o Options) *Client {
	t.Helper()
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	o.Egress = allow
	c := NewClient(o)
	t.Cleanup(c.Close)
	return c
}

// post is a request as the dispatcher makes them, Idempotency-Key included.
func post(url string, timeout time.Duration) attempt.Request {
	return attempt.Request{
		URL: url, Timeout: timeout, Body: []byte(`{"id":"evt_1","data":{}}`),
		Header: http.Header{
			"Content-Type":    {"application/json"},
			"Webhook-Id":      {"evt_1"},
			"Idempotency-Key": {"evt_1"},
		},
	}
}

// try makes an attempt and checks what holds for every attempt.
func try(t *testing.T, c *Client, r attempt.Request) attempt.Result {
	t.Helper()
	return tryContext(t, context.Background(), c, r)
}

func tryContext(t *testing.T, ctx context.Context, c *Client, r attempt.Request) attempt.Result {
	t.Helper()
	before := time.Now()
	res := c.Try(ctx, r)
	if took := time.Since(before); took > r.Timeout+allowance || res.Total > r.Timeout+allowance {
		t.Errorf("the attempt took %s (says %s) with a timeout of %s", took, res.Total, r.Timeout)
	}
	class := res.Outcome.Class()
	if res.ByName { // an address in a URL stays what it is, that of a name does not
		class = outcome.ClassRetryable
	}
	if res.Outcome == "" || res.Class != class {
		t.Errorf("outcome %q has class %q", res.Outcome, res.Class)
	}
	if plain := res.Status != 0 && res.Outcome == outcome.OfStatus(res.Status); plain != (res.Err == "") &&
		res.Outcome != outcome.InformationalFinal {
		t.Errorf("outcome %s comes with error text %q", res.Outcome, res.Err)
	}
	if strings.Contains(res.Err, "hush") || strings.Contains(res.Err, "%!") {
		t.Errorf("error text is not fit for the record: %q", res.Err)
	}
	if parts := res.Resolve + res.Connect + res.TLS + res.FirstByte; parts > res.Total {
		t.Errorf("the parts take %s, the whole %s", parts, res.Total)
	}
	if res.StartedAt.Before(before) || res.Total <= 0 {
		t.Errorf("started at %s, took %s", res.StartedAt, res.Total)
	}
	checkText(t, res)
	return res
}

// newTLS starts a receiver with a certificate that the returned options trust.
func newTLS(t testing.TB, http2 bool, h http.Handler) (*httptest.Server, Options) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.Config.ErrorLog = discardLog()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, Options{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
}

// newTLSListener accepts TLS connections with a trusted certificate and the given
// application protocol, and runs script on each.
func newTLSListener(t *testing.T, proto string, script func(net.Conn)) (addr string, o Options) {
	t.Helper()
	s, o := newTLS(t, false, http.NotFoundHandler())
	cfg := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{proto}}
	r := listen(t, func(p *peer) {
		c := tls.Server(p.Conn, cfg)
		defer c.Close()
		if c.HandshakeContext(t.Context()) == nil {
			script(c)
		}
	})
	return r.addr, o
}
