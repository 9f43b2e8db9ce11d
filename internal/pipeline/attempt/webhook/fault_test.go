package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/registry"
)

// TestFailuresOnThisSideAreOurs goes through what can end a request before its
// first byte: whose failure it is, and what is not known to be ours stays the receiver's.
func TestFailuresOnThisSideAreOurs(t *testing.T) {
	dial := func(errno syscall.Errno) error { return &net.OpError{Op: "dial", Net: "tcp", Err: errno} }
	cases := []struct {
		name string
		err  error
		ours bool
	}{
		{"no descriptors", dial(syscall.EMFILE), true},
		{"no descriptors in the system", dial(syscall.ENFILE), true},
		{"no ports", dial(syscall.EADDRNOTAVAIL), true},
		{"no memory", dial(syscall.ENOBUFS), true},
		{"a firewall of ours", dial(syscall.EPERM), true},
		{"a refused connection", dial(syscall.ECONNREFUSED), false},
		{"no route", dial(syscall.EHOSTUNREACH), false},
		{"a resolver that is away", &net.DNSError{Err: "read udp 127.0.0.1:5->127.0.0.53:53: read: connection refused",
			Name: "x"}, true},
		{"a name that is not there", &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, false},
		{"a resolver that finds nothing out", &net.DNSError{Err: "server misbehaving", Name: "x"}, false},
		{"a request that cannot be built", &attempt.Fault{Text: "no"}, true},
		{"connections that were closed with the endpoint's change", errRetired, true},
		{"anything else", errors.New("what"), false},
	}
	for _, c := range cases {
		if _, ours := faultOf(c.err, false); ours != c.ours {
			t.Errorf("%s: ours is %v", c.name, ours)
		}
	}
}

func TestARequestThatCannotBeMadeIsNoWordAboutTheReceiver(t *testing.T) {
	r := listen(t, answer(ok))
	away := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "udp", Err: syscall.ECONNREFUSED}
	}}
	poisoned := func(name, value string) func(*attempt.Request) {
		return func(r *attempt.Request) { r.Header = http.Header{name: {value}} }
	}
	cases := []struct {
		name  string
		o     Options
		alter func(*attempt.Request)
	}{
		{"a control character in a header", Options{}, poisoned("Tracestate", "a\x01b")},
		{"a line break in a header", Options{}, poisoned("X-Y", "a\r\nHost: evil")},
		{"a header's name that is none", Options{}, poisoned("X Y", "a")},
		{"no header's name", Options{}, poisoned("", "a")},
		{"own issuers that cannot be read", Options{}, func(r *attempt.Request) {
			r.Owner, r.Connection = "ep_1",
				&registry.Connection{ID: "1", Proxy: "://"}
		}},
		{"no resolver", Options{Resolver: away}, func(r *attempt.Request) { r.URL = "http://receiver.example.com/" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := post("http://"+r.addr, patient)
			c.alter(&req)
			res := try(t, newTestClient(t, c.o), req)
			if res.Outcome != outcome.NotSent || !res.Fault || res.Outcome.AboutReceiver() ||
				!strings.HasPrefix(res.Err, attempt.NeverSent) {
				t.Errorf("got %s %s, fault %v", res.Outcome, res.Err, res.Fault)
			}
		})
	}
	if n := r.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

func TestACancelledAttemptWithoutAConnectionSentNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	slow := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-asked:
		default:
			close(asked)
			cancel()
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(Options{Egress: allow, Resolver: slow})
	defer c.Close()
	res := c.Try(ctx, post("http://receiver.example.com/", patient))
	if res.Outcome != outcome.NotSent || res.Fault {
		t.Errorf("got %s %s, fault %v", res.Outcome, res.Err, res.Fault)
	}
}
