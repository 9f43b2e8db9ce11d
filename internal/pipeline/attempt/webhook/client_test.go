package webhook

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func checkText(t *testing.T, res attempt.Result) {
	t.Helper()
	texts := []string{res.Err, res.Excerpt}
	for name, v := range res.ResponseHeaders {
		texts = append(texts, name, v)
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || len(s) > maxExcerpt {
			t.Errorf("text is not fit for the record: %q", s)
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// misbehaviour is a receiver's script and what an attempt makes of it.
type misbehaviour struct {
	name    string
	script  func(*peer)
	timeout time.Duration
	outcome outcome.Outcome
	status  int
	check   func(*testing.T, attempt.Result)
}

func answers() []misbehaviour {
	slow := func(head, piece string) func(*peer) {
		return func(p *peer) {
			if _, _, ok := p.read(); ok && p.send(head) {
				p.drip(piece)
			}
		}
	}
	return []misbehaviour{
		{"a 200 is delivered", answer(ok), patient, outcome.Delivered, 200, func(t *testing.T, r attempt.Result) {
			if r.Excerpt != "ok" || r.ResponseBytes != 2 || r.Truncated || r.HTTPVersion != "1.1" || r.Reused {
				t.Errorf("got %+v", r)
			}
		}},
		{"a 204 is delivered", answer("HTTP/1.1 204 No Content\r\n\r\n"), patient, outcome.Delivered, 204, nil},
		{"a 200 without a body is delivered", answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), patient,
			outcome.Delivered, 200, nil},
		{"a 200 from HTTP/1.0 is delivered", once("HTTP/1.0 200 OK\r\n\r\nfine"), patient, outcome.Delivered, 200, nil},
		{"a 500 can be tried again", answer("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"), patient, outcome.StatusRetryable,
			500, nil},
		{"a 404 is final", answer("HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"), patient, outcome.StatusTerminal, 404, nil},
		{"a 999 counts as 5xx", answer("HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n"), patient, outcome.StatusRetryable, 999,
			nil},
		{"an early hint before a 200 is delivered", answer("HTTP/1.1 103 Early Hints\r\n\r\n" + ok), patient,
			outcome.Delivered, 200, nil},

		{"silence times out", func(p *peer) { p.hold() }, quick, outcome.Timeout, 0, nil},
		{"header bytes that drip time out", slow("HTTP/1.1 200 OK\r\nX: ", "a"), quick, outcome.Timeout, 0, nil},
		{"header lines that drip time out", slow("HTTP/1.1 200 OK\r\n", "X: y\r\n"), quick, outcome.Timeout, 0, nil},
		{"a 200 whose body drips is delivered at the timeout", slow("HTTP/1.1 200 OK\r\n\r\n", "z"), unhurried,
			outcome.Delivered, 200, truncated},
		{"a 200 whose announced body never starts times out", slow("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", ""),
			unhurried, outcome.Timeout, 200, truncated},
		{"a 200 whose chunks never start times out", slow("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
			unhurried, outcome.Timeout, 200, truncated},
		{"a 503 whose body drips is a 503", slow("HTTP/1.1 503 X\r\n\r\n", "z"), unhurried, outcome.StatusRetryable, 503,
			truncated},
		{"an endless body is read up to the limit", slow("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("z", 10_000)), patient,
			outcome.Delivered, 200, func(t *testing.T, r attempt.Result) {
				if r.ResponseBytes != defaultMaxResponse || !r.Truncated || len(r.Excerpt) > maxExcerpt {
					t.Errorf("read %d bytes, excerpt %d", r.ResponseBytes, len(r.Excerpt))
				}
			}},

		{"a close without an answer is a reset", once(""), patient, outcome.ConnectionReset, 0, nil},
		{"a reset without an answer is a reset", func(p *peer) { p.read(); p.reset() }, patient, outcome.ConnectionReset, 0,
			nil},
		{"a close before the request is a reset", func(p *peer) { p.reset() }, patient, outcome.ConnectionReset, 0, nil},
		{"a close within the headers is a reset", once("HTTP/1.1 200 OK\r\nServer: x\r\n"), patient, outcome.ConnectionReset,
			0, nil},
		{"a close within a header's name is a bad response", once("HTTP/1.1 200 OK\r\nConte"), patient, outcome.BadResponse,
			0, nil},
		{"a 200 that ends before its body starts is a reset", once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), patient,
			outcome.ConnectionReset, 200, truncated},
		{"a 200 that ends within its body is delivered", once("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour"), patient,
			outcome.Delivered, 200, truncated},
		{"a 200 with broken chunks is delivered after its first part",
			once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\nzz\r\n"), patient, outcome.Delivered, 200,
			truncated},
		{"a 200 with broken chunks from the start is a bad response",
			once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), patient, outcome.BadResponse, 200, truncated},
	}
}

func truncated(t *testing.T, r attempt.Result) {
	if !r.Truncated || !r.GotResponse {
		t.Errorf("Truncated is %v, GotResponse is %v", r.Truncated, r.GotResponse)
	}
}

func oddAnswers() []misbehaviour {
	none := func(t *testing.T, r attempt.Result) {
		if r.GotResponse {
			t.Error("counts as a response")
		}
	}
	return []misbehaviour{
		{"a 101 is final", once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), patient,
			outcome.InformationalFinal, 101, nil},
		{"a 101 that stays open is final", func(p *peer) {
			p.read()
			p.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			p.hold()
		}, patient, outcome.InformationalFinal, 101, nil},
		{"a 100 and a close is final", once("HTTP/1.1 100 Continue\r\n\r\n"), patient, outcome.InformationalFinal, 100, nil},
		{"a 103 and a close is final", once("HTTP/1.1 103 Early Hints\r\n\r\n"), patient, outcome.InformationalFinal, 103,
			nil},
		{"a 103 and silence times out", func(p *peer) { p.read(); p.send("HTTP/1.1 103 Early Hints\r\n\r\n"); p.hold() },
			unhurried, outcome.Timeout, 0, nil},
		{"a flood of 1xx is a bad response", func(p *peer) { p.read(); p.drip("HTTP/1.1 102 Processing\r\n\r\n") }, patient,
			outcome.BadResponse, 0, nil},
		{"a malformed status line is a bad response", once("HTTP/1.1 abc\r\n\r\n"), patient, outcome.BadResponse, 0, none},
		{"a status of two digits is a bad response", once("HTTP/1.1 20 OK\r\n\r\n"), patient, outcome.BadResponse, 0, none},
		{"a greeting of another protocol is a bad response", once("SSH-2.0-OpenSSH_9.9\r\n"), patient, outcome.BadResponse, 0,
			none},
		{"bare text as in HTTP/0.9 is a bad response", once("<html>hello</html>\r\n\r\n"), patient, outcome.BadResponse, 0,
			none},
		{"binary noise is a bad response", once("\x00\x01\xff\xfe\r\n\r\n\r\n"), patient, outcome.BadResponse, 0, none},
		{"a header line without a colon is a bad response", once("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), patient,
			outcome.BadResponse, 0, nil},
		{"headers beyond the limit are a bad response", once("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 200_000) +
			"\r\n\r\n"), patient, outcome.BadResponse, 0, nil},
		{"two content lengths are a bad response", once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" +
			"Content-Length: 2\r\n\r\nok"), patient, outcome.BadResponse, 0, nil},
		{"header bytes in Latin-1 are kept readable", answer("HTTP/1.1 200 OK\r\nServer: caf\xe9\r\nContent-Length: " +
			"2\r\n\r\nok"), patient, outcome.Delivered, 200, func(t *testing.T, r attempt.Result) {
			if got := r.ResponseHeaders["server"]; got != "caf\uFFFD" {
				t.Errorf("server is %q", got)
			}
		}},
		{"a body in Latin-1 is kept readable", answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ncaf\xe9"), patient,
			outcome.Delivered, 200, func(t *testing.T, r attempt.Result) {
				if r.Excerpt != "caf\uFFFD" {
					t.Errorf("excerpt is %q", r.Excerpt)
				}
			}},
		{"secrets in a body are redacted", answer("HTTP/1.1 400 X\r\nContent-Length: 31\r\n\r\nbad token: Bearer " +
			"abcdef0123456"), patient, outcome.StatusTerminal, 400, func(t *testing.T, r attempt.Result) {
			if strings.Contains(r.Excerpt, "abcdef") || !strings.Contains(r.Excerpt, "bad token") {
				t.Errorf("excerpt is %q", r.Excerpt)
			}
		}},
		{"a secret at the excerpt's end is redacted whole", answer("HTTP/1.1 400 X\r\nContent-Length: 1041\r\n\r\n" +
			strings.Repeat("- ", 505) + "Bearer abcdef0123456789abcdef01"), patient, outcome.StatusTerminal, 400,
			func(t *testing.T, r attempt.Result) {
				if strings.Contains(r.Excerpt, "abc") {
					t.Errorf("excerpt ends in %q", r.Excerpt[len(r.Excerpt)-40:])
				}
			}},
		{"a compressed body is not decompressed", answer("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: " +
			"4\r\n\r\n\x1f\x8b\x08\x00"), patient, outcome.Delivered, 200, func(t *testing.T, r attempt.Result) {
			if r.ResponseBytes != 4 || r.Excerpt != "" || r.ResponseHeaders["content-encoding"] != "gzip" {
				t.Errorf("got %+v", r)
			}
		}},
		{"an answer before the request is read is the answer", func(p *peer) { p.start(); p.send(ok); p.hold() }, patient,
			outcome.Delivered, 200, nil},
		{"an answer and a close before the request is read is the answer", func(p *peer) {
			p.start()
			p.send("HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = p.Conn.(*net.TCPConn).CloseWrite()
			p.hold()
		}, patient, outcome.StatusTerminal, 413, nil},
	}
}

// TestReceiversThatMisbehave covers HTTP/1.1 without TLS; at its end nothing that
// it started may still be running.
func TestReceiversThatMisbehave(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("all", func(t *testing.T) {
		for _, tt := range append(answers(), oddAnswers()...) {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				r := listen(t, tt.script)
				c := newTestClient(t, Options{})
				res := try(t, c, post("http://"+r.addr+"/hooks?token=hush", tt.timeout))
				if res.Outcome != tt.outcome || res.Status != tt.status {
					t.Errorf("got %s %d (%s), want %s %d", res.Outcome, res.Status, res.Err, tt.outcome, tt.status)
				}
				if tt.timeout < patient && res.Total < tt.timeout-10*time.Millisecond {
					t.Errorf("gave up after %s, before the timeout", res.Total)
				}
				if n := r.conns.Load(); n != 1 {
					t.Errorf("%d connections, want 1", n)
				}
				if tt.check != nil {
					tt.check(t, res)
				}
			})
		}
	})
	expectGoroutines(t, before)
}

