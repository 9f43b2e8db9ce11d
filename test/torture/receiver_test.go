package torture_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// receiver is an endpoint's server: a bare TCP listener, so that it can break
// HTTP in any way. It lives in the test process, which is never hurt.
type receiver struct {
	name     string
	secret   string
	verifier *envelope.Verifier
	behave   behaviour
	log      *requestLog
	addr     string
	t        *testing.T

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[net.Conn]struct{}
	endpoint string // its id, once it is created
}

// requestLog is what all receivers got.
type requestLog struct {
	mu       sync.Mutex
	requests []invariants.Request
	arrived  chan struct{} // closed and replaced on each request
}

func newRequestLog() *requestLog { return &requestLog{arrived: make(chan struct{})} }

func (l *requestLog) add(r invariants.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	close(l.arrived)
	l.arrived = make(chan struct{})
}

func (l *requestLog) all() ([]invariants.Request, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]invariants.Request(nil), l.requests...), l.arrived
}

// call is one request as a behaviour sees it.
type call struct {
	conn    net.Conn
	event   string
	attempt int
}

// behaviour answers a request, and says whether the connection stays open.
type behaviour func(c call) (open bool)

func newReceiver(t *testing.T, log *requestLog, name string, behave behaviour) *receiver {
	t.Helper()
	key, err := envelope.GenerateHMAC(rand.Reader)
	must(t, err)
	r := &receiver{t: t, name: name, secret: key.Reveal(), behave: behave, log: log, conns: map[net.Conn]struct{}{},
		addr: loopback.Address(t)}
	r.verifier, err = envelope.NewVerifier(r.secret)
	must(t, err)
	r.up()
	t.Cleanup(r.down)
	return r
}

// up listens; the address stays the same.
func (r *receiver) up() {
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.t.Errorf("receiver %s: %v", r.name, err)
		return
	}
	r.mu.Lock()
	r.listener, r.addr = l, l.Addr().String()
	r.mu.Unlock()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns[c] = struct{}{}
			r.mu.Unlock()
			go r.serve(c)
		}
	}()
}

// down stops listening and breaks every connection.
func (r *receiver) down() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *receiver) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		r.mu.Lock()
		delete(r.conns, c)
		r.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		at := time.Now()
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := r.note(at, req, body)
		if !r.behave(call{conn: c, event: got.EventID, attempt: got.Attempt}) {
			return
		}
	}
}

// note puts a request on the log before it is answered.
func (r *receiver) note(at time.Time, req *http.Request, body []byte) invariants.Request {
	var head struct {
		ID              string `json:"id"`
		Attempt         int    `json:"deliveryAttempt"`
		Type, Timestamp string
		Data            json.RawMessage
	}
	err := json.Unmarshal(body, &head)
	if err == nil {
		err = r.verifier.Verify(req.Header, body)
	}
	r.mu.Lock()
	endpoint := r.endpoint
	r.mu.Unlock()
	got := invariants.Request{EndpointID: endpoint, EventID: req.Header.Get("webhook-id"), BodyID: head.ID,
		Attempt: head.Attempt,
		Digest:  envelope.DigestHex(body), Content: fmt.Sprint(head.Type, " ", head.Timestamp, " ", string(head.Data)),
		At:        at,
		Signature: err, Answer: r.name}
	r.log.add(got)
	return got
}

func (r *receiver) url() string { return "http://" + r.addr + "/hooks" }

func (r *receiver) is(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoint = endpoint
}
