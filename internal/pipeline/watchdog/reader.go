package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// readBatch and readHeartbeat: how LEDGER is read. After two heartbeats that
	// are missing, the reading begins anew where it was.
	readBatch     = 4096
	readHeartbeat = 2 * time.Second
	// reopenPause is the pause before LEDGER is opened again.
	reopenPause = 250 * time.Millisecond
	// checkEvery is how many records may pass between two looks at the clock.
	checkEvery = 512
	// saveEvery is how often the place to begin at is stored.
	saveEvery = 10 * time.Second
)

// place is where a watchdog that starts begins to read: everything before it is
// settled. It holds for one making of LEDGER.
type place struct {
	Epoch int64  `json:"epoch"` // when LEDGER was made, in nanoseconds
	Seq   uint64 `json:"seq"`
	Last  uint64 `json:"last"` // as far as LEDGER was read
}

// reader follows LEDGER. It belongs to one goroutine.
type reader struct {
	w     *Watchdog
	owed  *obligations
	epoch int64
	next  uint64 // sequence to read next

	messages jetstream.MessagesContext
	head     uint64    // where LEDGER ended
	headAt   time.Time // when that was seen
	levelAt  time.Time // when everything up to then had been read
	surveyed time.Time
	saved    time.Time
	said     place
	busy     map[key]struct{}  // tasks under way
	again    map[key]attempted // tasks that failed
	asking   bool              // LEDGER is being asked about what is in doubt
	answers  chan asking
}

// attempted is a telling that failed, and when it is tried again.
type attempted struct {
	times int
	at    time.Time
}

// follow reads LEDGER until ctx ends, opening it again whenever that ends.
func (w *Watchdog) follow(ctx context.Context) error {
	r := &reader{w: w, owed: newObligations(), busy: map[key]struct{}{}, again: map[key]attempted{},
		answers: make(chan asking, 1)}
	for ctx.Err() == nil {
		if err := r.session(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg(logevent.WatchdogLedgerLost)
		}
		stage.Pause(ctx, reopenPause)
	}
	return nil
}

// session reads until something ends it.
func (r *reader) session(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	defer r.messages.Stop()
	defer context.AfterFunc(ctx, r.messages.Stop)() // wakes what waits for the next record
	// A server that restarted has forgotten the consumer.
	away := r.w.js.Conn().StatusChanged(nats.CONNECTED)
	defer r.w.js.Conn().RemoveStatusListener(away)
	for n := 0; ; n++ {
		m, err := r.messages.Next(jetstream.NextMaxWait(r.w.o.Every))
		switch {
		case err == nil:
			if err := r.take(m); err != nil {
				return err
			}
		case errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
			n = 0
		default:
			return err
		}
		if n%checkEvery == 0 || time.Since(r.surveyed) >= r.w.o.Every {
			if err := r.turn(ctx, away); err != nil {
				return err
			}
		}
	}
}

// open begins to read where the last session ended, or where it is stored.
func (r *reader) open(ctx context.Context) error {
	s, err := r.w.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	info := s.CachedInfo()
	epoch := info.Created.UnixNano()
	if r.epoch != epoch || info.State.LastSeq+1 < r.next {
		*r = reader{w: r.w, owed: newObligations(), epoch: epoch, busy: r.busy, again: map[key]attempted{}, asking: r.asking,
			answers: r.answers}
		if r.next, err = r.w.begin(ctx, info); err != nil {
			return err
		}
	}
	r.next = max(r.next, info.State.FirstSeq, 1)
	c, err := r.w.js.OrderedConsumer(ctx, streams.Ledger, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, InactiveThreshold: time.Minute})
	if err != nil {
		return fmt.Errorf("reading %s: %w", streams.Ledger, err)
	}
	r.messages, err = c.Messages(jetstream.PullMaxMessages(readBatch), jetstream.PullExpiry(4*readHeartbeat),
		jetstream.PullHeartbeat(readHeartbeat))
	return err
}

