// Package ingest is the stage that takes events over HTTP: POST /v1/events. It
// answers only once EVENTS has stored an event, so an event whose producer was
// answered 200 or 202 is never lost.
package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/eventlog"
	"github.com/waybill-dev/waybill/internal/problem"
	"github.com/waybill-dev/waybill/internal/tracing"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Path is where events are posted.
const Path = "/v1/events"

// Limits of a batch.
const (
	// MaxBatchEvents keeps one answer within seconds, and readable.
	MaxBatchEvents = 1000
	// MaxBatchBytes bounds the memory that one request takes.
	MaxBatchBytes = 8 << 20
)

const (
	// bodyTimeout bounds the reading of a body: a client that sends a byte at a
	// time MUST NOT hold memory for ever.
	bodyTimeout = 20 * time.Second
	// answerTimeout bounds a request once its body is read. It outlasts the
	// wait for one acknowledgement and the look at a stored duplicate.
	answerTimeout = 3 * eventlog.DefaultAckTimeout
	// retryAfter is what a producer is asked to wait when an event cannot be
	// stored: long enough for a change of leader.
	retryAfter = 2 * time.Second
	// maxBuffered bounds the bodies in memory, all requests together. Past it
	// producers are asked to wait, rather than the process be killed with what
	// others have in hand.
	maxBuffered = 256 << 20
)

// Options of New. All are required unless marked Optional.
type Options struct {
	NC      *nats.Conn
	Metrics prometheus.Registerer
	// MaxEventBytes bounds one event. Optional: envelope.MaxEventBytes.
	MaxEventBytes int
	// AckTimeout bounds the wait for an acknowledgement. Optional: eventlog.DefaultAckTimeout.
	AckTimeout time.Duration
	// BodyTimeout bounds the reading of a request's body. Optional: 20 s.
	BodyTimeout time.Duration
	// MaxBuffered bounds the bytes of bodies in memory at once. Optional: 256 MiB.
	MaxBuffered int64
	// Tracer of the publish. Optional: none.
	Tracer *tracing.Tracer
	// Now is the clock that assigns timestamps. Optional: time.Now.
	Now func() time.Time
}

// Ingest takes events over HTTP. It is safe for concurrent use.
type Ingest struct {
	o       Options
	log     *eventlog.Log
	metrics *metrics
	room    *semaphore.Weighted // bytes of bodies
}

// New makes the stage. It answers once its Handler is served.
func New(o Options) (*Ingest, error) {
	if o.NC == nil || o.Metrics == nil {
		return nil, fmt.Errorf("ingest: an option is missing")
	}
	if o.MaxEventBytes == 0 {
		o.MaxEventBytes = envelope.MaxEventBytes
	}
	if o.BodyTimeout == 0 {
		o.BodyTimeout = bodyTimeout
	}
	if o.MaxBuffered == 0 {
		o.MaxBuffered = maxBuffered
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	log, err := eventlog.New(o.NC, o.AckTimeout)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	return &Ingest{o: o, log: log, metrics: m, room: semaphore.NewWeighted(o.MaxBuffered)}, nil
}

// Routes adds POST /v1/events to mux.
func (s *Ingest) Routes(mux *http.ServeMux) { mux.Handle(Path, problem.Guard(s)) }

// Run works until ctx ends. The requests in hand are the HTTP server's to finish.
func (s *Ingest) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// ServeHTTP answers one request: see docs/api.md.
func (s *Ingest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		problem.MethodNotAllowed(r.Method, http.MethodPost).Write(w)
		return
	}
	tenant, p := tenantOf(r)
	if p == nil {
		p = s.accept(w, r, tenant)
	}
	if p != nil {
		s.metrics.refused(p)
		p.Write(w)
	}
}

// accept reads the body and stores what it holds. What it returns is still to
// be answered; nil means that it has answered.
func (s *Ingest) accept(w http.ResponseWriter, r *http.Request, tenant string) *problem.Problem {
	lines, p := ndjson(r)
	if p != nil {
		return p
	}
	takes := s.bytesOf(r)
	if !s.room.TryAcquire(takes) {
		p := problem.New(http.StatusServiceUnavailable, "overloaded", "too much is under way; publish again with the same id, a little later")
		p.RetryAfter = retryAfter
		return p
	}
	defer s.room.Release(takes)
	body, p := s.read(w, r)
	if p != nil {
		return p
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	trace := eventlog.Trace{Parent: r.Header.Get(streams.HeaderTraceparent), State: strings.Join(r.Header.Values(streams.HeaderTracestate), ",")}
	switch {
	case lines:
		items, err := splitLines(body)
		if err != nil {
			return err
		}
		return s.batch(ctx, w, tenant, items, trace)
	case isBatch(body):
		items, err := splitBatch(body)
		if err != nil {
			return err
		}
		return s.batch(ctx, w, tenant, items, trace)
	}
	return s.single(ctx, w, tenant, body, trace)
}

func (s *Ingest) single(ctx context.Context, w http.ResponseWriter, tenant string, body []byte, trace eventlog.Trace) *problem.Problem {
	res, p := s.begin(tenant, body, trace, nil).wait(ctx)
	if p != nil {
		return p
	}
	problem.WriteJSON(w, res.Status, res.Accepted)
	return nil
}
