package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURL is what receivers and proxies commonly accept in a request line.
const maxURL = 2048

// Target is a URL that is safe to hand to an HTTP client: every part of it means
// the same to us, to the resolver and to the C library.
type Target struct {
	URL    *url.URL
	Host   string     // Lower case, without brackets, port or trailing dot.
	Addr   netip.Addr // Valid only when Host is an address.
	Port   uint16     // 443 or 80 when the URL names none.
	Secure bool       // https
}

// CheckURL says early, when an endpoint is created or called, whether its URL
// can be called at all. It never resolves names: what a name points to is
// checked on every connection by ControlContext. The error is a *BlockedError
// when the host is an address, or a localhost name, that may not be called.
func (p Policy) CheckURL(raw string) error {
	t, err := ParseURL(raw)
	if err != nil {
		return err
	}
	if t.Addr.IsValid() {
		return p.Check(t.Addr)
	}
	if t.Host == "localhost" || strings.HasSuffix(t.Host, ".localhost") {
		err4 := p.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if err4 != nil && p.Check(netip.IPv6Loopback()) != nil {
			return err4
		}
	}
	return nil
}

// ParseURL reads an endpoint's URL. It accepts absolute http and https URLs with
// a DNS name, a dotted-decimal IPv4 address or a bracketed IPv6 address, and
// refuses every other notation of a host: some resolvers read 2130706433,
// 0177.0.0.1, 0x7f.1 or 127.1 as an address while others look them up as names.
func ParseURL(raw string) (Target, error) {
	authority, err := checkText(raw)
	if err != nil {
		return Target{}, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return Target{}, errors.New("url: cannot be read; write it like https://example.com/hooks")
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return Target{}, fmt.Errorf("url: scheme %q is not supported; use https:// (or http://)", u.Scheme)
	}
	t := Target{URL: u, Secure: u.Scheme == "https"}
	if err := t.setPort(authority); err != nil {
		return Target{}, err
	}
	if err := t.setHost(authority); err != nil {
		return Target{}, err
	}
	return t, nil
}

// checkText refuses what parsers are known to disagree about, before any parser
// sees it, and returns the authority (host and port) as written.
func checkText(raw string) (authority string, err error) {
	if raw == "" {
		return "", errors.New("url: is empty; write it like https://example.com/hooks")
	}
	if len(raw) > maxURL {
		return "", fmt.Errorf("url: has %d bytes; use at most %d", len(raw), maxURL)
	}
	for i := range len(raw) {
		if c := raw[i]; c <= ' ' || c == 0x7f || c == '\\' {
			return "", fmt.Errorf("url: has a space, control character or backslash at byte %d; remove it or percent-encode "+
				"it in the path", i)
		}
	}
	if strings.Contains(raw, "#") {
		return "", errors.New("url: has a fragment (#…), which is never sent; remove it")
	}
	_, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return "", errors.New("url: is not absolute; write it like https://example.com/hooks")
	}
	authority = rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	switch {
	case authority == "":
		return "", errors.New("url: has no host; write it like https://example.com/hooks")
	case strings.Contains(authority, "@"):
		return "", errors.New("url: has a user name or password before the host; remove it and use an endpoint header instead")
	case strings.Contains(authority, "%"):
		return "", errors.New("url: host has a percent-encoding or an IPv6 zone; write the plain host")
	}
	for i := range len(authority) {
		if authority[i] >= 0x80 {
			return "", errors.New("url: host has characters outside ASCII; write an international name in its xn-- form")
		}
	}
	return authority, nil
}

func (t *Target) setPort(authority string) error {
	t.Port = 80
	if t.Secure {
		t.Port = 443
	}
	port := t.URL.Port()
	if port == "" {
		if strings.HasSuffix(authority, ":") {
			return errors.New("url: has a colon but no port; remove the colon or add the port")
		}
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' {
		return fmt.Errorf("url: port %q is not in 1 to 65535; correct it", port)
	}
	t.Port = uint16(n)
	return nil
}

func (t *Target) setHost(authority string) error {
	host := strings.ToLower(t.URL.Hostname())
	if strings.HasPrefix(authority, "[") {
		a, err := netip.ParseAddr(host)
		if err != nil || a.Zone() != "" || !a.Is6() {
			return fmt.Errorf("url: host [%s] is not a plain IPv6 address; write it like [2606:4700::1111]", host)
		}
		t.Host, t.Addr = host, a
		return nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		t.Host, t.Addr = host, a
		return nil
	}
	host = strings.TrimSuffix(host, ".")
	if err := checkName(host); err != nil {
		return err
	}
	t.Host = host
	return nil
}

func checkName(host string) error {
	if host == "" || len(host) > 253 {
		return fmt.Errorf("url: host has %d characters; use a DNS name of 1 to 253", len(host))
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if err := checkLabel(l); err != nil {
			return fmt.Errorf("url: host %q: %w", host, err)
		}
	}
	if last := labels[len(labels)-1]; numeric(last) {
		return fmt.Errorf("url: host %q is a number notation; write an IPv4 address as four decimal numbers, like 203.0.113.7", host)
	}
	return nil
}

func checkLabel(l string) error {
	if l == "" || len(l) > 63 {
		return errors.New("each part between dots needs 1 to 63 characters; correct the name")
	}
	if l[0] == '-' || l[len(l)-1] == '-' {
		return fmt.Errorf("part %q starts or ends with a hyphen; correct the name", l)
	}
	for i := range len(l) {
		c := l[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("part %q has a character that DNS names do not have; correct the name", l)
		}
	}
	return nil
}

// numeric follows the WHATWG rule: a host whose last part is a number, decimal
// or 0x, is meant as an IPv4 address.
func numeric(label string) bool {
	if rest, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
