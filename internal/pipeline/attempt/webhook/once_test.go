package webhook

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// breaks returns receivers that answer the first request on a connection and end
// the connection after having read the second one.
func breaks() map[string]func(*peer) {
	second := func(end func(*peer)) func(*peer) {
		return func(p *peer) {
			if _, _, ok := p.read(); !ok || !p.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
				return
			}
			if _, _, ok := p.read(); ok {
				end(p)
			}
		}
	}
	return map[string]func(*peer){
		"closes the connection":            second(func(*peer) {}),
		"resets the connection":            second(func(p *peer) { p.reset() }),
		"closes it after a piece of reply": second(func(p *peer) { p.send("HTTP/1.1 2") }),
	}
}

// TestARequestThatWasReadIsNeverSentAgain is about a reused connection that the
// receiver ends after it has the request: whether it acted on it is unknown, so
// one attempt must stay one request. See Client.newPost.
func TestARequestThatWasReadIsNeverSentAgain(t *testing.T) {
	for name, script := range breaks() {
		for size, body := range map[string][]byte{"with a body": []byte(`{"id":"evt_1"}`), "without a body": nil} {
			t.Run(name+" "+size, func(t *testing.T) {
				r := listen(t, script)
				c := newTestClient(t, Options{})
				req := post("http://"+r.addr, patient)
				req.Body = body
				if res := try(t, c, req); res.Outcome != outcome.Delivered {
					t.Fatalf("the first attempt gives %s %s", res.Outcome, res.Err)
				}
				res := try(t, c, req)
				if res.Outcome != outcome.ConnectionReset && res.Outcome != outcome.BadResponse {
					t.Errorf("the second attempt gives %s %s", res.Outcome, res.Err)
				}
				if !res.Reused {
					t.Error("the second attempt did not reuse the connection, so this tests nothing")
				}
				if n, conns := r.requests.Load(), r.conns.Load(); n != 2 || conns != 1 {
					t.Errorf("two attempts made %d requests on %d connections", n, conns)
				}
			})
		}
	}
}

// TestNetHTTPAloneWouldSendItAgain shows that the receivers above do provoke the
// repetition: the same request, built the usual way, reaches them three times.
func TestNetHTTPAloneWouldSendItAgain(t *testing.T) {
	r := listen(t, breaks()["closes the connection"])
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	for range 2 {
		req, err := http.NewRequest(http.MethodPost, "http://"+r.addr, bytes.NewReader([]byte(`{"id":"evt_1"}`)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "evt_1")
		if resp, err := tr.RoundTrip(req); err == nil {
			resp.Body.Read(make([]byte, 16))
			resp.Body.Close()
		}
	}
	if n := r.requests.Load(); n != 3 {
		t.Errorf("two requests reached the receiver %d times; if net/http has become careful, newPost can become simpler", n)
	}
}

// failingConn fails its writes once armed, after letting through some bytes.
type failingConn struct {
	net.Conn
	armed *atomic.Bool
	pass  int
}

func (c *failingConn) Write(p []byte) (int, error) {
	if !c.armed.Load() {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:min(c.pass, len(p))])
	c.Conn.Close()
	return n, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

// armable replaces the client's dialing so that writes on its first connection
// fail, after pass bytes, once armed.
func armable(c *Client, pass int) *atomic.Bool {
	var armed, first atomic.Bool
	dial := c.transport.DialContext
	c.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil || first.Swap(true) {
			return conn, err
		}
		counted := conn.(*countingConn)
		counted.Conn = &failingConn{Conn: counted.Conn, armed: &armed, pass: pass}
		return counted, nil
	}
	return &armed
}

func TestAConnectionThatWasClosedWhileIdleIsReplacedBeforeAnythingIsSent(t *testing.T) {
	r := listen(t, answer(ok))
	c := newTestClient(t, Options{})
	armed := armable(c, 0)
	try(t, c, post("http://"+r.addr, patient))
	armed.Store(true)
	res := try(t, c, post("http://"+r.addr, patient))
	if res.Outcome != outcome.Delivered || res.Reused || res.Connect == 0 {
		t.Errorf("got %s %s, reused %v, connect %s", res.Outcome, res.Err, res.Reused, res.Connect)
	}
	if n, conns := r.requests.Load(), r.conns.Load(); n != 2 || conns != 2 {
		t.Errorf("two attempts made %d requests on %d connections", n, conns)
	}
}

func TestOneByteSentIsTooMuchToSendAgain(t *testing.T) {
	r := listen(t, answer(ok))
	c := newTestClient(t, Options{})
	armed := armable(c, 1)
	try(t, c, post("http://"+r.addr, patient))
	armed.Store(true)
	res := try(t, c, post("http://"+r.addr, patient))
	if res.Outcome != outcome.ConnectionReset || !res.Reused {
		t.Errorf("got %s %s, reused %v", res.Outcome, res.Err, res.Reused)
	}
	if n, conns := r.requests.Load(), r.conns.Load(); n != 1 || conns != 1 {
		t.Errorf("two attempts made %d requests on %d connections", n, conns)
	}
}

// TestAttemptsAndRequestsAgreeWhenConnectionsDieAtAnyMoment races attempts against
// a receiver that closes each connection right after an answer.
func TestAttemptsAndRequestsAgreeWhenConnectionsDieAtAnyMoment(t *testing.T) {
	r := listen(t, once(ok))
	c := newTestClient(t, Options{})
	const attempts = 300
	delivered := int64(0)
	for range attempts {
		switch res := try(t, c, post("http://"+r.addr, patient)); res.Outcome {
		case outcome.Delivered:
			delivered++
		case outcome.ConnectionReset:
		default:
			t.Fatalf("got %s %s", res.Outcome, res.Err)
		}
	}
	if n := r.requests.Load(); n < delivered || n > attempts {
		t.Errorf("%d attempts, %d delivered, made %d requests", attempts, delivered, n)
	}
	if delivered < attempts/2 {
		t.Errorf("only %d of %d were delivered", delivered, attempts)
	}
}

// TestALeftoverAnswerIsNotTheNextAnswer is about a receiver that answers twice:
// the second answer may be there when the next attempt takes the connection, and
// must not make it look delivered.
func TestALeftoverAnswerIsNotTheNextAnswer(t *testing.T) {
	r := listen(t, func(p *peer) {
		if _, _, good := p.read(); good && p.send(ok+ok) {
			p.start() // Closes without reading a second request.
		}
	})
	c := newTestClient(t, Options{})
	var delivered atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				switch res := c.Try(context.Background(), post("http://"+r.addr, patient)); res.Outcome {
				case outcome.Delivered:
					delivered.Add(1)
				case outcome.BadResponse, outcome.ConnectionReset:
				default:
					t.Errorf("got %s %s", res.Outcome, res.Err)
				}
			}
		})
	}
	all.Wait()
	if d, n := delivered.Load(), r.requests.Load(); d > n || d == 0 {
		t.Errorf("%d attempts were delivered, and the receiver read %d requests", d, n)
	}
}
