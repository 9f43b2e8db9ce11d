package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/registry"
)

// onceBody is a request body that cannot be rewound; see Client.newPost.
type onceBody struct{ r *bytes.Reader }

func newOnceBody(b []byte) io.ReadCloser { return &onceBody{bytes.NewReader(b)} }

func (b *onceBody) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b *onceBody) Close() error               { return nil }

// countingConn counts what passes the socket, so that "nothing of the request was
// sent" and "the answer came before the request" are facts about the socket and
// not about a buffer.
type countingConn struct {
	net.Conn
	own     *connections // That it is one of; nil: of none.
	offered atomic.Int64 // Bytes handed to the kernel, counted before it could act on them.
	written atomic.Int64 // Bytes that the kernel took.
	read    atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.offered.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// Close closes the connection for good, whoever holds it.
func (c *countingConn) Close() error {
	c.own.remove(c)
	return c.Conn.Close()
}

// counter finds the counting connection under a connection that net/http reports.
func counter(conn net.Conn) *countingConn {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	c, _ := conn.(*countingConn)
	return c
}

// tlsError marks a failed handshake: the attempt got a connection, not a session.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// newTransport makes the connections of one identity: via is nil for those of
// every endpoint that has none of its own. own, if any, knows them all. http1
// makes connections that speak HTTP/1.1 alone.
func newTransport(o Options, via *registry.Connection, own *connections, http1 bool) (*http.Transport, error) {
	d := &dialer{
		egress:   o.Egress,
		resolver: o.Resolver,
		own:      own,
		byName:   o.ProxyNames,
		proxy:    o.Proxy,
		proxyTLS: &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		tls:      &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if protocols.SetHTTP2(!http1); http1 {
		d.tls.NextProtos = []string{"http/1.1"}
	}
	if via != nil {
		if err := d.become(via); err != nil {
			return nil, err
		}
	}
	return &http.Transport{
		Proxy:                  nil, // A proxy from the environment would connect on our behalf, past the egress check.
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		Protocols:              protocols, // Custom dialers turn HTTP/2 off otherwise.
		DisableCompression:     true,      // Never decompress what a stranger sends.
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: o.MaxHeader,
		// A receiver whose HTTP/2 connection went silent would otherwise time out
		// attempt after attempt on that connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}, nil
}

// dialer makes connections that passed the egress check.
type dialer struct {
	egress      egress.Policy
	resolver    *net.Resolver
	tls         *tls.Config
	certificate *tls.Certificate // Presented by every connection, or none is made. nil: none.
	proxy       *egress.Proxy    // nil: none
	proxyTLS    *tls.Config
	byName      bool         // Give the proxy names rather than addresses.
	own         *connections // nil: nobody asks.
}

// become takes an endpoint's identity. Its issuers are trusted besides the
// system's; its server certificates are verified as everybody's.
func (d *dialer) become(via *registry.Connection) error {
	d.certificate = via.Certificate
	if via.Proxy != "" {
		p, err := egress.ParseProxy(via.Proxy, false)
		if err != nil {
			return fmt.Errorf("egress proxy: %w", err)
		}
		d.proxy = &p
	}
	if len(via.CAs) == 0 {
		return nil
	}
	roots := d.tls.RootCAs
	if roots == nil {
		var err error
		if roots, err = x509.SystemCertPool(); err != nil {
			return fmt.Errorf("the system's certificates: %w", err)
		}
	}
	roots = roots.Clone()
	for _, ca := range via.CAs {
		roots.AddCert(ca)
	}
	d.tls = d.tls.Clone()
	d.tls.RootCAs = roots
	return nil
}

var (
	errPlainWithCertificate = errors.New("the endpoint has a client certificate, which http:// cannot present")
	errCertificateNotAsked  = errors.New("the receiver did not ask for the client certificate, and nothing is sent " +
		"without it")
)

// plain connects. net/http detaches dials from the request that asked for them,
// so that they could go on for ever; the exchange in ctx ends them with the
// attempt's time.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
	if d.certificate != nil {
		return nil, errPlainWithCertificate
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	return d.connect(ctx, network, address)
}

func (d *dialer) secure(ctx context.Context, network, address string) (net.Conn, error) {
	x := exchangeOf(ctx)
	ctx, cancel := bound(ctx)
	defer cancel()
	raw, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = strings.TrimSuffix(host, ".") // Certificates name hosts without it.
	presented := d.present(cfg)
	conn := tls.Client(raw, cfg)
	x.begin(&x.tls)
	err = conn.HandshakeContext(ctx)
	x.end(&x.tls)
	if err == nil && !presented() {
		err = errCertificateNotAsked
	}
	if err != nil {
		_ = raw.Close()
		return nil, &tlsError{err}
	}
	return conn, nil
}

// present makes a handshake present the client certificate. The result says,
// after the handshake, whether it was: a server that does not ask for one would
// get the request from just anybody.
func (d *dialer) present(cfg *tls.Config) func() bool {
	if d.certificate == nil {
		return func() bool { return true }
	}
	asked := false
	// Unlike Config.Certificates this presents it also to a server that names
	// other issuers: refusing is the server's part, sending none is not ours.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return d.certificate, nil
	}
	return func() bool { return asked }
}

// connect reaches the receiver, through the proxy if there is one.
func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if d.proxy != nil {
		return d.tunnel(ctx, network, address)
	}
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.own.add(&countingConn{Conn: raw})
}

// dial connects to an address that may be called.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var allowed atomic.Int64 // Addresses are tried concurrently.
	nd := net.Dialer{
		Resolver:  d.resolver,
		KeepAlive: 15 * time.Second,
		ControlContext: func(ctx context.Context, network, address string, c syscall.RawConn) error {
			err := d.egress.ControlContext(ctx, network, address, c)
			if err == nil {
				allowed.Add(1)
			}
			return err
		},
	}
	conn, err := nd.DialContext(ctx, network, address)
	if err != nil {
		// The dialer returns the first error only. A name with an address that may
		// be called and failed is worth another attempt, whatever its others are.
		var blocked *egress.BlockedError
		if errors.As(err, &blocked) && allowed.Load() > 0 {
			return nil, errors.New("no permitted address of the host could be connected to")
		}
		return nil, err
	}
	return conn, nil
}

// bound ends a dial with the attempt that started it.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, exchangeOf(ctx).limit, errAttemptTimeout)
}
