package torture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/streams"
)

// wideBound is how long an event for 50,000 endpoints may take, with kills.
const wideBound = 15 * time.Minute

// counter is a receiver for all endpoints: whose a request is stands in its URL.
type counter struct {
	mu       sync.Mutex             // guards what follows
	got      map[string]map[int]int // requests by endpoint and attempt
	requests int
	passed   chan struct{} // closed when as many requests as next have come
	next     int
}

func (c *counter) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		Attempt int `json:"deliveryAttempt"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	c.mu.Lock()
	defer c.mu.Unlock()
	id := r.URL.Query().Get("endpoint")
	if c.got[id] == nil {
		c.got[id] = map[int]int{}
	}
	c.got[id][body.Attempt]++
	if c.requests++; c.requests == c.next {
		close(c.passed)
	}
}

// after is closed when as many requests have come.
func (c *counter) after(n int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.passed = n, make(chan struct{})
	if c.requests >= n {
		close(c.passed)
	}
	return c.passed
}

// One event for very many endpoints, and everything is killed while it is
// expanded and delivered: it is owed to each once, each gets it, and no number has
// two requests.
func TestAnEventForManyEndpointsSurvivesKills(t *testing.T) {
	t.Parallel()
	n := *options.wide
	s := allInOne(t, "1s")
	c := &counter{got: map[string]map[int]int{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	ids := s.manyEndpoints(server.URL, n)
	first := c.after(n / 10)
	_, err := s.js.Publish(t.Context(), streams.IngestSubject(streams.EventSubject(tenant, "wide.event")),
		envelopeOf("wide-1", "wide.event", 1))
	must(t, err)
	up, bound := s.program("up"), time.After(wideBound)
	for i, reached := range []<-chan struct{}{first, nil, nil} {
		if reached == nil {
			reached = c.after((i*4 + 1) * n / 10)
		}
		select {
		case <-reached:
		case <-bound:
			t.Fatalf("only %d of %d requests came before kill %d", c.requests, n, i+1)
		}
		up.kill()
		up.start()
	}
	eventually(t, wideBound, "each endpoint got it", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.got) < n {
			return fmt.Errorf("%d of %d", len(c.got), n)
		}
		return nil
	})
	s.rest()
	rows, err := s.rows(t.Context())
	must(t, err)
	owed, delivered := map[string]int{}, map[string]int{}
	for _, row := range rows {
		switch r := row.Record; {
		case r.Kind == record.DeliveryOwed:
			owed[r.EndpointID]++
		case r.Kind == record.Attempt && r.Class == "delivered":
			delivered[r.EndpointID]++
		}
	}
	for i, id := range ids {
		if owed[id] != 1 || delivered[id] < 1 {
			t.Errorf("%s: owed %d times, delivered %d times", id, owed[id], delivered[id])
		}
		for attempt, requests := range c.got[strconv.Itoa(i)] {
			if requests > 1 {
				t.Errorf("%s: attempt %d was made %d times", id, attempt, requests)
			}
		}
	}
	if len(owed) != n || c.requests < n {
		t.Errorf("owed to %d endpoints, %d requests; want %d", len(owed), c.requests, n)
	}
	if out, err := s.completeness(t); err != nil || !out.Balanced {
		t.Errorf("audit completeness: %v, %v %v", err, out.Notes, out.Mismatches)
	}
	t.Logf("%d endpoints, %d requests, %d records", n, c.requests, len(rows))
}

// manyEndpoints makes n endpoints, many at a time, as an import does.
func (s *system) manyEndpoints(url string, n int) []string {
	s.t.Helper()
	made := make([]string, n)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range n {
		g.Go(func() error {
			e, err := s.control.CreateEndpoint(s.t.Context(), control.EndpointSpec{URL: fmt.Sprintf("%s/?endpoint=%d", url, i),
				Types: []string{"wide.>"}, Timeout: control.Duration(5 * time.Second), Policy: quick()}, "torture")
			made[i] = e.Endpoint.ID
			return err
		})
	}
	must(s.t, g.Wait())
	return made
}
