package webhook

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// nameserver answers DNS questions on the loopback. answers is asked for the A
// records of each question in turn; nil means that the name does not exist, and
// AAAA questions get an empty answer.
func nameserver(t *testing.T, answers func(question int64) []netip.Addr) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	var asked atomic.Int64
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			if end+5 > n {
				continue
			}
			question := buf[12 : end+5]
			var addrs []netip.Addr
			code := byte(0)
			if kind := binary.BigEndian.Uint16(question[len(question)-4:]); kind == 1 {
				if addrs = answers(asked.Add(1)); addrs == nil {
					code = 3
				}
			} else if answers(asked.Load()+1) == nil {
				code = 3
			}
			pc.WriteTo(dnsReply(buf[:2], question, code, addrs), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func dnsReply(id, question []byte, code byte, addrs []netip.Addr) []byte {
	b := append([]byte(nil), id...)
	b = append(b, 0x85, 0x80|code, 0, 1, 0, byte(len(addrs)), 0, 0, 0, 0)
	b = append(b, question...)
	for _, a := range addrs {
		b = append(b, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		b = append(b, a.AsSlice()...)
	}
	return b
}

func addrs(s ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func portOf(t *testing.T, r *receiver) string {
	t.Helper()
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestANameIsResolvedForTheCall(t *testing.T) {
	r := listen(t, answer(ok))
	c := newTestClient(t, Options{Resolver: nameserver(t, func(int64) []netip.Addr { return addrs("127.0.0.1") })})
	res := try(t, c, post("http://receiver.example.com.:"+portOf(t, r)+"/", patient))
	if res.Outcome != outcome.Delivered || res.Resolve <= 0 || res.RemoteAddr != r.addr {
		t.Errorf("got %s %s, resolving took %s", res.Outcome, res.Err, res.Resolve)
	}
}

func TestANameThatLeadsToABlockedAddressIsNeverCalled(t *testing.T) {
	r := listen(t, answer(ok))
	resolver := nameserver(t, func(int64) []netip.Addr { return addrs("127.0.0.1") })
	c := NewClient(Options{Resolver: resolver})
	defer c.Close()
	res := try(t, c, post("http://innocent.example.com:"+portOf(t, r)+"/", patient))
	if res.Outcome != outcome.AddressBlocked || !strings.Contains(res.Err, "loopback") {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
	if n := r.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestASecondDNSAnswerIsCheckedToo is DNS rebinding: the name leads to a permitted
// address first, and to a blocked one when it is asked again.
func TestASecondDNSAnswerIsCheckedToo(t *testing.T) {
	r := listen(t, once(ok)) // Closes, so that the second attempt connects anew.
	c := newTestClient(t, Options{Resolver: nameserver(t, func(n int64) []netip.Addr {
		if n == 1 {
			return addrs("127.0.0.1")
		}
		return addrs("10.255.255.1")
	})})
	url := "http://rebind.example.com:" + portOf(t, r) + "/"
	if res := try(t, c, post(url, patient)); res.Outcome != outcome.Delivered {
		t.Fatalf("the first attempt gives %s %s", res.Outcome, res.Err)
	}
	c.Close() // Whether the client has noticed the end of the connection is a race; drop it.
	if res := try(t, c, post(url, patient)); res.Outcome != outcome.AddressBlocked {
		t.Errorf("the second attempt gives %s %s", res.Outcome, res.Err)
	}
}

func TestOneBlockedAddressAmongOthersDoesNotEndADelivery(t *testing.T) {
	r := listen(t, answer(ok))
	c := newTestClient(t, Options{Resolver: nameserver(t,
		func(int64) []netip.Addr { return addrs("10.255.255.1", "127.0.0.1") })})
	if res := try(t, c, post("http://mixed.example.com:"+portOf(t, r)+"/", patient)); res.Outcome != outcome.Delivered {
		t.Errorf("with a live address: %s %s", res.Outcome, res.Err)
	}
	dead := newTestClient(t, Options{Resolver: nameserver(t,
		func(int64) []netip.Addr { return addrs("10.255.255.1", "127.0.0.9") })})
	if res := try(t, dead, post("http://mixed.example.com:"+portOf(t, r)+"/",
		patient)); res.Outcome != outcome.ConnectionRefused && res.Outcome != outcome.ConnectionFailed {
		t.Errorf("with a dead address: %s %s", res.Outcome, res.Err)
	}
}

func TestANameThatDoesNotExistIsADNSFailure(t *testing.T) {
	c := newTestClient(t, Options{Resolver: nameserver(t, func(int64) []netip.Addr { return nil })})
	res := try(t, c, post("http://nowhere.example.com/?token=hush", patient))
	if res.Outcome != outcome.DNSFailure || res.Class != outcome.ClassRetryable ||
		!strings.Contains(res.Err, "nowhere.example.com") {
		t.Errorf("got %s %s", res.Outcome, res.Err)
	}
}

func TestASilentNameserverTimesOut(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	c := newTestClient(t, Options{Resolver: &net.Resolver{PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
		}}})
	res := try(t, c, post("http://slow.example.com/", quick))
	if res.Outcome != outcome.Timeout || res.Resolve < quick/2 {
		t.Errorf("got %s %s, resolving took %s", res.Outcome, res.Err, res.Resolve)
	}
}
