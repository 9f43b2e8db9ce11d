package dispatcher

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/egress"
	"github.com/waybill-dev/waybill/internal/registry"
)

const (
	// maxTunnels is how many of a host's addresses are tried through a proxy.
	maxTunnels = 3
	// maxProxyAnswer bounds the proxy's answer to CONNECT.
	maxProxyAnswer = 8 << 10
)

// proxyError is a failure of the proxy, or on the way to it: it says nothing of
// the receiver, so it unwraps to nothing that is classified as the receiver's.
type proxyError struct {
	text string
	next bool // Another address of the receiver may work.
}

func (e *proxyError) Error() string { return e.text }

// tunnel reaches the receiver through the proxy. The receiver's addresses are
// checked before the proxy hears of it: with byName the proxy looks the name up
// once more, and what it finds then is up to the proxy's own rules.
func (d *dialer) tunnel(ctx context.Context, network, address string) (net.Conn, error) {
	targets, err := d.targets(ctx, address)
	if err != nil {
		return nil, err
	}
	for i, target := range targets {
		conn, err := d.throughProxy(ctx, network, target)
		var failed *proxyError
		if err == nil || i == len(targets)-1 || !errors.As(err, &failed) || !failed.next || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, &proxyError{text: "the receiver has no address"}
}

// targets are what the proxy may be asked for: checked addresses, or with
// byName the name, if all of its addresses may be called.
func (d *dialer) targets(ctx context.Context, address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if err := d.egress.Check(a); err != nil {
			return nil, err
		}
		return []string{address}, nil
	}
	resolver := d.resolver
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
		if err := d.egress.Check(a.Unmap()); err != nil {
			blocked = err
		} else if len(out) < maxTunnels {
			out = append(out, net.JoinHostPort(a.Unmap().String(), port))
		}
	}
	switch {
	case blocked != nil && (d.byName || len(out) == 0):
		return nil, blocked
	case d.byName:
		return []string{address}, nil
	}
	return out, nil
}

// throughProxy opens one tunnel.
func (d *dialer) throughProxy(ctx context.Context, network, target string) (_ net.Conn, err error) {
	raw, err := d.dial(ctx, network, net.JoinHostPort(d.proxy.Host, strconv.Itoa(int(d.proxy.Port))))
	if err != nil {
		return nil, reachingProxy(err)
	}
	if d.proxy.Secure {
		cfg := d.proxyTLS.Clone()
		cfg.ServerName = d.proxy.Host
		secure := tls.Client(raw, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, reachingProxy(&tlsError{err})
		}
		raw = secure
	}
	conn, err := d.own.add(&countingConn{Conn: raw})
	if err != nil {
		return nil, err
	}
	if err := d.ask(ctx, conn, target); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// ask makes the tunnel on a connection to the proxy. It ends with ctx.
func (d *dialer) ask(ctx context.Context, conn net.Conn, target string) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if d.proxy.User != "" || d.proxy.Password != "" {
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(d.proxy.User+":"+d.proxy.Password)))
	}
	if err := req.Write(conn); err != nil {
		stop()
		return reachingProxy(err)
	}
	r := bufio.NewReader(&boundedReader{conn, maxProxyAnswer})
	resp, err := http.ReadResponse(r, req)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		return reachingProxy(err)
	case resp.StatusCode/100 != 2:
		return &proxyError{text: fmt.Sprintf("the egress proxy answered %d to CONNECT", resp.StatusCode), next: resp.StatusCode >= 500}
	case r.Buffered() > 0:
		return &proxyError{text: "the egress proxy sent more than its answer to CONNECT"}
	}
	return conn.SetDeadline(time.Time{})
}

// ProxyOf is the proxy that requests over a connection go through, as it may be
// shown; empty: none.
func (c *Client) ProxyOf(via *registry.Connection) string {
	if via != nil && via.Proxy != "" {
		return via.Proxy
	}
	if c.opts.Proxy != nil {
		return c.opts.Proxy.Safe()
	}
	return ""
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
	var blocked *egress.BlockedError
	var dns *net.DNSError
	var handshake *tlsError
	text := "the egress proxy cannot be reached"
	switch {
	case errors.As(err, &blocked):
		text = "the egress proxy: " + blocked.Error()
	case errors.As(err, &dns):
		text = "the egress proxy: " + dnsText(dns)
	case errors.As(err, &handshake):
		text = "the egress proxy: TLS handshake failed: " + handshake.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "the egress proxy refused the connection"
	case isEOF(err) || isReset(err):
		text = "the egress proxy ended the connection"
	case isTimeout(err):
		text = "the egress proxy did not answer in time"
	case strings.Contains(err.Error(), "malformed"):
		text = "the egress proxy does not speak HTTP"
	}
	return &proxyError{text: text}
}
