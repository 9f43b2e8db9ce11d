package dispatcher

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/egress"
)

// fault is a failure of ours: the request could not be made, and the receiver has
// nothing to do with it.
type fault struct{ text string }

func (f *fault) Error() string { return f.text }

// neverSent is how what goes on record of such an attempt begins.
const neverSent = "no request was made: "

// faultOf tells a failure on this side from one of the receiver's. ourProxy says
// that the connection goes through the operator's proxy, not through one that the
// endpoint names. It is for errors before there was a connection.
//
// What can be either stays the receiver's: no route to a host, no answer of a
// proxy to a tunnel, a name that a resolver fails to find.
func faultOf(err error, ourProxy bool) (text string, ours bool) {
	var (
		own   *fault
		proxy *egress.ProxyError
		dns   *net.DNSError
		errno syscall.Errno
	)
	switch {
	case errors.As(err, &own):
		return own.text, true
	case errors.As(err, &proxy):
		return proxy.Error(), ourProxy && !proxy.OfTarget()
	case errors.As(err, &dns):
		return "the resolver of this machine cannot be asked: " + dns.Err, !dns.IsNotFound && unreachable(dns.Err)
	case errors.As(err, &errno):
		return errno.Error(), slices.Contains([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
			syscall.EADDRNOTAVAIL, syscall.EACCES, syscall.EPERM}, errno)
	case errors.Is(err, errRetired):
		return errRetired.Error(), true
	}
	return "", false
}

// unreachable says that a resolver was not even asked. Package net keeps the text
// of such an error only.
func unreachable(s string) bool {
	for _, why := range []string{"connection refused", "network is unreachable", "no route to host", "too many open files",
		"permission denied", "operation not permitted", "cannot assign requested address"} {
		if strings.Contains(s, why) {
			return true
		}
	}
	return false
}

// checkHeader says what of a header cannot be sent. net/http refuses the same
// things, but only once it has a connection.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, notToken) {
			return &fault{fmt.Sprintf("the name of the header %.40q cannot be sent", name)}
		}
		for _, v := range values {
			if i := strings.IndexFunc(v, unsendable); i >= 0 {
				return &fault{fmt.Sprintf("the value of the header %s has a character at byte %d that cannot be sent", name, i)}
			}
		}
	}
	return nil
}

// notToken follows RFC 9110, section 5.6.2.
func notToken(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func unsendable(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
