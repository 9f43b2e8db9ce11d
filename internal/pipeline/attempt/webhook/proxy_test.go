package webhook

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/test/testkit"
)

// connectProxy is a real CONNECT proxy. It goes where it was asked to, or where
// route says.
type connectProxy struct {
	addr string

	mu    sync.Mutex
	asked []string // "target authorization"
}

func newConnectProxy(t *testing.T, certificate *tls.Certificate,
	route func(target string) (string, string)) *connectProxy {
	t.Helper()
	p := &connectProxy{}
	r := listen(t, func(c *peer) {
		var conn net.Conn = c.Conn
		br := c.br
		if certificate != nil {
			conn = tls.Server(&bufferedConn{c.Conn, c.br}, &tls.Config{Certificates: []tls.Certificate{*certificate}})
			br = bufio.NewReader(conn)
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.asked = append(p.asked, strings.TrimSpace(req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization")))
		p.mu.Unlock()
		to, refusal := req.Host, ""
		if route != nil {
			to, refusal = route(req.Host)
		}
		if refusal != "" {
			_, _ = io.WriteString(conn, refusal)
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\n\r\n")
			return
		}
		defer out.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(out, br); _ = out.(*net.TCPConn).CloseWrite() })
		both.Go(func() { _, _ = io.Copy(conn, out); _ = conn.Close() })
		both.Wait()
	})
	p.addr = r.addr
	return p
}

type bufferedConn struct {
	net.Conn
	r io.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.r.Read(p) }

func (p *connectProxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func proxyAt(t *testing.T, url string) *egress.Proxy {
	t.Helper()
	p, err := egress.ParseProxy(url, true)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestRequestsGoThroughTheProxyInATunnel(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	client := ca.Client("good", in(time.Hour))
	r := newSecure(t, ca.Server(in(time.Hour)), func(c *tls.Config) {
		c.ClientAuth,
			c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	})
	plain := listen(t, answer(ok))
	host := strings.TrimPrefix(r.URL, "https://")
	cert := ca.Server(in(time.Hour)).TLS(t)
	for name, secure := range map[string]bool{"http proxy": false, "https proxy": true} {
		t.Run(name, func(t *testing.T) {
			scheme, c := "http", (*tls.Certificate)(nil)
			if secure {
				scheme, c = "https", &cert
			}
			p := newConnectProxy(t, c, nil)
			cl := newTestClient(t, Options{RootCAs: ca.Pool(), Proxy: proxyAt(t, scheme+"://ann:s%40crt@"+p.addr)})
			for i := range 2 {
				res := try(t, cl, r.post(as(t, "ep_1", "1", ca, &client)))
				if res.Outcome != outcome.Delivered || res.Excerpt != "good" || res.RemoteAddr != p.addr || res.Reused != (i > 0) {
					t.Errorf("attempt %d: %s (%s) %q by %s, reused %t", i, res.Outcome, res.Err, res.Excerpt, res.RemoteAddr,
						res.Reused)
				}
			}
			if res := try(t, cl, post("http://"+plain.addr+"/x", patient)); res.Outcome != outcome.Delivered {
				t.Errorf("%s %s", res.Outcome, res.Err)
			}
			want := fmt.Sprintf("[CONNECT %s Basic YW5uOnNAY3J0 CONNECT %s Basic YW5uOnNAY3J0]", host, plain.addr)
			if got := fmt.Sprint(p.requests()); got != want {
				t.Errorf("the proxy was asked %s\nwant %s", got, want)
			}
		})
	}
}

func TestAProxyThatFailsIsNoFailureOfTheReceiver(t *testing.T) {
	silent := func(string) (string, string) { return "", "" }
	for name, tt := range map[string]struct {
		route func(string) (string, string)
		text  string
	}{
		"it wants a password":   {func(string) (string, string) { return "", "HTTP/1.1 407 Auth\r\n\r\n" }, "answered 407"},
		"it forbids the target": {func(string) (string, string) { return "", "HTTP/1.1 403 No\r\n\r\n" }, "answered 403"},
		"it cannot connect":     {func(string) (string, string) { return "127.0.0.1:1", "" }, "answered 502"},
		"it redirects": {func(string) (string, string) {
			return "",
				"HTTP/1.1 302 X\r\nLocation: http://x/\r\n\r\n"
		}, "answered 302"},
		"it speaks no HTTP": {func(string) (string, string) { return "", "SSH-2.0-x\r\n\r\n" }, "does not speak HTTP"},
		"it answers too much": {func(string) (string, string) {
			return "", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 20_000) + "\r\n\r\n"
		}, "egress proxy"},
		"it injects bytes": {func(string) (string, string) { return "", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" },
			"more than its answer"},
		"it hangs up": {silent, "egress proxy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newConnectProxy(t, nil, tt.route)
			c := newTestClient(t, Options{Proxy: proxyAt(t, "http://"+p.addr)})
			res := try(t, c, post("http://127.0.0.1:9/x", patient))
			want := outcome.NotSent
			if name == "it cannot connect" || name == "it hangs up" { // this one answers 502 as well
				want = outcome.ConnectionFailed
			}
			if res.Outcome != want || res.Fault != (want == outcome.NotSent) || !strings.Contains(res.Err, tt.text) ||
				res.GotResponse {
				t.Errorf("got %s %s, want %q", res.Outcome, res.Err, tt.text)
			}
		})
	}
	t.Run("it is not there", func(t *testing.T) {
		c := newTestClient(t, Options{Proxy: proxyAt(t, "http://127.0.0.1:1")})
		if res := try(t, c, post("http://127.0.0.1:9/x", patient)); res.Outcome != outcome.NotSent || !res.Fault ||
			!strings.Contains(res.Err, "refused") {
			t.Errorf("got %s %s", res.Outcome, res.Err)
		}
	})
	t.Run("it never answers", func(t *testing.T) {
		r := listen(t, func(p *peer) { p.hold() })
		c := newTestClient(t, Options{Proxy: proxyAt(t, "http://"+r.addr)})
		if res := try(t, c, post("http://127.0.0.1:9/x", quick)); res.Outcome != outcome.Timeout {
			t.Errorf("got %s %s", res.Outcome, res.Err)
		}
	})
}

// resolverOf answers every question for an A record with these addresses.
func resolverOf(t *testing.T, addrs ...string) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		go answerDNS(there, addrs)
		return here, nil
	}}
}

