package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// nat64Bytes says where RFC 6052, section 2.2, puts the bytes of an IPv4 address
// behind a prefix of so many bits. Byte 8 is always zero, so it is stepped over.
func nat64Bytes(bits int) (at [4]int, ok bool) {
	switch bits {
	case 32:
		return [4]int{4, 5, 6, 7}, true
	case 40:
		return [4]int{5, 6, 7, 9}, true
	case 48:
		return [4]int{6, 7, 9, 10}, true
	case 56:
		return [4]int{7, 9, 10, 11}, true
	case 64:
		return [4]int{9, 10, 11, 12}, true
	case 96:
		return [4]int{12, 13, 14, 15}, true
	}
	return at, false
}

// WithNAT64 is the policy of a network whose translators use these prefixes,
// besides the well-known 64:ff9b::/96: an address behind one is what the IPv4
// address in it is. Without them such an address looks like any public one.
func (p Policy) WithNAT64(prefixes []string) (Policy, error) {
	out := Policy{allow: p.allow}
	for _, raw := range prefixes {
		s := strings.TrimSpace(raw)
		prefix, err := netip.ParsePrefix(s)
		if err != nil || !prefix.Addr().Is6() || prefix.Addr().Is4In6() {
			return Policy{}, fmt.Errorf("NAT64 prefix: %q is not an IPv6 CIDR; write it like 2001:db8:64::/96", raw)
		}
		if _, ok := nat64Bytes(prefix.Bits()); !ok {
			return Policy{}, fmt.Errorf("NAT64 prefix: %q has %d bits; RFC 6052 knows 32, 40, 48, 56, 64 and 96", raw,
				prefix.Bits())
		}
		if prefix != prefix.Masked() {
			return Policy{}, fmt.Errorf("NAT64 prefix: %q has bits set beyond its length; write %s", raw, prefix.Masked())
		}
		out.nat64 = append(out.nat64, prefix)
	}
	return out, nil
}

// NAT64 returns the prefixes in their canonical form.
func (p Policy) NAT64() []string {
	out := make([]string, len(p.nat64))
	for i, n := range p.nat64 {
		out[i] = n.String()
	}
	return out
}

// translated is the IPv4 address that a translator of ours would call for a. The
// longest prefix decides, as in a routing table.
func (p Policy) translated(a netip.Addr) (inner netip.Addr, ok bool) {
	best := -1
	for _, prefix := range p.nat64 {
		if prefix.Contains(a) && prefix.Bits() > best {
			best = prefix.Bits()
		}
	}
	at, ok := nat64Bytes(best)
	if !ok {
		return inner, false
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte{b[at[0]], b[at[1]], b[at[2]], b[at[3]]}), true
}
