package webhook

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
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
					t.Fatalf("got %s %s, again %v, after %d and %d requests", res.Outcome, res.Err, res.Again, newer.Load(),
						older.Load())
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
		{"https://a.example:8443/other", 0, true}, {"https://a.example:8443/x", http1For - 1, true},
		{"https://a.example:8443/x", http1For, false},
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
	for name, again := range map[string]bool{"closes the connection": true, "resets the connection": true,
		"closes it after a piece of reply": false} {
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
		if res := try(t, newTestClient(t, Options{}), post("http://"+r.addr, patient)); res.Again ||
			res.Outcome != outcome.ConnectionReset {
			t.Errorf("got %s %s, again %v", res.Outcome, res.Err, res.Again)
		}
	})
}

// A wrong answer of the DNS passes; an address in the URL does not.
func TestANameWithABlockedAddressIsToldFromSuchAnAddress(t *testing.T) {
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
}
