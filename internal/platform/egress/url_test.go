package egress

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func TestOrdinaryURLsAreAccepted(t *testing.T) {
	for raw, want := range map[string]Target{
		"https://example.com/hooks":              {Host: "example.com", Port: 443, Secure: true},
		"http://example.com":                     {Host: "example.com", Port: 80},
		"HTTPS://Example.COM:8443/a?b=c":         {Host: "example.com", Port: 8443, Secure: true},
		"https://example.com./x":                 {Host: "example.com", Port: 443, Secure: true},
		"https://xn--bcher-kva.example/":         {Host: "xn--bcher-kva.example", Port: 443, Secure: true},
		"https://my_service.internal.example/":   {Host: "my_service.internal.example", Port: 443, Secure: true},
		"https://receiver/hooks":                 {Host: "receiver", Port: 443, Secure: true},
		"https://1and1.com/":                     {Host: "1and1.com", Port: 443, Secure: true},
		"https://8.8.8.8/":                       {Host: "8.8.8.8", Port: 443, Secure: true},
		"https://[2606:4700::1111]:8443/":        {Host: "2606:4700::1111", Port: 8443, Secure: true},
		"https://example.com/a%20b?c=%2F@d:e":    {Host: "example.com", Port: 443, Secure: true},
		"https://example.com?x=http://127.0.0.1": {Host: "example.com", Port: 443, Secure: true},
	} {
		got, err := ParseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got.Host != want.Host || got.Port != want.Port || got.Secure != want.Secure {
			t.Errorf("%s reads as %s %d %v", raw, got.Host, got.Port, got.Secure)
		}
		if err := (Policy{}).CheckURL(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestAFaultyURLIsRefusedWithTheReason(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                     "is empty",
		"example.com/hooks":                    "not absolute",
		"/hooks":                               "not absolute",
		"https:example.com":                    "not absolute",
		"https:///hooks":                       "no host",
		"ftp://example.com/":                   `scheme "ftp"`,
		"file:///etc/passwd":                   "no host",
		"gopher://example.com:70/":             `scheme "gopher"`,
		"https://user:pw@example.com/":         "user name",
		"https://example.com@127.0.0.1/":       "user name",
		"https://example.com/#part":            "fragment",
		"https://example.com#@127.0.0.1/":      "fragment",
		"https://example.com:/":                "no port",
		"https://example.com:0/":               "port",
		"https://example.com:65536/":           "port",
		"https://example.com:http/":            "cannot be read",
		"https://example.com:080/":             "port",
		"https://exam ple.com/":                "space",
		"https://example.com/a\nb":             "control character",
		`https://example.com\@127.0.0.1/`:      "backslash",
		"https://-x.example.com/":              "hyphen",
		"https://a..b/":                        "1 to 63",
		"https://./":                           "use a DNS name",
		"https://exa!mple.com/":                "character that DNS names do not have",
		"https://ex%61mple.com/":               "percent-encoding",
		"https://bücher.example/":              "outside ASCII",
		"https://[::1/":                        "cannot be read",
		"https://[::1%25lo]/":                  "percent-encoding",
		"https://[127.0.0.1]/":                 "cannot be read",
		"https://127.0.0.1./":                  "number notation",
		"https://2130706433/":                  "number notation",
		"https://0x7f.1/":                      "number notation",
		"https://0177.0.0.1/":                  "number notation",
		"https://127.1/":                       "number notation",
		"https://1.2.3.4.5/":                   "number notation",
		"https://example.0x/":                  "number notation",
		"https://127.0.0.1/":                   "loopback",
		"https://LOCALHOST/":                   "loopback",
		"https://x.localhost:8080/":            "loopback",
		"https://[::ffff:10.0.0.1]/":           "ipv4_mapped_private",
		"https://" + strings.Repeat("a", 2050): "at most 2048",
	} {
		if err := (Policy{}).CheckURL(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want one that says %q", raw, err, want)
		}
	}
}

func TestLocalhostIsAcceptedWhereLoopbackIsAllowed(t *testing.T) {
	for _, cidr := range []string{"127.0.0.0/8", "::1"} {
		p, err := ParseAllow([]string{cidr})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.CheckURL("http://localhost:9000/"); err != nil {
			t.Errorf("with %s allowed: %v", cidr, err)
		}
	}
}

// notations returns every way we know to write an IPv4 address in a URL's host.
func notations(a netip.Addr) []string {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	dotted := a.String()
	wide := strings.NewReplacer("0", "０", "1", "１", "2", "２", "3", "３", "4", "４", "5", "５", "6", "６", "7", "７", "8", "８",
		"9", "９")
	inverted := fmt.Sprintf("%02x%02x:%02x%02x", ^b[0], ^b[1], ^b[2], ^b[3])
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	return []string{
		dotted, dotted + ".", dotted + "..", "00" + dotted,
		fmt.Sprint(n), fmt.Sprintf("%d.", n), fmt.Sprintf("%#x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("%#o", n),
		fmt.Sprintf("%o", n),
		fmt.Sprintf("%#o.%#o.%#o.%#o", b[0], b[1], b[2], b[3]), fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%#x.%#x.%#x.%#x", b[0], b[1], b[2], b[3]), fmt.Sprintf("%#x.%#o.%d.%d", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		fmt.Sprintf("%#x.%#x", b[0], n&0xffffff),
		fmt.Sprintf("%d", uint64(n)+1<<32), // Wraps around in a 32-bit parser.
		wide.Replace(dotted), strings.ReplaceAll(dotted, ".", "。"), strings.ReplaceAll(dotted, ".", "%2e"),
		"%" + fmt.Sprintf("%02x", dotted[0]) + dotted[1:],
		"user@" + dotted, "example.com@" + dotted, dotted + "#@example.com", dotted + `\@example.com`,
		"example.com:80@" + dotted,
		"[::ffff:" + dotted + "]", "[::ffff:" + hex + "]", "[0:0:0:0:0:ffff:" + dotted + "]", "[::" + dotted + "]",
		"[" + dotted + "]",
		"[64:ff9b::" + dotted + "]", "[64:ff9b:1::" + dotted + "]", "[2002:" + hex + "::1]", "[2001::" + inverted + "]",
		"[::ffff:0:" + dotted + "]",
		"[2606:4700::5efe:" + dotted + "]", "[fe80::200:5efe:" + dotted + "%25lo]", "[::ffff:" + dotted + "%251]",
		"[::FFFF:" + strings.ToUpper(hex) + "]",
	}
}

func checkNotations(t *testing.T, a netip.Addr) {
	t.Helper()
	for _, host := range notations(a) {
		for _, raw := range []string{"http://" + host, "https://" + host + ":8443/hooks", "HTTP://" + host + "/?a=b"} {
			if err := (Policy{}).CheckURL(raw); err == nil {
				t.Errorf("%s stands for %s and is accepted", raw, a)
			}
		}
	}
}

func TestNoNotationOfABlockedAddressPasses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range specialV4() {
		p := netip.MustParsePrefix(b.cidr)
		checkNotations(t, p.Addr())
		checkNotations(t, last(p))
		checkNotations(t, inside(p, r.Uint32()))
	}
}

// inside returns the address in p whose host bits are those of n.
func inside(p netip.Prefix, n uint32) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		if n&(1<<(31-i)) != 0 {
			b[i/8] |= 0x80 >> (i % 8)
		}
	}
	return netip.AddrFrom4(b)
}

