package egress

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Proxy is an HTTP proxy that is asked for tunnels with CONNECT.
type Proxy struct {
	Target
	// User and Password are for Proxy-Authorization. Both empty: none.
	User, Password string
}

// Safe is the proxy as it may be shown: without user and password.
func (p Proxy) Safe() string { return p.URL.Scheme + "://" + p.URL.Host }

// String keeps the password out of logs.
func (p Proxy) String() string { return p.Safe() }

// ParseProxy reads a proxy's URL: http:// or https://, a host, a port, and,
// where credentials says so, a user and password. Errors never quote them.
func ParseProxy(raw string, credentials bool) (Proxy, error) {
	var p Proxy
	scheme, rest, ok := strings.Cut(raw, "://")
	if at := strings.LastIndex(rest, "@"); ok && at >= 0 {
		if !credentials {
			return p, errors.New("has a user name or password; only the dispatchers' --egress-proxy may have them")
		}
		u, err := url.Parse(scheme + "://" + rest[:at] + "@proxy.invalid")
		if err != nil || u.User == nil {
			return p, errors.New("the user name and password cannot be read; percent-encode what is special in them")
		}
		p.User = u.User.Username()
		p.Password, _ = u.User.Password()
		raw = scheme + "://" + rest[at+1:]
	}
	t, err := ParseURL(raw)
	if err != nil {
		return Proxy{}, fmt.Errorf("%s; write a proxy like http://proxy.example.com:3128",
			strings.TrimPrefix(err.Error(), "url: "))
	}
	if t.URL.Port() == "" {
		return Proxy{}, errors.New("has no port; write it like http://proxy.example.com:3128")
	}
	if t.URL.Path != "" && t.URL.Path != "/" || t.URL.RawQuery != "" {
		return Proxy{}, errors.New("has a path or query; write it like http://proxy.example.com:3128")
	}
	p.Target = t
	return p, nil
}
