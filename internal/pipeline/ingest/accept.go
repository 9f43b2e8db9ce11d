package ingest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/platform/problem"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Accepted is the answer to an event that is stored.
type Accepted struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Type   string `json:"type"`
	// Duplicate: this very event was stored before; nothing was added.
	Duplicate bool   `json:"duplicate"`
	Seq       uint64 `json:"seq"` // its position in EVENTS
}

// Result is what became of one event of a request.
type Result struct {
	Index  int `json:"index"`
	Status int `json:"status"` // 202, 200 for a duplicate, else its problem's
	*Accepted
	Problem *problem.Problem `json:"problem,omitempty"`
}

// attempt is one event between its reading and its answer.
type attempt struct {
	s       *Ingest
	entry   eventlog.Entry
	pending *eventlog.Pending
	began   time.Time
	span    *tracing.Span
	refused error // by what it says
	away    error // why nothing can be sent now, this event included
}

// begin reads an event and sends it, unless away says that nothing can be
// sent; wait says what became of it.
func (s *Ingest) begin(log *eventlog.Log, d eventlog.Draft, away error) *attempt {
	a := &attempt{s: s, began: time.Now(), away: away}
	entry, err := eventlog.Prepare(d, s.o.MaxEventBytes, s.o.Now())
	if err != nil {
		a.refused = err
		return a
	}
	a.span = s.o.Tracer.Start("publish", tracing.Producer, tracing.Context(d.Trace), tracing.Context{}).
		Text("messaging.system", "nats").Text("messaging.destination.name", streams.Events).Text("waybill.tenant",
		entry.Tenant).
		Text("waybill.event_id", entry.Event.ID).Text("waybill.event_type", entry.Event.Type)
	entry.Trace = eventlog.Trace(a.span.Context(tracing.Context(d.Trace)))
	a.entry = entry
	if away != nil {
		return a
	}
	a.pending = log.Begin(entry)
	var unavailable *eventlog.UnavailableError
	if errors.As(a.pending.Err(), &unavailable) {
		a.away = unavailable
	}
	return a
}

// wait returns once the event is stored, or cannot be said to be.
func (a *attempt) wait(ctx context.Context) (eventlog.Stored, error) {
	if a.refused != nil {
		return eventlog.Stored{}, a.refused
	}
	defer a.span.End()
	stored, err := eventlog.Stored{}, a.away
	if err == nil {
		stored, err = a.pending.Wait(ctx)
	}
	if err != nil {
		a.span.Failed(problemOf(err).Code)
		return stored, err
	}
	a.s.metrics.stored(stored.Duplicate, time.Since(a.began))
	return stored, nil
}

// result is wait's answer over HTTP.
func (a *attempt) result(ctx context.Context) (Result, *problem.Problem) {
	stored, err := a.wait(ctx)
	if err != nil {
		p := problemOf(err)
		p.EventID = a.entry.Event.ID
		return Result{}, p
	}
	res := Result{Status: http.StatusAccepted, Accepted: &Accepted{ID: a.entry.Event.ID, Tenant: a.entry.Tenant,
		Type: a.entry.Event.Type, Duplicate: stored.Duplicate, Seq: stored.Seq}}
	if stored.Duplicate {
		res.Status = http.StatusOK
	}
	return res, nil
}

// problemOf says to a producer why an event is not accepted.
func problemOf(err error) *problem.Problem {
	var field *envelope.FieldError
	var large *eventlog.TooLargeError
	var inUse *eventlog.InUseError
	var mismatch *eventlog.MismatchError
	var away *eventlog.UnavailableError
	switch {
	case errors.As(err, &field) && field.Field == "event":
		return problem.New(http.StatusBadRequest, "malformed", err.Error()).Of(field.Field)
	case errors.As(err, &field):
		return problem.New(http.StatusUnprocessableEntity, "invalid", err.Error()).Of(field.Field)
	case errors.As(err, &large):
		return problem.New(http.StatusRequestEntityTooLarge, "too_large", err.Error())
	case errors.As(err, &inUse):
		return problem.New(http.StatusConflict, string(outcome.ReasonIDInUse), err.Error()).Of("id")
	case errors.As(err, &mismatch):
		return problem.New(http.StatusUnprocessableEntity, string(mismatch.Reason), err.Error()).Of(mismatch.Field)
	}
	code := "unavailable"
	if errors.As(err, &away) && away.Full {
		code = "full"
	}
	p := problem.New(http.StatusServiceUnavailable, code, err.Error())
	p.RetryAfter = retryAfter
	return p
}
