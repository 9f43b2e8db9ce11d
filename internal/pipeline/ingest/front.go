package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// maxPending bounds the messages in hand, and those that wait: together no
	// more than HTTP takes.
	maxPending = 64 << 20
	// maxWaiting bounds how many messages wait, for small ones.
	maxWaiting = 1 << 16
	// messageCost is what a message in hand takes besides its bytes, so that at
	// most maxPending/messageCost are in hand: fewer than EVENTS' window, so that
	// none waits for room in it and holds up the next.
	messageCost = 16 << 10
	// registerPause is the pause between two looks at a server that is away.
	registerPause = 100 * time.Millisecond
	// drainTimeout bounds a stop.
	drainTimeout = 15 * time.Second
)

// front takes events from NATS. All ingests listen as one group: each message
// comes to one of them.
type front struct {
	s         *Ingest
	log       *eventlog.Log // of its own: HTTP's backlog is not in its way
	room      *semaphore.Weighted
	inHand    sync.WaitGroup
	listening chan struct{}
	sub       atomic.Pointer[nats.Subscription]
	lost      atomic.Int64 // dropped, as last seen
}

func newFront(s *Ingest) (*front, error) {
	log, err := eventlog.New(s.o.NC, s.o.AckTimeout)
	if err != nil {
		return nil, err
	}
	f := &front{s: s, log: log, room: semaphore.NewWeighted(int64(s.o.MaxPending)), listening: make(chan struct{})}
	return f, s.metrics.watch(s.o.Metrics, f.dropped)
}

// dropped counts the messages that the client library dropped because too many
// waited. Nobody was told that they were stored.
func (f *front) dropped() float64 {
	sub := f.sub.Load()
	if sub == nil {
		return 0
	}
	if n, err := sub.Dropped(); err == nil { // else it has ended
		f.lost.Store(int64(n))
	}
	return float64(f.lost.Load())
}

// run listens until ctx ends, then takes what has arrived and answers it. What
// is published after that goes to another ingest, or its producer is told that
// nobody listens.
func (f *front) run(ctx context.Context) error {
	nc := f.s.o.NC
	sub, err := nc.QueueSubscribe(streams.EventSubjects, streams.IngestQueue, f.take)
	if err != nil {
		return fmt.Errorf("ingest: listening to %s: %w", streams.EventSubjects, err)
	}
	ended := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(ended) })
	if err := sub.SetPendingLimits(maxWaiting, f.s.o.MaxPending); err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	f.sub.Store(sub)
	slow := sub.StatusChanged(nats.SubscriptionSlowConsumer)
	if err := f.registered(ctx); err != nil {
		return err
	}
	close(f.listening)
	for ctx.Err() == nil {
		select {
		case _, open := <-slow:
			if !open { // the subscription has ended, with its connection
				slow = nil
				continue
			}
			f.s.o.Log.Error().Float64("dropped", f.dropped()).Msg(logevent.IngestEventsDropped)
		case <-ctx.Done():
		}
	}
	return f.drain(sub, ended)
}

// registered returns once the server knows that we listen.
func (f *front) registered(ctx context.Context) error {
	for {
		err := f.s.o.NC.FlushTimeout(eventlog.DefaultAckTimeout)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case f.s.o.NC.IsClosed():
			return fmt.Errorf("ingest: listening to %s: %w", streams.EventSubjects, err)
		}
		select { // the server is away, or stalls
		case <-time.After(registerPause):
		case <-ctx.Done():
		}
	}
}

func (f *front) drain(sub *nats.Subscription, ended <-chan struct{}) error {
	if err := sub.Drain(); err != nil {
		return nil // the connection is closed: nothing comes any more
	}
	limit := time.NewTimer(f.s.o.DrainTimeout)
	defer limit.Stop()
	answered := make(chan struct{})
	go func() { <-ended; f.inHand.Wait(); close(answered) }()
	select {
	case <-answered:
		return nil
	case <-limit.C:
		return errors.New("ingest: events were in hand at the end of the stop; their producers were not answered")
	}
}

