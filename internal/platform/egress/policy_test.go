package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestOnlyGloballyRoutableUnicastMayBeCalled(t *testing.T) {
	tests := []struct{ addr, class string }{ // An empty class: may be called.
		{"8.8.8.8", ""}, {"1.1.1.1", ""}, {"93.184.215.14", ""}, {"223.255.255.255", ""},
		{"11.0.0.0", ""}, {"9.255.255.255", ""}, {"172.15.255.255", ""}, {"172.32.0.0", ""},
		{"100.63.255.255", ""}, {"100.128.0.0", ""}, {"192.0.1.0", ""}, {"198.17.255.255", ""}, {"198.20.0.0", ""},
		{"2606:4700::1111", ""}, {"2a00:1450:4001::1", ""}, {"2001:200::1", ""}, {"2001:4860:4860::8888", ""},

		{"0.0.0.0", "unspecified"}, {"0.1.2.3", "this_network"},
		{"127.0.0.1", "loopback"}, {"127.255.255.254", "loopback"},
		{"10.0.0.1", "private"}, {"172.16.0.1", "private"}, {"172.31.255.255", "private"}, {"192.168.1.1", "private"},
		{"100.64.0.1", "cgnat"}, {"100.127.255.255", "cgnat"},
		{"169.254.1.1", "link_local"}, {"169.254.169.254", "metadata"}, {"169.254.170.2", "metadata"},
		{"100.100.100.200", "metadata"}, {"168.63.129.16", "metadata"}, {"192.0.0.192", "metadata"},
		{"192.0.0.1", "ietf_protocol"}, {"192.0.0.9", "ietf_protocol"},
		{"192.0.2.1", "documentation"}, {"198.51.100.1", "documentation"}, {"203.0.113.1", "documentation"},
		{"198.18.0.1", "benchmark"}, {"198.19.255.255", "benchmark"},
		{"192.31.196.1", "as112"}, {"192.175.48.1", "as112"}, {"192.52.193.1", "amt"}, {"192.88.99.1", "6to4_relay"},
		{"224.0.0.1", "multicast"}, {"239.255.255.255", "multicast"},
		{"240.0.0.1", "reserved"}, {"255.255.255.255", "broadcast"},

		{"::", "unspecified"}, {"::1", "loopback"},
		{"fe80::1", "link_local"}, {"fec0::1", "site_local"}, {"fc00::1", "unique_local"}, {"fd12:3456::1", "unique_local"},
		{"fd00:ec2::254", "metadata"}, {"fd20:ce::254", "metadata"},
		{"ff02::1", "multicast"}, {"100::1", "discard"}, {"100:0:0:1::1", "dummy"},
		{"2001:db8::1", "documentation"}, {"3fff::1", "documentation"}, {"2001:2::1", "benchmark"},
		{"2001:10::1", "orchid"}, {"2001:20::1", "orchid"}, {"2001:30::1", "drone_remote_id"},
		{"2001:4:112::1", "as112"}, {"2620:4f:8000::1", "as112"}, {"2001:3::1", "amt"}, {"2001:1::1", "ietf_protocol"},
		{"5f00::1", "srv6"}, {"4000::1", "reserved"}, {"1::1", "reserved"}, {"e000::1", "reserved"},
		{"fe80::1%eth0", "zone"}, {"2606:4700::1111%eth0", "zone"},

		{"::ffff:8.8.8.8", ""}, {"::ffff:127.0.0.1", "ipv4_mapped_loopback"},
		{"::ffff:169.254.169.254", "ipv4_mapped_metadata"},
		{"::127.0.0.1", "ipv4_compatible_loopback"}, {"::8.8.8.8", "ipv4_compatible"},
		{"::ffff:0:10.0.0.1", "ipv4_translated_private"}, {"::ffff:0:8.8.8.8", "ipv4_translated"},
		{"64:ff9b::8.8.8.8", ""}, {"64:ff9b::10.0.0.1", "nat64_embedded_private"},
		{"64:ff9b::169.254.169.254", "nat64_embedded_metadata"},
		{"64:ff9b:1::10.0.0.1", "nat64_local_private"}, {"64:ff9b:1::8.8.8.8", "nat64_local"},
		{"2002:0a00:0001::1", "6to4_private"}, {"2002:7f00:0001::", "6to4_loopback"}, {"2002:0808:0808::1", "6to4"},
		{"2001:0:808:808:0:0:80ff:fffe", "teredo_loopback"}, {"2001::f7f7:f7f7", "teredo"},
		{"2606:4700::5efe:10.0.0.1", "isatap_private"}, {"2606:4700::200:5efe:127.0.0.1", "isatap_loopback"},
		{"2606:4700::5efe:8.8.8.8", ""},
	}
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			err := Policy{}.Check(netip.MustParseAddr(tt.addr))
			var blocked *BlockedError
			if !errors.As(err, &blocked) {
				if err != nil || tt.class != "" {
					t.Fatalf("got %v, want class %q", err, tt.class)
				}
				return
			}
			if blocked.Class != tt.class {
				t.Errorf("class is %q, want %q", blocked.Class, tt.class)
			}
			if !strings.Contains(err.Error(), "--egress-allow") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
}

