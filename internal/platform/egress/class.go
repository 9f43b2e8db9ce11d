package egress

import "net/netip"

// special lists the blocks that are not ordinary public unicast, from the IANA
// special-purpose address registries (IPv4 and IPv6) and the multicast and
// reserved spaces, plus the addresses at which clouds serve credentials. The
// first match decides, so narrower blocks come first.
//
// Blocks that IANA calls globally reachable but that are infrastructure (AS112,
// AMT, PCP and TURN anycast) are in the list too: no receiver lives there.
func specialV4() []block {
	return []block{
		{"169.254.169.254/32", "metadata"}, // AWS, GCP, Azure, Oracle, DigitalOcean …
		{"169.254.170.2/32", "metadata"},   // AWS ECS task credentials
		{"169.254.170.23/32", "metadata"},  // AWS EKS pod identity
		{"100.100.100.200/32", "metadata"}, // Alibaba Cloud
		{"168.63.129.16/32", "metadata"},   // Azure wire server, in public space
		{"192.0.0.192/32", "metadata"},     // Oracle Cloud Classic
		{"0.0.0.0/32", "unspecified"},
		{"0.0.0.0/8", "this_network"},
		{"10.0.0.0/8", "private"},
		{"100.64.0.0/10", "cgnat"},
		{"127.0.0.0/8", "loopback"},
		{"169.254.0.0/16", "link_local"},
		{"172.16.0.0/12", "private"},
		{"192.0.0.0/24", "ietf_protocol"},
		{"192.0.2.0/24", "documentation"},
		{"192.31.196.0/24", "as112"},
		{"192.52.193.0/24", "amt"},
		{"192.88.99.0/24", "6to4_relay"},
		{"192.168.0.0/16", "private"},
		{"192.175.48.0/24", "as112"},
		{"198.18.0.0/15", "benchmark"},
		{"198.51.100.0/24", "documentation"},
		{"203.0.113.0/24", "documentation"},
		{"224.0.0.0/4", "multicast"},
		{"255.255.255.255/32", "broadcast"},
		{"240.0.0.0/4", "reserved"},
	}
}

func specialV6() []block {
	return []block{
		{"fd00:ec2::254/128", "metadata"}, // AWS
		{"fd00:ec2::23/128", "metadata"},  // AWS EKS pod identity
		{"fd20:ce::254/128", "metadata"},  // GCP
		{"::/128", "unspecified"},
		{"::1/128", "loopback"},
		{"::ffff:0:0:0/96", "ipv4_translated"},
		{"64:ff9b:1::/48", "nat64_local"},
		{"100::/64", "discard"},
		{"100:0:0:1::/64", "dummy"},
		{"2001:2::/48", "benchmark"},
		{"2001:3::/32", "amt"},
		{"2001:4:112::/48", "as112"},
		{"2001:10::/28", "orchid"},
		{"2001:20::/28", "orchid"},
		{"2001:30::/28", "drone_remote_id"},
		{"2001:db8::/32", "documentation"},
		{"2001::/32", "teredo"},
		{"2001::/23", "ietf_protocol"},
		{"2002::/16", "6to4"},
		{"2620:4f:8000::/48", "as112"},
		{"3fff::/20", "documentation"},
		{"5f00::/16", "srv6"},
		{"fc00::/7", "unique_local"},
		{"fe80::/10", "link_local"},
		{"fec0::/10", "site_local"},
		{"ff00::/8", "multicast"},
	}
}

type block struct {
	cidr  string
	class string
}

type classified struct {
	prefix netip.Prefix
	class  string
}

// registry is the parsed list. It is immutable and shared by every Policy.
type registry struct {
	v4, v6 []classified
	global netip.Prefix // The only IPv6 space that is assigned for global unicast.
	nat64  netip.Prefix
}

func newRegistry() *registry {
	parse := func(blocks []block) []classified {
		out := make([]classified, len(blocks))
		for i, b := range blocks {
			out[i] = classified{netip.MustParsePrefix(b.cidr), b.class}
		}
		return out
	}
	return &registry{
		v4:     parse(specialV4()),
		v6:     parse(specialV6()),
		global: netip.MustParsePrefix("2000::/3"),
		nat64:  netip.MustParsePrefix("64:ff9b::/96"),
	}
}

// classify returns the class of an address that must not be called, or "" for
// global unicast. IPv4 inside IPv6 is unwrapped, because a gateway, a relay or
// the kernel unwraps it too and would reach the inner address.
func (r *registry) classify(a netip.Addr) string {
	if a.Zone() != "" {
		return "zone"
	}
	if a.Is4() {
		return lookup(r.v4, a)
	}
	if a.Is4In6() {
		return within("ipv4_mapped_", lookup(r.v4, a.Unmap()), "")
	}
	b := a.As16()
	if r.nat64.Contains(a) {
		return within("nat64_embedded_", lookup(r.v4, last4(b)), "")
	}
	if class := lookup(r.v6, a); class != "" {
		return r.embedded(class, b)
	}
	if [12]byte(b[:12]) == [12]byte{} {
		return within("ipv4_compatible_", lookup(r.v4, last4(b)), "ipv4_compatible")
	}
	if !r.global.Contains(a) {
		return "reserved"
	}
	if (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return within("isatap_", lookup(r.v4, last4(b)), "")
	}
	return ""
}

// embedded makes the class of a blocked tunnel or translation address more
// precise when the IPv4 address inside it is special as well.
func (r *registry) embedded(class string, b [16]byte) string {
	switch class {
	case "6to4":
		return within("6to4_", lookup(r.v4, netip.AddrFrom4([4]byte(b[2:6]))), class)
	case "teredo": // The client's address is stored inverted.
		inner := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		return within("teredo_", lookup(r.v4, netip.AddrFrom4(inner)), class)
	case "ipv4_translated", "nat64_local":
		return within(class+"_", lookup(r.v4, last4(b)), class)
	}
	return class
}

func within(prefix, inner, public string) string {
	if inner == "" {
		return public
	}
	return prefix + inner
}

func last4(b [16]byte) netip.Addr { return netip.AddrFrom4([4]byte(b[12:])) }

func lookup(list []classified, a netip.Addr) string {
	for _, c := range list {
		if c.prefix.Contains(a) {
			return c.class
		}
	}
	return ""
}
