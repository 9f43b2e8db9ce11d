// Package egress decides which addresses Waybill may call. Everything that is
// not globally routable unicast is blocked, in any notation and any embedding,
// unless the operator allowed it by CIDR.
//
// The check that counts happens when a socket is about to connect, on the very
// address that it connects to (Policy.ControlContext). A check on names, or on
// an earlier DNS answer, can be outrun by a second answer.
package egress

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"syscall"
)

// Policy says which addresses may be called. The zero value blocks every special
// address. A Policy is immutable and safe for concurrent use.
type Policy struct {
	allow []netip.Prefix // IPv4 prefixes are never in mapped form.
	nat64 []netip.Prefix // Of the operator's translators.
}

// BlockedError says that an address may not be called, and why.
type BlockedError struct {
	Addr  netip.Addr // Invalid when the address could not even be read.
	Class string     // For example "loopback", "private", "metadata", "6to4_private".
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("address %s is %s and may not be called; to permit it, add its CIDR to --egress-allow", e.Addr,
		e.Class)
}

// ParseAllow builds a Policy from CIDRs ("10.20.0.0/16", "fd00:1::/48") and
// single addresses, which the operator permits although they are special.
func ParseAllow(cidrs []string) (Policy, error) {
	var p Policy
	for _, raw := range cidrs {
		s := strings.TrimSpace(raw)
		if s == "" {
			return Policy{}, fmt.Errorf("egress allow list: %q is empty; remove it or write a CIDR such as 10.20.0.0/16", raw)
		}
		prefix, err := parsePrefix(s)
		if err != nil {
			return Policy{}, err
		}
		p.allow = append(p.allow, prefix)
	}
	return p, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("egress allow list: %q is neither a CIDR nor an address; write it like "+
				"10.20.0.0/16 or fd00:1::/48", s)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("egress allow list: %q is not a CIDR (%w); write it like 10.20.0.0/16 or "+
			"fd00:1::/48", s, err)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("egress allow list: %q has bits set beyond its length; write %s, or the address "+
			"alone", s, p.Masked())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("egress allow list: %q covers more than IPv4; write the IPv4 CIDR instead", s)
		}
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), nil
	}
	return p, nil
}

// Allowed returns the CIDRs that the policy permits, in their canonical form.
func (p Policy) Allowed() []string {
	out := make([]string, len(p.allow))
	for i, a := range p.allow {
		out[i] = a.String()
	}
	return out
}

// shared parses the registry once; it never changes afterwards.
var shared = sync.OnceValue(newRegistry)

// Check returns a *BlockedError when the address may not be called, else nil.
func (p Policy) Check(a netip.Addr) error {
	if !a.IsValid() {
		return &BlockedError{Class: "invalid"}
	}
	if inner, ok := p.translated(a); ok {
		if class := shared().classify(inner); class != "" && !p.permits(inner) && !p.permits(a) {
			return &BlockedError{Addr: a, Class: "nat64_embedded_" + class}
		}
		return nil
	}
	class := shared().classify(a)
	if class == "" || class != "zone" && p.permits(a.Unmap()) {
		return nil
	}
	return &BlockedError{Addr: a, Class: class}
}

func (p Policy) permits(a netip.Addr) bool {
	for _, prefix := range p.allow {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// ControlContext checks the address that a socket is about to connect to; it is
// made for net.Dialer.ControlContext. The dialer calls it once per socket, after
// DNS, for each address that it tries, so neither a second DNS answer nor the
// race between IPv6 and IPv4 gets around it.
func (p Policy) ControlContext(_ context.Context, network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return &BlockedError{Class: "not_tcp"}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{Class: "unreadable"}
	}
	return p.Check(ap.Addr())
}
