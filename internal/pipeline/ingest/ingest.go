// Package ingest is the stage that takes events, over HTTP (POST /v1/events) and
// over NATS (events.<tenant>.<type>). Both ways it answers only once EVENTS has
// stored an event, so an event that its producer was told is stored is never lost.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/platform/problem"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
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
	// MaxPending bounds the bytes of messages in hand, and again of those that
	// wait for that. Optional: 64 MiB.
	MaxPending int
	// DrainTimeout bounds a stop. Optional: 15 s.
	DrainTimeout time.Duration
	// IDs makes ingest answer at once, however long ago an id was taken; kept up to
	// date by whoever made it. Optional: what EVENTS remembers by itself.
	IDs eventlog.Positions
	// Log gets what cannot be answered to anybody. Optional: none.
	Log zerolog.Logger
	// Tracer of the publish. Optional: none.
	Tracer *tracing.Tracer
	// Now is the clock that assigns timestamps. Optional: time.Now.
	Now func() time.Time
}

// Ingest takes events. It is safe for concurrent use.
type Ingest struct {
	o       Options
	log     *eventlog.Log
	metrics *metrics
	room    *semaphore.Weighted // bytes of bodies
	front   *front
}

// New makes the stage. It answers HTTP once its routes are served, and NATS
// while Run works.
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
	if o.MaxPending == 0 {
		o.MaxPending = maxPending
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = drainTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	log, err := eventlog.New(o.NC, o.AckTimeout)
	if err != nil {
		return nil, err
	}
	if o.IDs != nil {
		log.Knowing(o.IDs)
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Ingest{o: o, log: log, metrics: m, room: semaphore.NewWeighted(o.MaxBuffered)}
	s.front, err = newFront(s)
	return s, err
}

// Routes adds POST /v1/events to mux.
func (s *Ingest) Routes(mux *http.ServeMux) { mux.Handle(Path, problem.Guard(s)) }

// Run takes events from NATS until ctx ends, and answers those in hand. The
// requests in hand are the HTTP server's to finish.
func (s *Ingest) Run(ctx context.Context) error { return s.front.run(ctx) }

// Listening is closed once Run takes events from NATS.
func (s *Ingest) Listening() <-chan struct{} { return s.front.listening }

// Ready says why no event can be taken now, or nil.
func (s *Ingest) Ready(ctx context.Context) error {
	select {
	case <-s.front.listening:
		return s.log.Writable(ctx)
	default:
		return errors.New("ingest does not listen to NATS yet")
	}
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
		p := problem.New(http.StatusServiceUnavailable, "overloaded",
			"too much is under way; publish again with the same id, a little later")
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
	trace := eventlog.TraceOf(r.Header.Values(streams.HeaderTraceparent), r.Header.Values(streams.HeaderTracestate))
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

func (s *Ingest) single(ctx context.Context, w http.ResponseWriter, tenant string, body []byte,
	trace eventlog.Trace) *problem.Problem {
	res, p := s.begin(s.log, eventlog.Draft{Tenant: tenant, Raw: body, Trace: trace}, nil).result(ctx)
	if p != nil {
		return p
	}
	problem.WriteJSON(w, res.Status, res.Accepted)
	return nil
}
