package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// pullBytes bounds what is under way from the server to the sink.
	pullBytes = 16 << 20
	// heartbeat is how often the server says that it is there: after two that
	// are missing, the session ends and the position is found again.
	heartbeat = 2 * time.Second
	// lookAfter is how long nothing has come when the reader asks whether something
	// was lost on the way: the consumer acknowledges nothing, so of a message that
	// is lost the next one tells, and after the last one there is none. It is
	// longer than two heartbeats, which tell of a server that is away.
	lookAfter = 3 * heartbeat
	// forgetAfter is when the server removes the consumer of a sink that is
	// gone; until then it shows how far behind the sink was.
	forgetAfter = 24 * time.Hour
)

// batch is what is inserted next.
type batch struct {
	rows  []ledger.Row
	bytes int
	began time.Time
	// askers want to know when this batch, and those before it, are stored.
	askers []*nats.Msg
}

// reader reads the stream in order, one batch ahead of the writer, and gives
// each new record its index.
//
// Its consumer keeps no state that the sink relies on: it is made for the
// session, in memory, acknowledges nothing, and its loss is how the session
// learns that the server restarted or the stream was made anew.
type reader struct {
	sink    *Sink
	at      start
	stored  ledger.Position // where ClickHouse stood when the session began
	known   *recent
	batches chan batch
	failed  chan error // one error, then nothing more
	stop    context.CancelFunc
	done    sync.WaitGroup
	pace    pace

	// What follows belongs to the reading goroutine.
	messages     jetstream.MessagesContext
	consumer     jetstream.Consumer
	next         uint64 // index of the next new record
	expected     uint64 // sequence in the stream
	expectedRead uint64 // sequence in the consumer
	missed       uint64 // expected, when it was last delivered without having come; 0: it was not
	filled       int    // records in the last batch, which the next one makes room for
}

// open makes the consumer and starts to read.
func (s *Sink) open(ctx context.Context, stored ledger.Position, at start, known *recent) (*reader, error) {
	c, err := s.consumer(ctx, at)
	if err != nil {
		return nil, err
	}
	// The stream may have changed between being looked at and being consumed.
	again, err := s.locate(ctx, stored)
	if err != nil {
		return nil, err
	}
	if again.epoch != at.epoch || again.seq != at.seq {
		return nil, fmt.Errorf("%w: it changed while it was opened", errReading)
	}
	messages, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(max(s.o.BatchRecords, 2),
		max(pullBytes, 2*int(s.o.NATS.MaxPayload()))),
		jetstream.PullExpiry(4*heartbeat), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReading, err)
	}
	ctx, stop := context.WithCancel(ctx)
	r := &reader{sink: s, at: at, stored: stored, known: known, messages: messages, consumer: c, stop: stop,
		batches: make(chan batch), failed: make(chan error, 1), next: stored.Next, expected: at.seq, expectedRead: 1,
		pace: pace{age: s.o.BatchAge}}
	asked, err := s.o.NATS.Subscribe(streams.LedgerWanted, r.pace.ask)
	if err != nil {
		stop()
		messages.Stop()
		return nil, fmt.Errorf("%w: %w", errReading, err)
	}
	r.done.Go(func() {
		defer messages.Stop()
		defer func() { _ = asked.Unsubscribe() }()
		r.failed <- r.run(ctx)
	})
	return r, nil
}

// consumer replaces the one of an earlier session, this sink's or another's.
func (s *Sink) consumer(ctx context.Context, at start) (jetstream.Consumer, error) {
	err := at.stream.DeleteConsumer(ctx, streams.LedgerSinkConsumer)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("%w: %w", errReading, err)
	}
	c, err := at.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name:              streams.LedgerSinkConsumer,
		Description:       "Read by " + s.o.Name,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       at.seq,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: forgetAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errReading, err)
	}
	return c, nil
}

// close ends the reading; what was read and not inserted stays in the stream.
func (r *reader) close() {
	r.stop()
	r.messages.Stop()
	r.done.Wait()
}