func FuzzNotationsOfBlockedAddresses(f *testing.F) {
	f.Add(uint8(0), uint32(0))
	f.Add(uint8(7), uint32(0x7f000001))
	f.Fuzz(func(t *testing.T, which uint8, n uint32) {
		blocks := specialV4()
		checkNotations(t, inside(netip.MustParsePrefix(blocks[int(which)%len(blocks)].cidr), n))
	})
}

// FuzzURL checks that what is accepted means one thing only: the host reads back
// the same, and is either a checked address or a name that cannot be one.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://example.com/a?b", "http://127.1:80", "https://[::1]:1/", "http://a@b#c",
		"http://0x7f.1\\@x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if (Policy{}).CheckURL(raw) != nil {
			return
		}
		target, err := ParseURL(raw)
		if err != nil {
			t.Fatalf("%q is accepted and refused: %v", raw, err)
		}
		if u := target.URL; u.User != nil || u.Fragment != "" || u.Opaque != "" || target.Port == 0 {
			t.Fatalf("%q is accepted as %+v", raw, u)
		}
		if target.Addr.IsValid() {
			if err := (Policy{}).Check(target.Addr); err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if _, err := netip.ParseAddr(target.Host); err == nil || checkName(target.Host) != nil {
			t.Fatalf("%q is accepted with host %q", raw, target.Host)
		}
		again, err := ParseURL(target.URL.String())
		if err != nil || again.Host != target.Host || again.Port != target.Port {
			t.Fatalf("%q reads back as %+v, %v", raw, again, err)
		}
	})
}
