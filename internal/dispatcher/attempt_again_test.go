package dispatcher

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/outcome"
	"github.com/waybill-dev/waybill/internal/registry"
)

const codeHTTP11Required = 0xd

// A receiver that takes HTTP/2 and then asks for HTTP/1.1 gets it from the next
// attempt on. The request that it refused stays one attempt.
func TestAReceiverThatAsksForHTTP11GetsIt(t *testing.T) {
	ends := map[string]func(net.Conn, uint32) bool{
		"for the stream": func(c net.Conn, stream uint32) bool {
			c.Write(frame(frameReset, 0, stream, uint32s(codeHTTP11Required)))
			return true
		},
		"for the connection": func(c net.Conn, _ uint32) bool {
			c.Write(frame(frameGoAway, 0, 0, uint32s(0, codeHTTP11Required)))
			return false
		},
	}
	for name, end := range ends {
		for whose, own := range map[string]bool{"as everybody connects": false, "over its own connection": true} {
			t.Run(name+", "+whose, func(t *testing.T) {
				s, o := newTLS(t, false, http.NotFoundHandler())
				cfg := &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
				var newer, older atomic.Int64
				r := listen(t, func(p *peer) {
					c := tls.Server(p.Conn, cfg)
					defer c.Close()
					switch {
					case c.HandshakeContext(t.Context()) != nil:
					case c.ConnectionState().NegotiatedProtocol == "h2":
						serveH2(c, false, &newer, end)
					default:
						in := bufio.NewReader(c)
						for {
							req, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							older.Add(1)
							_, _ = io.Copy(io.Discard, req.Body)
							_, _ = io.WriteString(c, ok)
						}
					}
				})
				c := newTestClient(t, o)
				req := post("https://"+r.addr, patient)
				if own {
					req.Owner, req.Connection = "ep_1", &registry.Connection{ID: "1", CAs: []*x509.Certificate{s.Certificate()}}
				}
				res := try(t, c, req)
				if res.Outcome != outcome.ConnectionReset || !res.Again || newer.Load() != 1 || older.Load() != 0 {
					t.Fatalf("got %s %s, again %v, after %d and %d requests", res.Outcome, res.Err, res.Again, newer.Load(), older.Load())
				}
				for range 2 {
					if res := try(t, c, req); res.Outcome != outcome.Delivered || res.HTTPVersion != "1.1" {
						t.Fatalf("the next attempt gives %s %s over %s", res.Outcome, res.Err, res.HTTPVersion)
					}
				}
				if newer.Load() != 1 || older.Load() != 2 {
					t.Errorf("three attempts made %d and %d requests", newer.Load(), older.Load())
				}
			})
		}
	}
}

func TestHTTP2IsOfferedAgainAfterAWhile(t *testing.T) {
	var h http1Hosts
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	h.add("https://A.example:8443/x?y", now)
	for _, c := range []struct {
		url   string
		after time.Duration
		want  bool
	}{
		{"https://a.example:8443/other", 0, true}, {"https://a.example:8443/x", http1For - 1, true}, {"https://a.example:8443/x", http1For, false},
		{"https://a.example/x", 0, false}, {"http://a.example:8443/x", 0, false}, {"https://b.example:8443/x", 0, false},
	} {
		if got := h.has(c.url, now.Add(c.after)); got != c.want {
			t.Errorf("%s after %s: %v", c.url, c.after, got)
		}
	}
}

// A connection that had served before and ends without a byte of an answer says
// nothing of the receiver; one that ends within an answer does, and so does a new one.
func TestOnlyAStaleConnectionIsWorthAnAttemptAtOnce(t *testing.T) {
	for name, again := range map[string]bool{"closes the connection": true, "resets the connection": true, "closes it after a piece of reply": false} {
		t.Run(name, func(t *testing.T) {
			r := listen(t, breaks()[name])
			c := newTestClient(t, Options{})
			if res := try(t, c, post("http://"+r.addr, patient)); res.Outcome != outcome.Delivered {
				t.Fatalf("the first attempt gives %s %s", res.Outcome, res.Err)
			}
			if res := try(t, c, post("http://"+r.addr, patient)); res.Again != again || !res.Reused {
				t.Errorf("got %s %s, again %v, reused %v", res.Outcome, res.Err, res.Again, res.Reused)
			}
		})
	}
	t.Run("a new connection", func(t *testing.T) {
		r := listen(t, func(p *peer) { p.read() })
		if res := try(t, newTestClient(t, Options{}), post("http://"+r.addr, patient)); res.Again || res.Outcome != outcome.ConnectionReset {
			t.Errorf("got %s %s, again %v", res.Outcome, res.Err, res.Again)
		}
	})
}

func TestAnAttemptIsMadeAgainAtOnceOnlyOnceInARow(t *testing.T) {
	b := standardBudget()
	now := owed().Add(time.Second)
	stale := Facts{Outcome: outcome.ConnectionReset, Again: true}
	if d := Decide(stale, 0, b, now, half); !stale.Free() || stale.AboutReceiver() || d.Verdict != outcome.VerdictRetry || !d.RetryAt.Equal(now) || !d.Repeat {
		t.Errorf("the first one: %+v", d)
	}
	stale.Repeated = true
	if d := Decide(stale, 1, b, now, half); stale.Free() || !stale.AboutReceiver() || d.Repeat || d.RetryAt.Sub(now) < 5*time.Second {
		t.Errorf("the second one: %+v", d)
	}
	stale.Repeated = false
	if d := Decide(stale, 0, b, owed().Add(40*time.Hour), half); d.Verdict != outcome.VerdictDeadLetter {
		t.Errorf("when the time is over: %+v", d)
	}
}

// A wrong answer of the DNS passes; an address in the URL does not.
func TestANameWithABlockedAddressIsTriedAgainUntilTheBudgetEnds(t *testing.T) {
	resolver := nameserver(t, func(int64) []netip.Addr { return addrs("10.1.2.3") })
	c := newTestClient(t, Options{Resolver: resolver})
	named := try(t, c, post("http://split.example.com:8080/", patient))
	if named.Outcome != outcome.AddressBlocked || named.Class != outcome.ClassRetryable || !named.ByName {
		t.Errorf("a name: %s, %s, by name %v", named.Outcome, named.Class, named.ByName)
	}
	literal := try(t, c, post("http://10.1.2.3:8080/", patient))
	if literal.Outcome != outcome.AddressBlocked || literal.Class != outcome.ClassTerminal || literal.ByName {
		t.Errorf("an address: %s, %s, by name %v", literal.Outcome, literal.Class, literal.ByName)
	}
	b := standardBudget()
	if d := Decide(named.Facts(), 1, b, owed().Add(time.Second), half); d.Verdict != outcome.VerdictRetry {
		t.Errorf("a name: %+v", d)
	}
	for _, at := range []time.Duration{time.Hour, 40 * time.Hour} {
		if d := Decide(named.Facts(), 8, b, owed().Add(at), half); d.Reason != outcome.ReasonAddressBlocked || !strings.Contains(d.Why, "also at the last attempt") {
			t.Errorf("a name, at the end: %+v", d)
		}
	}
	if d := Decide(literal.Facts(), 1, b, owed().Add(time.Second), half); d.Reason != outcome.ReasonAddressBlocked {
		t.Errorf("an address: %+v", d)
	}
}
