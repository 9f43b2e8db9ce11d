package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

const tenant = "default"

// load is what producers did, and were told.
type load struct {
	s *system
	// owed says which endpoints must get an event of a type.
	owed func(eventType string) []string

	mu        sync.Mutex // guards what follows
	published []invariants.Published
	replays   []invariants.Replayed
	contested []invariants.Contested
	tries     int
	refusals  map[string]int // what operators were told instead
}

func newLoad(s *system, owed func(string) []string) *load {
	return &load{s: s, owed: owed, refusals: map[string]int{}}
}

func (l *load) acknowledged(p invariants.Published) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published = append(l.published, p)
}

func (l *load) tried() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries++
}

// envelopeOf is an event whose data has what decoding and encoding would change.
func envelopeOf(id, eventType string, n int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"type":%q,"timestamp":"2026-08-19T15:10:00.000Z","data":{"n":%d,"big":12345678901234567890,"float":1.50,"z":"\u00e9", "a":[1, 2]}}`, id, eventType, n)
}

// eventTypes of the load; nobody subscribes to the last one.
var eventTypes = []string{"pay.captured", "pay.refunded", "order.placed", "order.shipped", "nobody.listens"}

// produceNATS publishes as a producer does, until ctx ends: each event again
// and again under its id, until it is acknowledged.
func (l *load) produceNATS(ctx context.Context, t *testing.T, name string, every time.Duration, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	nc, err := nats.Connect("nats://"+l.s.producers.addr(), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	for n := range ticks(ctx, every) {
		p := invariants.Published{ID: fmt.Sprintf("%s-%d", name, n), Invalid: r.IntN(50) == 0}
		eventType := eventTypes[r.IntN(len(eventTypes))]
		m := nats.NewMsg(streams.EventSubject(tenant, eventType))
		m.Header.Set(jetstream.MsgIDHeader, p.ID)
		m.Data = envelopeOf(p.ID, eventType, n)
		if p.Invalid {
			switch r.IntN(3) {
			case 0:
				m.Data = []byte("{")
			case 1:
				m.Data = envelopeOf(p.ID, "other.type", n)
			case 2:
				m.Header.Set(jetstream.MsgIDHeader, "not-"+p.ID)
			}
		} else {
			p.Owed = l.owed(eventType)
		}
		if r.IntN(20) == 0 {
			poison(m.Header, r)
		}
		l.untilStored(func() error {
			once, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := js.PublishMsg(once, m)
			if final := refusal(err); final != nil {
				if !p.Invalid {
					t.Errorf("ingest refused a valid event: %v", final)
				}
				return nil
			}
			if err == nil && p.Invalid {
				t.Errorf("ingest took an invalid event: %s", m.Data)
			}
			return err
		})
		l.acknowledged(p)
	}
}

// poison adds trace context that no HTTP request can carry, or none should.
func poison(h nats.Header, r *rand.Rand) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	states := []string{"a\x01b", "a=\x7f", "\u202e=\u009b", "a=" + strings.Repeat("x", 60_000)}
	h["traceparent"] = []string{[]string{parent, "x\x7fy"}[r.IntN(2)]}
	h["tracestate"] = []string{states[r.IntN(len(states))]}
}

// refusal is an answer that is final, or nil.
func refusal(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code < 500 {
		return err
	}
	return nil
}

// produceHTTP does the same over HTTP.
func (l *load) produceHTTP(ctx context.Context, t *testing.T, name string, every time.Duration, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	client := &http.Client{Timeout: 4 * time.Second}
	for n := range ticks(ctx, every) {
		id, eventType := fmt.Sprintf("%s-%d", name, n), eventTypes[r.IntN(len(eventTypes))]
		p := invariants.Published{ID: id, Owed: l.owed(eventType)}
		refused := false
		l.untilStored(func() error {
			req, err := http.NewRequest(http.MethodPost, "http://"+l.s.http+"/v1/events?tenant="+tenant,
				bytes.NewReader(envelopeOf(id, eventType, n)))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			if n%20 == 0 { // what a client of HTTP can send
				req.Header.Set("Traceparent", "hello")
				req.Header.Set("Tracestate", "a="+strings.Repeat("x", 60_000))
			}
			res, err := client.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			switch {
			case res.StatusCode/100 == 2:
				return nil
			case res.StatusCode < 500:
				t.Errorf("ingest refused a valid event: %d %s", res.StatusCode, text)
				refused = true
				return nil
			}
			return fmt.Errorf("status %d", res.StatusCode)
		})
		if !refused {
			l.acknowledged(p)
		}
	}
}

// untilStored repeats publish until it returns nil. Also when the run is over:
// what may be stored must be known to be.
func (l *load) untilStored(publish func() error) {
	deadline := time.Now().Add(patience)
	for {
		l.tried()
		err := publish()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.s.t.Errorf("an event could not be published for %s: %v", patience, err)
			return
		}
		pause := time.NewTimer(50 * time.Millisecond)
		<-pause.C
	}
}

// ticks yields 0, 1, 2 … until ctx ends.
func ticks(ctx context.Context, every time.Duration) func(func(int) bool) {
	return func(yield func(int) bool) {
		t := time.NewTicker(every)
		defer t.Stop()
		for n := 0; ; n++ {
			select {
			case <-t.C:
				if !yield(n) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// operate does what operators do: it disables and enables an endpoint, moves
// another to a new address, and asks for replays.
func (l *load) operate(ctx context.Context, seed uint64, toggled, moved *receiver) {
	r := rand.New(rand.NewPCG(seed, 3))
	off := false
	for n := range ticks(ctx, 300*time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		var err error
		switch r.IntN(4) {
		case 0:
			if off = !off; off {
				_, err = l.s.control.DisableEndpoint(once, toggled.endpoint, control.Stop{Reason: "maintenance", EndPending: true},
					"torture")
			} else {
				_, err = l.s.control.EnableEndpoint(once, toggled.endpoint, "torture", "")
			}
		case 1:
			url := fmt.Sprintf("%s/%d?secret=%d", moved.url(), n, n)
			patch := control.Patch(control.EndpointSpec{URL: url}, "url")
			_, err = l.s.control.UpdateEndpoint(once, moved.endpoint, patch, "torture", "moved")
		default:
			err = l.replay(once, r)
		}
		cancel()
		if err != nil {
			l.mu.Lock()
			l.refusals[clip(err.Error())]++
			l.mu.Unlock()
		}
	}
}

func (l *load) replay(ctx context.Context, r *rand.Rand) error {
	l.mu.Lock()
	// The older half: most of what was published last is still pending.
	var p invariants.Published
	if n := len(l.published) / 2; n > 0 {
		p = l.published[r.IntN(n)]
	}
	l.mu.Unlock()
	if len(p.Owed) == 0 {
		return nil
	}
	done, err := l.s.control.Replay(ctx, control.ReplayRequest{EventID: p.ID, Actor: "torture", Reason: "asked for"})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replays = append(l.replays, invariants.Replayed{ID: done.ID, EventID: p.ID, Targets: done.Targets})
	return nil
}

func clip(s string) string { return s[:min(len(s), 60)] }
