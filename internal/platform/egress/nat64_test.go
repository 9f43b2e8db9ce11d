package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// The embedded addresses are those of RFC 6052, section 2.4, with 192.0.2.33
// replaced by a private and by a public address.
func TestAnAddressBehindATranslatorIsWhatItLeadsTo(t *testing.T) {
	forms := map[string][2]string{ // prefix: 10.1.2.33, 8.8.8.33
		"2001:db8::/32":         {"2001:db8:a01:221::", "2001:db8:808:821::"},
		"2001:db8:100::/40":     {"2001:db8:10a:102:21::", "2001:db8:108:808:21::"},
		"2001:db8:122::/48":     {"2001:db8:122:a01:2:2100::", "2001:db8:122:808:8:2100::"},
		"2001:db8:122:300::/56": {"2001:db8:122:30a:1:221::", "2001:db8:122:308:8:821::"},
		"2001:db8:122:344::/64": {"2001:db8:122:344:a:102:2100::", "2001:db8:122:344:8:808:2100::"},
		"2001:db8:122:344::/96": {"2001:db8:122:344::a01:221", "2001:db8:122:344::808:821"},
		"fd00:64::/96":          {"fd00:64::a01:221", "fd00:64::808:821"},
		"2606:4700:64::/96":     {"2606:4700:64::a01:221", "2606:4700:64::808:821"},
		"64:ff9b:1:fffe::/64":   {"64:ff9b:1:fffe:a:102:2100::", "64:ff9b:1:fffe:8:808:2100::"},
	}
	for prefix, addrs := range forms {
		p, err := Policy{}.WithNAT64([]string{prefix})
		if err != nil {
			t.Fatal(err)
		}
		var blocked *BlockedError
		if err := p.Check(netip.MustParseAddr(addrs[0])); !errors.As(err, &blocked) ||
			blocked.Class != "nat64_embedded_private" {
			t.Errorf("%s in %s: %v", addrs[0], prefix, err)
		}
		if err := p.Check(netip.MustParseAddr(addrs[1])); err != nil {
			t.Errorf("%s in %s: %v", addrs[1], prefix, err)
		}
		if got := p.NAT64(); len(got) != 1 || got[0] != prefix {
			t.Errorf("%s is shown as %q", prefix, got)
		}
	}
}

func TestTheLongestPrefixOfATranslatorDecides(t *testing.T) {
	p, err := Policy{}.WithNAT64([]string{"2606:4700::/32", "2606:4700:64::/96"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(netip.MustParseAddr("2606:4700:64::a01:221")); err == nil ||
		!strings.Contains(err.Error(), "nat64_embedded_private") {
		t.Errorf("got %v", err)
	}
}

func TestAllowedNetworksHoldForWhatATranslatorLeadsTo(t *testing.T) {
	p, err := ParseAllow([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = p.WithNAT64([]string{"2606:4700:64::/96"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(netip.MustParseAddr("2606:4700:64::a01:221")); err != nil {
		t.Errorf("10.1.2.33 is allowed, and behind the translator: %v", err)
	}
	if err := p.Check(netip.MustParseAddr("2606:4700:64::c0a8:101")); err == nil {
		t.Error("192.168.1.1 is not allowed, and was not refused behind the translator")
	}
}

func TestPrefixesThatNoTranslatorHasAreRefused(t *testing.T) {
	for raw, want := range map[string]string{
		"": "not an IPv6 CIDR", "10.0.0.0/8": "not an IPv6 CIDR", "2001:db8::": "not an IPv6 CIDR",
		"::ffff:1.2.3.4/96": "not an IPv6 CIDR",
		"2001:db8::/33":     "RFC 6052 knows", "2001:db8::1/96": "write 2001:db8::/96", "2001:db8::/128": "RFC 6052 knows",
	} {
		if _, err := (Policy{}).WithNAT64([]string{raw}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
}

func FuzzNAT64(f *testing.F) {
	f.Add("2001:db8::/96", []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, prefix string, b []byte) {
		p, err := Policy{}.WithNAT64([]string{prefix})
		if err != nil || len(b) != 16 {
			return
		}
		a := netip.AddrFrom16([16]byte(b))
		if inner, ok := p.translated(a); ok && p.Check(a) == nil && p.Check(inner) != nil {
			t.Errorf("%s leads to %s and may be called", a, inner)
		}
	})
}
