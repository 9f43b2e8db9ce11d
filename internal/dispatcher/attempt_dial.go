package dispatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/egress"
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

func newTransport(o Options) *http.Transport {
	d := &dialer{
		egress:   o.Egress,
		resolver: o.Resolver,
		tls:      &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	return &http.Transport{
		Proxy:                  nil, // A proxy from the environment would connect on our behalf, past the egress check.
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		ForceAttemptHTTP2:      true, // Custom dialers turn it off otherwise.
		DisableCompression:     true, // Never decompress what a stranger sends.
		MaxIdleConns:           0,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: o.MaxHeader,
		// A receiver whose HTTP/2 connection went silent would otherwise time out
		// attempt after attempt on that connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// dialer makes connections that passed the egress check.
type dialer struct {
	egress   egress.Policy
	resolver *net.Resolver
	tls      *tls.Config
}

// plain connects. net/http detaches dials from the request that asked for them,
// so that they could go on for ever; the exchange in ctx ends them with the
// attempt's time.
func (d *dialer) plain(ctx context.Context, network, address string) (net.Conn, error) {
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
	conn := tls.Client(raw, cfg)
	x.begin(&x.tls)
	err = conn.HandshakeContext(ctx)
	x.end(&x.tls)
	if err != nil {
		_ = raw.Close()
		return nil, &tlsError{err}
	}
	return conn, nil
}

func (d *dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
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
	return &countingConn{Conn: conn}, nil
}

// bound ends a dial with the attempt that started it.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(ctx, exchangeOf(ctx).limit, errAttemptTimeout)
}
