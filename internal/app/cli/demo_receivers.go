package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// receiver is one that somebody might have: it verifies what it gets and
// remembers the digest of the bytes.
type receiver struct {
	name, does string
	timeout    time.Duration
	delays     []time.Duration // Optional: schedule of attempts
	// answer returns the status for the n-th request of an event; 0 never answers.
	answer func(n int) int

	server   *httptest.Server
	endpoint control.Endpoint
	stop     chan struct{}

	mu       sync.Mutex // guards what follows
	verifier *envelope.Verifier
	requests map[string]int       // by event
	digests  map[attemptAt]string // of the bytes received
	good     int                  // requests whose signature is right
	bad      []string             // what was wrong with the others
}

type attemptAt struct {
	event  string
	number int
}

func demoReceivers() []*receiver {
	always := func(status int) func(int) int { return func(int) int { return status } }
	seconds := func(list ...int) (out []time.Duration) {
		for _, s := range list {
			out = append(out, time.Duration(s)*time.Second)
		}
		return out
	}
	return []*receiver{
		{name: "healthy", does: "answers 200", answer: always(http.StatusOK)},
		{name: "flaky", does: "answers 503 twice, then 200", delays: seconds(1, 1, 2), answer: func(n int) int {
			if n <= 2 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}},
		{name: "rejecting", does: "always answers 422", answer: always(http.StatusUnprocessableEntity)},
		{name: "hanging", does: "never answers", timeout: time.Second, delays: seconds(1), answer: always(0)},
	}
}

func (d *demo) startReceivers(ctx context.Context) error {
	d.receivers = demoReceivers()
	t := table{header: []string{"RECEIVER", "DOES", "AT", "SCHEDULE"}}
	for _, r := range d.receivers {
		if err := r.start(ctx, d.ctl); err != nil {
			return err
		}
		t.add(r.name, r.does, r.server.URL, r.schedule())
	}
	d.say("\n1. Four receivers on this machine, each an endpoint of its own:\n")
	return t.write(indented{d.out, "   "}, "")
}

func (r *receiver) schedule() string {
	if r.delays == nil {
		return "standard: 8 attempts in 33 h"
	}
	return fmt.Sprintf("again after %v", r.delays)
}

// start listens and registers the endpoint; the secret that this gives is what
// requests are verified with.
func (r *receiver) start(ctx context.Context, ctl *control.Control) error {
	r.stop = make(chan struct{})
	r.requests, r.digests = map[string]int{}, map[attemptAt]string{}
	r.server = httptest.NewServer(r)
	spec := control.EndpointSpec{Tenant: demoTenant, URL: r.server.URL + "/" + r.name, Types: []string{">"},
		Description: "waybill demo: " + r.name, Timeout: control.Duration(r.timeout)}
	if r.delays != nil {
		spec.Policy = &retry.Policy{Name: "demo", Delays: r.delays}
	}
	made, err := ctl.CreateEndpoint(ctx, spec, demoActor)
	if err != nil {
		return err
	}
	verifier, err := envelope.NewVerifier(made.Secret)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoint, r.verifier = made.Endpoint, verifier
	return nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err != nil {
		return
	}
	status := r.answer(r.note(req.Header, body))
	if status == 0 {
		select {
		case <-req.Context().Done():
		case <-r.stop:
		}
		return
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s receiver: %d\n", r.name, status)
}

// note verifies a request and returns how many this event has had.
func (r *receiver) note(header http.Header, body []byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var got envelope.Delivery
	err := r.verifier.Verify(header, body)
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	if err != nil {
		r.bad = append(r.bad, err.Error())
		return 0
	}
	r.good++
	r.requests[got.ID]++
	r.digests[attemptAt{got.ID, got.DeliveryAttempt}] = envelope.DigestHex(body)
	return r.requests[got.ID]
}

func (d *demo) stopReceivers() {
	for _, r := range d.receivers {
		if r.server != nil {
			close(r.stop)
			r.server.Close()
		}
	}
}