func TestAnInvalidAddressIsBlocked(t *testing.T) {
	if (Policy{}).Check(netip.Addr{}) == nil {
		t.Error("the zero address may be called")
	}
}

// TestBothEndsOfEverySpecialBlockAreBlocked walks the registry itself, so that a
// block added later is tested too, also mapped into IPv6 and behind NAT64.
func TestBothEndsOfEverySpecialBlockAreBlocked(t *testing.T) {
	for _, b := range slices.Concat(specialV4(), specialV6()) {
		p := netip.MustParsePrefix(b.cidr)
		for _, a := range []netip.Addr{p.Addr(), last(p)} {
			if (Policy{}).Check(a) == nil {
				t.Errorf("%s, an end of %s (%s), may be called", a, b.cidr, b.class)
			}
			if !a.Is4() {
				continue
			}
			for _, prefix := range []string{"::ffff:", "64:ff9b::", "::"} {
				if e := netip.MustParseAddr(prefix + a.String()); (Policy{}).Check(e) == nil {
					t.Errorf("%s, which carries %s, may be called", e, a)
				}
			}
		}
	}
}

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestTheAllowListPermitsSpecialAddresses(t *testing.T) {
	p, err := ParseAllow([]string{"127.0.0.0/8", " 10.1.0.0/16 ", "fd00:1::/48", "192.168.7.7", "::ffff:172.16.0.0/108"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"127.0.0.1", "::ffff:127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "fd00:1::9", "192.168.7.7",
		"172.16.0.9", "8.8.8.8"} {
		if err := p.Check(netip.MustParseAddr(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"10.2.0.1", "192.168.7.8", "::1", "fd00:2::1", "64:ff9b::10.1.2.3", "2002:7f00:1::",
		"::127.0.0.1", "fd00:1::1%eth0"} {
		if p.Check(netip.MustParseAddr(s)) == nil {
			t.Errorf("%s may be called", s)
		}
	}
	if got, want := p.Allowed()[4], "172.16.0.0/12"; got != want {
		t.Errorf("a mapped CIDR reads as %s, want %s", got, want)
	}
}

func TestAFaultyAllowListIsRefusedWithTheEntry(t *testing.T) {
	for entry, want := range map[string]string{
		"":                  "is empty",
		"10.0.0.0/33":       "not a CIDR",
		"10.0.0.1/8":        "write 10.0.0.0/8",
		"localhost":         "neither a CIDR nor an address",
		"fe80::1%eth0":      "neither a CIDR nor an address",
		"fe80::%eth0/64":    "not a CIDR",
		"::ffff:0.0.0.0/80": "write",
		"10.0.0.0/8,::1":    "not a CIDR",
		"0x7f.0.0.1":        "neither a CIDR nor an address",
	} {
		if _, err := ParseAllow([]string{"127.0.0.1", entry}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want one that says %q", entry, err, want)
		}
	}
}

func TestADialIsCheckedOnTheAddressOfTheSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial := func(p Policy, address string) error {
		d := net.Dialer{ControlContext: p.ControlContext}
		c, err := d.DialContext(context.Background(), "tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "", "::ffff:127.0.0.1", "0:0:0:0:0:ffff:7f00:1"} {
		var blocked *BlockedError
		if err := dial(Policy{}, net.JoinHostPort(host, port)); !errors.As(err, &blocked) {
			t.Errorf("dialing %q gives %v, want a BlockedError", host, err)
		}
	}
	allowed, err := ParseAllow([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := dial(allowed, ln.Addr().String()); err != nil {
		t.Errorf("dialing an allowed address: %v", err)
	}
}

func TestAnythingButAPlainTCPAddressIsRefusedAtTheSocket(t *testing.T) {
	for _, tt := range [][2]string{{"udp4", "8.8.8.8:53"}, {"unix", "/run/x"}, {"tcp4", ":80"}, {"tcp4", "x:80"},
		{"tcp6", "[fe80::1%lo]:80"}} {
		if (Policy{}).ControlContext(context.Background(), tt[0], tt[1], nil) == nil {
			t.Errorf("%s %s is not refused", tt[0], tt[1])
		}
	}
	if err := (Policy{}).ControlContext(context.Background(), "tcp4", "8.8.8.8:443", nil); err != nil {
		t.Error(err)
	}
}