// expectGoroutines waits, within bounds, for everything that was started since
// to end.
func expectGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-tick.C:
		case <-deadline:
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

func TestTheRequestIsSentAsGiven(t *testing.T) {
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer s.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	c := newTestClient(t, Options{UserAgent: "Waybill/test"})
	r := post(s.URL+"/a%2Fb/é?c=d&q=é|", patient)
	if res := try(t, c, r); res.Outcome != outcome.Delivered {
		t.Fatalf("got %s %s", res.Outcome, res.Err)
	}
	if got.Method != "POST" || got.RequestURI != "/a%2Fb/%C3%A9?c=d&q=%C3%A9%7C" || string(body) != string(r.Body) ||
		got.ContentLength != int64(len(r.Body)) {
		t.Errorf("the receiver got %s %s with %q", got.Method, got.RequestURI, body)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {"evt_1"}, "Idempotency-Key": {"evt_1"},
		"User-Agent": {"Waybill/test"}, "Content-Length": {"24"},
	}
	if len(got.Header) != len(want) {
		t.Errorf("the receiver got headers %v, want %v", got.Header, want)
	}
	if len(r.Header) != 3 {
		t.Errorf("the caller's headers were changed: %v", r.Header)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var followed atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer target.Close()
	c := newTestClient(t, Options{})
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(target.URL, status))
		res := try(t, c, post(s.URL, patient))
		s.Close()
		if res.Outcome != outcome.Redirect || res.Status != status || res.Class != outcome.ClassTerminal {
			t.Errorf("a %d gives %s %d", status, res.Outcome, res.Status)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("the target got %d requests", n)
	}
}