// answerDNS speaks DNS over a stream: a length of two bytes, then the message.
func answerDNS(c net.Conn, addrs []string) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, int(size[0])<<8|int(size[1]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		end := 12
		for q[end] != 0 {
			end += int(q[end]) + 1
		}
		kind := q[end+2]
		question := q[12 : end+5]
		var records []byte
		n := 0
		if kind == 1 { // A
			for _, a := range addrs {
				ip := net.ParseIP(a).To4()
				records = append(records, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				records = append(records, ip...)
				n++
			}
		}
		m := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(n), 0, 0, 0, 0}, question...)
		m = append(m, records...)
		if _, err := c.Write(append([]byte{byte(len(m) >> 8), byte(len(m))}, m...)); err != nil {
			return
		}
	}
}

func TestTheTargetIsCheckedBeforeTheProxyHearsOfIt(t *testing.T) {
	plain := listen(t, answer(ok))
	_, port, _ := net.SplitHostPort(plain.addr)
	for name, tt := range map[string]struct {
		addrs   []string
		host    string
		names   bool
		outcome outcome.Outcome
		asked   string
	}{
		"an address that is blocked": {nil, "10.0.0.1", false, outcome.AddressBlocked, ""},
		"the metadata address":       {nil, "169.254.169.254", true, outcome.AddressBlocked, ""},
		"a name with a blocked address": {[]string{"10.0.0.1"}, "hooks.example.com", false,
			outcome.AddressBlocked, ""},
		"a name with a blocked address, by name": {[]string{"10.0.0.1"}, "hooks.example.com", true,
			outcome.AddressBlocked, ""},
		"one of two is blocked: the other is asked for": {[]string{"10.0.0.1", "127.0.0.1"}, "hooks.example.com", false,
			outcome.Delivered, "CONNECT 127.0.0.1:" + port},
		"one of two is blocked, by name": {[]string{"127.0.0.1", "10.0.0.1"}, "hooks.example.com", true,
			outcome.AddressBlocked, ""},
		"a name becomes the address that was checked": {[]string{"127.0.0.1"}, "hooks.example.com", false,
			outcome.Delivered, "CONNECT 127.0.0.1:" + port},
		"a name stays one where the proxy filters": {[]string{"127.0.0.1"}, "hooks.example.com", true, outcome.Delivered,
			"CONNECT hooks.example.com:" + port},
		"a name without an address": {nil, "hooks.example.com", true, outcome.DNSFailure, ""},
		"a second address after one that fails": {[]string{"127.0.0.9", "127.0.0.1"}, "hooks.example.com", false,
			outcome.Delivered,
			"CONNECT 127.0.0.9:" + port + " CONNECT 127.0.0.1:" + port},
	} {
		t.Run(name, func(t *testing.T) {
			p := newConnectProxy(t, nil, func(target string) (string, string) {
				if strings.HasPrefix(target, "127.0.0.9") {
					return "", "HTTP/1.1 504 Gateway Timeout\r\n\r\n"
				}
				return plain.addr, ""
			})
			c := newTestClient(t, Options{Proxy: proxyAt(t, "http://"+p.addr), ProxyNames: tt.names,
				Resolver: resolverOf(t, tt.addrs...)})
			res := try(t, c, post("http://"+tt.host+":"+port+"/x", patient))
			if res.Outcome != tt.outcome || strings.Join(p.requests(), " ") != tt.asked {
				t.Errorf("got %s (%s), the proxy was asked %q, want %s and %q", res.Outcome, res.Err, p.requests(), tt.outcome,
					tt.asked)
			}
		})
	}
}

func TestAProxyOnAnAddressThatMayNotBeCalledIsNot(t *testing.T) {
	policy, err := egress.ParseAllow([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(Options{Egress: policy, Proxy: proxyAt(t, "http://127.0.0.2:3128")})
	t.Cleanup(c.Close)
	// Retryable: that the proxy is out of reach says nothing of the delivery.
	if res := try(t, c, post("http://127.0.0.1:9/", patient)); res.Outcome != outcome.NotSent || !res.Fault ||
		!strings.Contains(res.Err, "--egress-allow") {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
}
