package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

const (
	// DefaultAckTimeout outlasts a slow fsync and a change of leader; past it
	// the producer is told, who knows best whether to try again.
	DefaultAckTimeout = 5 * time.Second
	// window is how many unacknowledged events are kept under way. It protects
	// the server from an unbounded backlog in memory.
	window = 8192
	// stallWait is how long a publish waits for room in the window.
	stallWait = time.Second
)

// ErrNotStored says that EVENTS does not hold what was asked for.
var ErrNotStored = errors.New("EVENTS does not hold this event")

// UnavailableError says that an event is not known to be stored. It may be
// stored all the same, unless NotSent: publishing it again under the same id is
// safe, for then it is recognised.
type UnavailableError struct {
	Full    bool // EVENTS, or its disk, has no room
	NotSent bool
	Err     error
}

func (e *UnavailableError) Error() string {
	switch {
	case e.Full:
		return fmt.Sprintf("the event was not stored: EVENTS has no room (%v); make room, then publish again with the same id", e.Err)
	case e.NotSent:
		return fmt.Sprintf("the event was not stored: NATS is away (%v); publish again with the same id", e.Err)
	}
	return fmt.Sprintf("the event is not known to be stored (%v); publish again with the same id: if it was stored, it "+
		"is recognised as a duplicate", e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// Log is EVENTS. It is safe for concurrent use.
type Log struct {
	nc *nats.Conn
	js jetstream.JetStream
	// leader reads from the stream's leader: a replica may not have a message yet.
	leader nats.JetStreamContext
	at     Positions // nil: not known
	bound  time.Duration
}

// New makes a log on a connection, with an acknowledgement window of its own.
// ackTimeout bounds the wait for one event's acknowledgement; 0 is DefaultAckTimeout.
func New(nc *nats.Conn, ackTimeout time.Duration) (*Log, error) {
	if ackTimeout == 0 {
		ackTimeout = DefaultAckTimeout
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	leader, err := nc.JetStream(nats.MaxWait(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("event log: %w", err)
	}
	return &Log{nc: nc, js: js, leader: leader, bound: ackTimeout}, nil
}

// Stored says where EVENTS has an event.
type Stored struct {
	Seq uint64
	// Duplicate: this very event was stored before, at Seq.
	Duplicate bool
}

// Pending is an event whose acknowledgement has not come yet.
type Pending struct {
	log    *Log
	entry  Entry
	owner  *Owner // to whom the id belongs; nil: it was sent
	future jetstream.PubAckFuture
	err    error
}

// Append stores one event. See Begin and Wait.
func (l *Log) Append(ctx context.Context, e Entry) (Stored, error) { return l.Begin(e).Wait(ctx) }

// Begin sends an event, and does not wait. Events that are begun one after the
// other are stored in that order.
func (l *Log) Begin(e Entry) *Pending {
	p := &Pending{log: l, entry: e}
	if p.owner = l.known(e); p.owner == nil {
		p.future, p.err = l.send(e.message())
	}
	return p
}

func (l *Log) send(m *nats.Msg) (jetstream.PubAckFuture, error) {
	if s := l.nc.Status(); s != nats.CONNECTED {
		// The client would keep it and send it on reconnecting, long after the
		// producer has been told that it failed.
		return nil, &UnavailableError{NotSent: true, Err: fmt.Errorf("the connection is %s", s)}
	}
	f, err := l.js.PublishMsgAsync(m, jetstream.WithStallWait(stallWait))
	if err != nil {
		return nil, l.explain(len(m.Data), err)
	}
	return f, nil
}

// Err is why the event could not be sent at all, or nil.
func (p *Pending) Err() error { return p.err }

// Wait returns once EVENTS has stored the event, or had it before. Errors:
// *InUseError, *UnavailableError, *TooLargeError.
func (p *Pending) Wait(ctx context.Context) (Stored, error) {
	if p.err != nil {
		return Stored{}, p.err
	}
	if p.owner != nil {
		return p.log.compare(ctx, p.entry, p.owner.Message)
	}
	ack, err := p.log.wait(ctx, p.future)
	switch {
	case err != nil:
		return Stored{}, err
	case ack.Duplicate:
		return p.log.recognise(ctx, p.entry, ack.Sequence)
	}
	return Stored{Seq: ack.Sequence}, nil
}

func (l *Log) wait(ctx context.Context, f jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	select {
	case ack := <-f.Ok():
		if ack.Stream != streams.Events {
			return nil, &UnavailableError{Err: fmt.Errorf("subject %s belongs to stream %s, not %s; mend it with: waybill "+
				"streams apply",
				f.Msg().Subject, ack.Stream, streams.Events)}
		}
		return ack, nil
	case err := <-f.Err():
		return nil, l.explain(len(f.Msg().Data), err)
	case <-ctx.Done():
		return nil, &UnavailableError{Err: context.Cause(ctx)}
	}
}

// recognise tells the same event, published again, from a different one under
// the same id, which JetStream dropped and which nobody would ever miss.
func (l *Log) recognise(ctx context.Context, e Entry, seq uint64) (Stored, error) {
	m, err := l.Read(ctx, seq)
	if err != nil && !errors.Is(err, ErrNotStored) {
		return Stored{}, &UnavailableError{Err: err}
	}
	return l.compare(ctx, e, m)
}

// compare tells e from the event that has its id: whether that is e.
func (l *Log) compare(ctx context.Context, e Entry, m Message) (Stored, error) {
	if e.same(m.Subject, m.Header, m.Body) {
		return Stored{Seq: m.Seq, Duplicate: true}, nil
	}
	// Its producer is told only once it is on record: if we die before, it is
	// published again, and refused again.
	inUse := &InUseError{e.Event.ID}
	if err := l.Refuse(ctx, e.refusal(inUse)); err != nil {
		return Stored{}, err
	}
	return Stored{}, inUse
}

// Message is an event as EVENTS holds it.
type Message struct {
	Seq      uint64
	Subject  string
	Header   nats.Header
	Body     []byte
	StoredAt time.Time
}

// Read returns what EVENTS holds at a sequence, or ErrNotStored.
func (l *Log) Read(ctx context.Context, seq uint64) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	m, err := l.leader.GetMsg(streams.Events, seq, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) {
		return Message{}, ErrNotStored
	}
	if err != nil {
		return Message{}, fmt.Errorf("reading %s at %d: %w", streams.Events, seq, err)
	}
	return Message{Seq: m.Sequence, Subject: m.Subject, Header: m.Header, Body: m.Data, StoredAt: m.Time.UTC()}, nil
}

func (l *Log) explain(size int, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &TooLargeError{size, int(l.nc.MaxPayload())}
	case errors.As(err, &api) && full(api.ErrorCode):
		return &UnavailableError{Full: true, Err: err}
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return &UnavailableError{NotSent: true, Err: fmt.Errorf("stream %s does not answer; see: waybill doctor",
			streams.Events)}
	}
	return &UnavailableError{Err: err}
}

// Writable says why EVENTS takes nothing now, or nil: without a leader, which
// alone answers for a stream, nothing is stored.
func (l *Log) Writable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	if _, err := l.js.Stream(ctx, streams.Events); err != nil {
		return fmt.Errorf("stream %s does not answer, so no event can be stored: %w; see: waybill doctor", streams.Events,
			err)
	}
	return nil
}

// full: the codes of a stream at its limits and of a server without room.
func full(code jetstream.ErrorCode) bool {
	const (
		insufficientResources = 10023
		storageExceeded       = 10047
		storeFailed           = 10077 // also "maximum bytes exceeded"
	)
	return code == insufficientResources || code == storageExceeded || code == storeFailed
}