func TestAResponseBeforeALargeBodyIsReadIsTheAnswer(t *testing.T) {
	for name, script := range map[string]func(*peer){
		"and the connection stays open": func(p *peer) {
			p.start()
			p.send("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
			<-p.gone
		},
		"and the connection closes in order": func(p *peer) {
			p.start()
			p.send("HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n")
			_ = p.Conn.(*net.TCPConn).CloseWrite()
			p.hold()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := listen(t, script)
			req := post("http://"+r.addr, patient)
			req.Body = make([]byte, 32<<20) // More than the sockets' buffers hold.
			if res := try(t, newTestClient(t, Options{}), req); res.Outcome != outcome.StatusTerminal || res.Status != 413 {
				t.Errorf("got %s %d %s", res.Outcome, res.Status, res.Err)
			}
		})
	}
}

func TestARequestThatIsNeverReadTimesOut(t *testing.T) {
	r := listen(t, func(p *peer) { <-p.gone })
	req := post("http://"+r.addr, quick)
	req.Body = make([]byte, 32<<20)
	if res := try(t, newTestClient(t, Options{}), req); res.Outcome != outcome.Timeout {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
}

func TestShutdownInterruptsAnAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	r := listen(t, func(p *peer) { p.read(); cancel(); p.hold() })
	res := tryContext(t, ctx, newTestClient(t, Options{}), post("http://"+r.addr, patient))
	if res.Outcome != outcome.Interrupted || res.Class != outcome.ClassRetryable {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
}

func TestABlockedAddressGetsNoConnection(t *testing.T) {
	r := listen(t, answer(ok))
	_, port, _ := net.SplitHostPort(r.addr)
	c := NewClient(Options{})
	defer c.Close()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "127.0.0.1."} {
		res := try(t, c, post("http://"+host+":"+port, patient))
		if res.Outcome != outcome.AddressBlocked || res.Class != outcome.ClassTerminal {
			t.Errorf("%s gives %s %s", host, res.Outcome, res.Err)
		}
	}
	if n := r.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestARefusedConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	if res := try(t, newTestClient(t, Options{}),
		post("http://"+addr, patient)); res.Outcome != outcome.ConnectionRefused {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
}

func TestANormalAnswerKeepsTheConnection(t *testing.T) {
	r := listen(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000)))
	c := newTestClient(t, Options{})
	for i := range 5 {
		res := try(t, c, post("http://"+r.addr, patient))
		if res.Outcome != outcome.Delivered || res.Reused != (i > 0) || res.RemoteAddr != r.addr {
			t.Errorf("attempt %d: %s, reused %v, remote %s", i, res.Outcome, res.Reused, res.RemoteAddr)
		}
		if (res.Connect > 0) != (i == 0) || res.FirstByte <= 0 {
			t.Errorf("attempt %d: connect %s, first byte %s", i, res.Connect, res.FirstByte)
		}
	}
	if n := r.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestTheZeroOptionsBlockThisMachine(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	if err := c.opts.Egress.CheckURL("http://127.0.0.1/"); err == nil {
		t.Error("loopback may be called")
	}
	if c.opts.Timeout != 10*time.Second || c.opts.MaxResponse != 64<<10 {
		t.Errorf("defaults are %s and %d bytes", c.opts.Timeout, c.opts.MaxResponse)
	}
	var none egress.Policy
	if len(none.Allowed()) != 0 {
		t.Error("the zero policy allows something")
	}
}
