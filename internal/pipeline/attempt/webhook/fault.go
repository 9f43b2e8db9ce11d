package webhook

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// faultOf tells a failure on this side from one of the receiver's. ourProxy says
// that the connection goes through the operator's proxy, not through one that the
// endpoint names. It is for errors before there was a connection.
//
// What can be either stays the receiver's: no route to a host, no answer of a
// proxy to a tunnel, a name that a resolver fails to find.
func faultOf(err error, ourProxy bool) (why string, ours bool) {
	var (
		own   *attempt.Fault
		proxy *egress.ProxyError
		dns   *net.DNSError
		errno syscall.Errno
	)
	switch {
	case errors.As(err, &own):
		return own.Text, true
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