// begin is where to read first.
func (w *Watchdog) begin(ctx context.Context, info *jetstream.StreamInfo) (uint64, error) {
	return beginAt(ctx, w.js, info)
}

func beginAt(ctx context.Context, js jetstream.JetStream, info *jetstream.StreamInfo) (uint64, error) {
	var p place
	known, err := status(ctx, js, streams.StatusWatchdog, &p)
	if err != nil {
		return 0, err
	}
	if !known || p.Epoch != info.Created.UnixNano() || p.Last > info.State.LastSeq {
		return max(info.State.FirstSeq, 1), nil
	}
	return max(p.Seq, info.State.FirstSeq, 1), nil
}

func (r *reader) take(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	r.next = meta.Sequence.Stream + 1
	r.owed.takeMessage(m.Data(), meta.Sequence.Stream)
	return nil
}

// takeMessage applies what LEDGER holds at a sequence.
func (o *obligations) takeMessage(data []byte, seq uint64) {
	rec, err := record.Decode(data)
	if err != nil {
		return // the sink says so, and keeps it
	}
	o.apply(&rec, seq)
}

// turn looks through what is owed once the reader is level with LEDGER.
func (r *reader) turn(ctx context.Context, away <-chan nats.Status) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-away:
		return errors.New("the server was away")
	default:
	}
	r.finish()
	if r.next > r.head && !r.headAt.IsZero() {
		r.levelAt = r.headAt
	}
	if time.Since(r.headAt) >= r.w.o.Every {
		if err := r.level(ctx); err != nil {
			return err
		}
	}
	if time.Since(r.surveyed) < r.w.o.Every {
		return nil
	}
	r.surveyed = time.Now()
	behind := time.Since(r.levelAt)
	if r.levelAt.IsZero() {
		behind = time.Since(r.headAt)
	}
	if r.levelAt.IsZero() || r.next <= r.head {
		// Judging now would take for missing what was not read yet.
		was := *r.w.outstanding.Load()
		r.w.outstanding.Store(&reading{was.Outstanding, behind})
		return nil
	}
	// What was stored until then has been seen; what is due since then counts at the next turn.
	outstanding, tasks := r.owed.survey(r.w.alive.Load(), r.w.o.Limits.Overdue, r.levelAt)
	r.w.outstanding.Store(&reading{outstanding, 0})
	r.w.metrics.outstanding(outstanding)
	r.give(tasks)
	r.clear(ctx)
	r.save(ctx)
	return nil
}

// level asks where LEDGER ends, and notes when everything up to there was read.
func (r *reader) level(ctx context.Context) error {
	asked := time.Now()
	bounded, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	s, err := r.w.js.Stream(bounded, streams.Ledger)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	info := s.CachedInfo()
	if info.Created.UnixNano() != r.epoch || info.State.LastSeq+1 < r.next {
		return errors.New("LEDGER was made anew, or lost its tail")
	}
	gone, err := absent(bounded, r.w.js, streams.EscalatorLease)
	if err != nil {
		return err
	}
	r.w.alive.Store(!gone)
	r.head, r.headAt = info.State.LastSeq, asked
	if r.next > r.head {
		r.levelAt = asked
		r.w.level.Store(true)
	}
	return nil
}

// save stores where whoever starts next begins to read.
func (r *reader) save(ctx context.Context) {
	if time.Since(r.saved) < saveEvery || !r.w.Leading() {
		return
	}
	r.saved = time.Now()
	p := place{Epoch: r.epoch, Seq: r.owed.oldest(r.next), Last: r.next - 1}
	if p == r.said {
		return
	}
	if err := r.w.store(ctx, streams.StatusWatchdog, p); err != nil {
		r.w.log.Warn().Err(err).Msg(logevent.WatchdogPlaceNotStored)
		return
	}
	r.said = p
}

// store writes a key of the bucket of statuses.
func (w *Watchdog) store(ctx context.Context, name string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	kv, err := streams.Bucket(ctx, w.js, streams.StatusBucket)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = kv.Put(ctx, name, b)
	return err
}
