package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxTunnels is how many of a host's addresses are tried through a proxy.
	maxTunnels = 3
	// maxProxyAnswer bounds the proxy's answer to CONNECT.
	maxProxyAnswer = 8 << 10
)

// ProxyError is a failure of the proxy, or on the way to it: it says nothing of
// the server behind it, so it unwraps to nothing that could be taken for the
// server's.
type ProxyError struct {
	text string
	next bool // Another address of the server may work.
}

func (e *ProxyError) Error() string { return e.text }

// OfTarget says that the proxy answered that it could not reach the server, which
// is a word about the server after all.
func (e *ProxyError) OfTarget() bool { return e.next }

// Tunnel makes connections through a proxy. All fields are required unless
// marked Optional.
type Tunnel struct {
	Policy   Policy
	Proxy    Proxy
	ByName   bool          // Give the proxy names rather than addresses.
	Resolver *net.Resolver // Optional: default net.DefaultResolver.
	TLS      *tls.Config   // to an https:// proxy; its ServerName is set here
	// Dial connects to the proxy. It MUST hold to the policy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Wrap gets each connection to the proxy before anything is asked of it. Optional.
	Wrap func(net.Conn) (net.Conn, error)
	// ServerFirst is for protocols in which the server speaks first, such as SMTP:
	// its words may come together with the proxy's answer. Otherwise bytes after
	// that answer are the proxy's own, and an error. Optional.
	ServerFirst bool
}

// DialContext reaches a server through the proxy. The server's addresses are
// checked before the proxy hears of it: with ByName the proxy looks the name up
// once more, and what it finds then is up to the proxy's own rules.
func (t *Tunnel) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	targets, err := t.targets(ctx, address)
	if err != nil {
		return nil, err
	}
	for i, target := range targets {
		conn, err := t.through(ctx, network, target)
		var failed *ProxyError
		if err == nil || i == len(targets)-1 || !errors.As(err, &failed) || !failed.next || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, &ProxyError{text: "the receiver has no address"}
}

// targets are what the proxy may be asked for: checked addresses, or with
// ByName the name, if all of its addresses may be called.
func (t *Tunnel) targets(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if err := t.Policy.Check(a); err != nil {
			return nil, err
		}
		return []string{address}, nil
	}
	resolver := t.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var out []string
	var blocked error
	for _, a := range found {
		if err := t.Policy.Check(a.Unmap()); err != nil {
			blocked = err
		} else if len(out) < maxTunnels {
			out = append(out, net.JoinHostPort(a.Unmap().String(), port))
		}
	}
	switch {
	case blocked != nil && (t.ByName || len(out) == 0):
		return nil, blocked
	case t.ByName:
		return []string{address}, nil
	}
	return out, nil
}

// through opens one tunnel.
func (t *Tunnel) through(ctx context.Context, network, target string) (net.Conn, error) {
	conn, err := t.Dial(ctx, network, net.JoinHostPort(t.Proxy.Host, strconv.Itoa(int(t.Proxy.Port))))
	if err != nil {
		return nil, reachingProxy(err)
	}
	if t.Proxy.Secure {
		cfg := t.TLS.Clone()
		cfg.ServerName = t.Proxy.Host
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, &ProxyError{text: "the egress proxy: TLS handshake failed: " + err.Error()}
		}
		conn = secure
	}
	if t.Wrap != nil {
		if conn, err = t.Wrap(conn); err != nil {
			return nil, err
		}
	}
	early, err := t.ask(ctx, conn, target)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if len(early) > 0 {
		return &earlyConn{conn, io.MultiReader(bytes.NewReader(early), conn)}, nil
	}
	return conn, nil
}

// earlyConn has bytes that came before anybody asked for them.
type earlyConn struct {
	net.Conn
	r io.Reader
}

func (c *earlyConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// ask makes the tunnel on a connection to the proxy, and returns what the server
// has said by then. It ends with ctx.
func (t *Tunnel) ask(ctx context.Context, conn net.Conn, target string) (early []byte, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if t.Proxy.User != "" || t.Proxy.Password != "" {
		req.Header.Set("Proxy-Authorization", "Basic "+
			base64.StdEncoding.EncodeToString([]byte(t.Proxy.User+":"+t.Proxy.Password)))
	}
	if err := req.Write(conn); err != nil {
		stop()
		return nil, reachingProxy(err)
	}
	r := bufio.NewReader(&boundedReader{conn, maxProxyAnswer})
	resp, err := http.ReadResponse(r, req)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, reachingProxy(err)
	case resp.StatusCode/100 != 2:
		return nil, &ProxyError{text: fmt.Sprintf("the egress proxy answered %d to CONNECT", resp.StatusCode),
			next: resp.StatusCode >= 500}
	case r.Buffered() > 0 && !t.ServerFirst:
		return nil, &ProxyError{text: "the egress proxy sent more than its answer to CONNECT"}
	}
	if early, err = r.Peek(r.Buffered()); err != nil {
		return nil, reachingProxy(err)
	}
	return early, conn.SetDeadline(time.Time{})
}

// boundedReader fails after so many bytes: a proxy's answer is short.
type boundedReader struct {
	net.Conn
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("its answer is too long")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func reachingProxy(err error) error {
	var blocked *BlockedError
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	text := "the egress proxy cannot be reached"
	switch {
	case errors.As(err, &blocked):
		text = "the egress proxy: " + blocked.Error()
	case errors.As(err, &dns):
		text = "the egress proxy: " + dnsText(dns)
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "the egress proxy refused the connection"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		text = "the egress proxy ended the connection"
	case errors.As(err, &timeout) && timeout.Timeout():
		text = "the egress proxy did not answer in time"
	case strings.Contains(err.Error(), "malformed"):
		text = "the egress proxy does not speak HTTP"
	}
	return &ProxyError{text: text}
}

func dnsText(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "DNS: no such host: " + e.Name
	case e.IsTimeout:
		return "DNS: no answer in time for " + e.Name
	}
	return "DNS: " + e.Err + ": " + e.Name
}