func (r *reader) run(ctx context.Context) error {
	for {
		b, err := r.fill(ctx)
		if err != nil {
			return err
		}
		if len(b.rows) == 0 && len(b.askers) == 0 {
			continue
		}
		select {
		case r.batches <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fill collects one batch: until it is large, or its time has come.
func (r *reader) fill(ctx context.Context) (batch, error) {
	o := &r.sink.o
	b := batch{rows: make([]ledger.Row, 0, min(o.BatchRecords, r.filled+r.filled/4+16))}
	defer func() { r.filled = len(b.rows) }()
	until, end := context.WithCancel(ctx)
	defer end()
	r.pace.begin(end)
	for len(b.rows) < o.BatchRecords && b.bytes < o.BatchBytes {
		m, err := r.await(until)
		if until.Err() != nil && ctx.Err() == nil && errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			return b, fmt.Errorf("%w: %w", errReading, err)
		}
		if err := r.take(ctx, &b, m); err != nil {
			return b, err
		}
		if len(b.rows) == 1 {
			r.pace.first(b.began, end)
		}
	}
	b.askers = r.pace.end(len(b.rows) > 0)
	return b, nil
}

// await is the next message. While none comes it looks whether one was lost.
func (r *reader) await(ctx context.Context) (jetstream.Msg, error) {
	for {
		bounded, cancel := context.WithTimeout(ctx, lookAfter)
		m, err := r.messages.Next(jetstream.NextContext(bounded))
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return m, err
		}
		if err := r.lost(ctx); err != nil {
			return nil, err
		}
	}
}

// lost fails if the server has delivered what is expected, and that has not come
// since it was asked before: the session ends then, and its place is found again.
func (r *reader) lost(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, lookAfter)
	defer cancel()
	info, err := r.consumer.Info(bounded)
	if err != nil {
		return nil // a server that does not answer is the heartbeats' to notice
	}
	switch {
	case info.Delivered.Stream < r.expected:
		r.missed = 0
	case r.missed == r.expected:
		return fmt.Errorf("%w: message %d of LEDGER was sent and did not come; it was lost on the way", errReading,
			r.expected)
	default:
		r.missed = r.expected // it may be on its way
	}
	return nil
}

// take adds a message to the batch, unless its record is known.
func (r *reader) take(ctx context.Context, b *batch, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("%w: %w", errReading, err)
	}
	if meta.Sequence.Consumer != r.expectedRead {
		return fmt.Errorf("%w: message %d came where %d was due; some were lost on the way", errReading,
			meta.Sequence.Consumer, r.expectedRead)
	}
	r.expectedRead++
	seq := meta.Sequence.Stream
	if seq > r.expected {
		if err := r.gap(ctx, r.expected, seq-1); err != nil {
			return err
		}
	}
	r.expected = seq + 1

	rec, q := ledger.ReadMessage(tenantOf(m.Subject()), m.Data(), seq, meta.Timestamp)
	r.note(rec.ID, q, seq)
	d := digest(rec.ID)
	if r.known.has(d) {
		r.sink.metrics.duplicates.Inc()
		r.sink.o.Log.Debug().Str("id", rec.ID).Uint64("seq", seq).Msg(logevent.RecordKnown)
		return nil
	}
	r.known.add(d)
	if len(b.rows) == 0 {
		b.began = time.Now()
	}
	b.rows = append(b.rows, ledger.Row{Idx: r.next, StreamSeq: seq, StreamEpoch: r.at.epoch, Body: m.Data(), Record: rec})
	b.bytes += len(m.Data())
	r.next++
	return nil
}

// tenantOf is the tenant that a subject of LEDGER names.
func tenantOf(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func (r *reader) note(id string, q ledger.Quality, seq uint64) {
	switch q {
	case ledger.Invalid:
		r.sink.metrics.invalid.Inc()
		r.sink.o.Log.Error().Str("id", id).Uint64("seq", seq).Msg(logevent.RecordInvalid)
	case ledger.Newer:
		r.sink.metrics.newer.Inc()
		r.sink.o.Log.Warn().Str("id", id).Uint64("seq", seq).Msg(logevent.RecordNewerFormat)
	}
}
