package webhook

import (
	"context"
	"net"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/registry"
)

// tunnel reaches the receiver through the proxy.
func (d *dialer) tunnel(ctx context.Context, network, address string) (net.Conn, error) {
	t := egress.Tunnel{Policy: d.egress, Proxy: *d.proxy, ByName: d.byName, Resolver: d.resolver, TLS: d.proxyTLS,
		Dial: d.dial,
		Wrap: func(c net.Conn) (net.Conn, error) { return d.own.add(&countingConn{Conn: c}) }}
	return t.DialContext(ctx, network, address)
}

// proxyOf is the proxy that requests over a connection go through, as it may be
// shown; empty: none.
func (c *Client) proxyOf(via *registry.Connection) string {
	if via != nil && via.Proxy != "" {
		return via.Proxy
	}
	if c.opts.Proxy != nil {
		return c.opts.Proxy.Safe()
	}
	return ""
}
