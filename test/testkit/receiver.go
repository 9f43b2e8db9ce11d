package testkit

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Receiver is a real HTTP server on this machine that verifies every request
// as receivers do. T is what a test wants to know of one.
type Receiver[T any] struct {
	*httptest.Server
	// Secret is what its requests are to be signed with.
	Secret string

	requests *seen[T]
}

// NewReceiver starts one, which ends with the test. read makes a T of a request;
// unsigned says why its signature does not verify. It counts as received before
// it is answered.
func NewReceiver[T any](t testing.TB, read func(r *http.Request, body []byte, unsigned error) T,
	answer func(http.ResponseWriter, T)) *Receiver[T] {
	t.Helper()
	key, err := envelope.GenerateHMAC(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := envelope.NewVerifier(key.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver[T]{Secret: key.Reveal(), requests: newSeen[T]()}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := read(req, body, verifier.Verify(req.Header, body))
		r.requests.add(got)
		answer(w, got)
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

// Got is what has come so far.
func (r *Receiver[T]) Got() []T { return r.requests.got() }

// WaitFor waits until n requests have come.
func (r *Receiver[T]) WaitFor(t testing.TB, n int) []T {
	t.Helper()
	return r.WaitUntil(t, "requests", func(got []T) bool { return len(got) >= n })
}

// WaitUntil waits until what has come satisfies a condition.
func (r *Receiver[T]) WaitUntil(t testing.TB, what string, cond func([]T) bool) (got []T) {
	t.Helper()
	if !r.requests.wait(func() bool { got = r.Got(); return cond(got) }) {
		t.Fatalf("waited for %s; %d came: %+v", what, len(got), got)
	}
	return got
}

// Loopback lets receivers on this machine be called.
func Loopback(t testing.TB) egress.Policy {
	t.Helper()
	p, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