// take is called for one message after the other. It waits while too much is in
// hand; then the next ones wait in the client library, and past that are
// dropped there, unanswered.
func (f *front) take(m *nats.Msg) {
	cost := min(int64(len(m.Data)+messageCost), int64(f.s.o.MaxPending))
	if err := f.room.Acquire(context.Background(), cost); err != nil {
		return // it never ends without room
	}
	f.inHand.Add(1)
	draft, err := eventlog.ReadMessage(m)
	a := &attempt{s: f.s, refused: err}
	if err == nil {
		a = f.s.begin(f.log, draft, nil)
	}
	go func() {
		defer f.inHand.Done()
		defer f.room.Release(cost)
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		stored, err := a.wait(ctx)
		if err != nil {
			err = f.refuse(ctx, m, err)
		}
		f.answer(m, a.entry.Event.ID, stored, err)
	}()
}

// refuse stores a message that was refused, so that it goes on record; only
// then its producer is told. If that fails, the producer is told to try again.
func (f *front) refuse(ctx context.Context, m *nats.Msg, why error) error {
	reason, _, refused := eventlog.ReasonOf(why)
	if !refused || reason == outcome.ReasonIDInUse { // which is stored already
		return why
	}
	if err := f.log.Refuse(ctx, eventlog.RefusalOf(m, why)); err != nil {
		return err
	}
	return why
}

// Answer is what a producer gets on its message's reply subject: what JetStream
// answers to a publish, so that clients of JetStream understand it.
type Answer struct {
	Stream    string `json:"stream,omitempty"`
	Seq       uint64 `json:"seq,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	// ID is the event's: its producer may have left it out.
	ID    string       `json:"id,omitempty"`
	Error *AnswerError `json:"error,omitempty"`
}

// AnswerError has the form of an error of the JetStream API.
type AnswerError struct {
	Code        int    `json:"code"`     // as HTTP has it: 400 to 499 is final, 503 may pass
	ErrCode     uint16 `json:"err_code"` // says which, see ErrCodes
	Description string `json:"description"`
}

// ErrCodes of answers, by reason. JetStream's own are below 20000. They never change.
var ErrCodes = map[outcome.Reason]uint16{
	outcome.ReasonInvalidEvent: 30001, outcome.ReasonPayloadTooLarge: 30002, outcome.ReasonSubjectMismatch: 30003,
	outcome.ReasonIDMismatch: 30004, outcome.ReasonIDInUse: 30005, outcome.ReasonUnsupportedHeader: 30006,
	"unavailable": 30101, "full": 30102,
}

// answerOf says what became of a message.
func answerOf(id string, stored eventlog.Stored, err error) Answer {
	if err == nil {
		return Answer{Stream: streams.Events, Seq: stored.Seq, Duplicate: stored.Duplicate, ID: id}
	}
	p := problemOf(err)
	reason, _, refused := eventlog.ReasonOf(err)
	code := http.StatusBadRequest
	switch {
	case !refused:
		reason, code = outcome.Reason(p.Code), http.StatusServiceUnavailable
	case reason == outcome.ReasonIDInUse, reason == outcome.ReasonPayloadTooLarge:
		code = p.Status
	}
	return Answer{ID: id, Error: &AnswerError{Code: code, ErrCode: ErrCodes[reason],
		Description: string(reason) + ": " + err.Error()}}
}

// answer tells the producer, if it listens. An answer that is lost is as one
// that never came: the producer publishes again, under the same id.
func (f *front) answer(m *nats.Msg, id string, stored eventlog.Stored, err error) {
	listens := strings.HasPrefix(m.Reply, streams.InboxPrefix)
	if err != nil {
		p := problemOf(err)
		f.s.metrics.refused(p)
		if !listens && p.Status == http.StatusServiceUnavailable {
			// Nobody else hears of it.
			f.s.o.Log.Error().Err(err).Str("subject", fmt.Sprintf("%.300s", m.Subject)).Msg(logevent.IngestEventNotStored)
		}
	}
	if !listens {
		return
	}
	body, failed := json.Marshal(answerOf(id, stored, err))
	if failed == nil {
		failed = f.s.o.NC.Publish(m.Reply, body)
	}
	if failed != nil {
		f.s.o.Log.Warn().Err(failed).Msg(logevent.IngestAnswerLost)
	}
}
