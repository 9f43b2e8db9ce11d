package problem

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard keeps web pages away from an API that has no log-in, where being able
// to reach the listener is the permission:
//
//   - A request that changes something and comes from a page of another origin,
//     as the browser's Sec-Fetch-Site or Origin says, is refused.
//   - On a loopback listener, Host must be localhost or a loopback address: a
//     name of the page's own that was made to point here (DNS rebinding) is not.
//
// Clients other than browsers send neither header and are not concerned.
func Guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case onLoopback(r) && !loopbackName(r.Host):
			New(http.StatusForbidden, "wrong_host", "the Host header names another host than this loopback address; call it "+
				"as localhost or 127.0.0.1").Write(w)
		case origins.Check(r) != nil:
			New(http.StatusForbidden, "cross_origin", "a page of another origin may not change anything here").Write(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

func loopbackName(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
