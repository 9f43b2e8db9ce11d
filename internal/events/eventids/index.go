// Package eventids knows where EVENTS holds which ids. An id of a tenant belongs
// to the first event with it in the order of EVENTS, for as long as EVENTS holds
// that event: this order decides, and nothing is written to decide it.
//
// An Index follows EVENTS, and keeps 5 bytes of a digest and the sequence of each
// event in memory. It says where to look; what is there, eventlog.Owner reads. So
// that a start need not read 30 days of events, whole segments are kept in the
// stream EVENT_IDS: by whoever comes first, since all make the same.
package eventids

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// recently is of how many events it is remembered when they were stored: by
	// this it shows that the stream has lost its tail and uses numbers again.
	recently = 4096
	// reopenPause is the pause before EVENTS is read again after a failure.
	reopenPause = 250 * time.Millisecond
	// reachBound ends the wait for the index, which is behind for longer only when
	// EVENTS cannot be read.
	reachBound = 30 * time.Second
)

// ErrBehind says that the index has not come to an event.
var ErrBehind = errors.New("the index of event ids has not come so far")

// Index follows EVENTS. It is safe for concurrent use.
type Index struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	log   zerolog.Logger
	ready chan struct{} // closed when it has come to where EVENTS ended at the start

	mu      sync.Mutex // guards what follows
	table   *table
	done    uint64          // it has come so far
	times   [recently]int64 // when done, done-1 … were stored; 0: not known, or not there
	moved   chan struct{}   // closed and replaced when done moves
	waited  bool            // somebody waits on moved
	suspect bool            // EVENTS is not what was read: to be read again
	reopen  func()          // ends the present session

	// What follows belongs to Run.
	epoch  int64     // when EVENTS was made
	last   uint64    // the last event that was read, and when it was stored
	lastAt time.Time // zero: not known
	filled *segment  // being filled; nil: from the next border on
	bodies bool      // some events do not name their id in a header
	// wrong are the segments that are kept and do not hold, and where.
	wrong map[uint64]uint64
	keep  chan struct{} // bounds the segments on their way
	kept  sync.WaitGroup
}

// New makes an index, which is empty until Run has read.
func New(nc *nats.Conn, log zerolog.Logger) (*Index, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("event ids: %w", err)
	}
	return &Index{nc: nc, js: js, log: log, ready: make(chan struct{}), table: &table{}, moved: make(chan struct{}),
		wrong: map[uint64]uint64{}, keep: make(chan struct{}, 2)}, nil
}

// Register makes the index's metrics known.
func (x *Index) Register(r prometheus.Registerer, stage string) error {
	labels := prometheus.Labels{"stage": stage}
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_event_ids_bytes", ConstLabels: labels,
		Help: "Memory that the index of event ids takes."}, func() float64 {
		x.mu.Lock()
		defer x.mu.Unlock()
		return float64(x.table.bytes())
	}))
}

// Ready is closed once the index has come to where EVENTS ended when it started.
func (x *Index) Ready() <-chan struct{} { return x.ready }

// Check says whether the index is ready, for a readiness probe.
func (x *Index) Check(context.Context) error {
	select {
	case <-x.ready:
		return nil
	default:
		x.mu.Lock()
		defer x.mu.Unlock()
		return fmt.Errorf("still reading the ids of %s, at event %d", streams.Events, x.done)
	}
}

// Before implements eventlog.Positions, of what the index has come to.
func (x *Index) Before(tenant, id string, seq uint64) (out []uint64) {
	ids := eventlog.LookUp(tenant, id)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		out = append(out, x.table.before(hash(tenant, id), seq)...)
	}
	return out
}

// Reach returns once the index has come to the event that was stored at seq then.
// What Before says of the sequences below is complete from there on.
func (x *Index) Reach(ctx context.Context, seq uint64, stored time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, reachBound, ErrBehind)
	defer cancel()
	for {
		reached, moved := x.reached(seq, stored)
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("event %d: %w", seq, context.Cause(ctx))
		}
	}
}

func (x *Index) reached(seq uint64, stored time.Time) (bool, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.suspect && seq <= x.done && x.done-seq < recently {
		known := x.times[seq%recently]
		x.suspect = known != 0 && known != stored.UnixNano()
	}
	if x.suspect && x.reopen != nil {
		x.reopen()
	}
	if x.suspect || seq > x.done {
		x.waited = true
		return false, x.moved
	}
	return true, nil
}

// clear forgets everything.
func (x *Index) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table, x.done, x.times, x.suspect = &table{}, 0, [recently]int64{}, false
	x.last, x.lastAt, x.filled = 0, time.Time{}, nil
}

// add takes in one event; h is 0 when it can be none. It returns the segment
// before, when that is full.
func (x *Index) add(seq, h uint64, at time.Time) (full *segment) {
	if x.filled != nil && seq >= x.filled.end() {
		full, x.filled = x.filled, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := seq / segmentEvents; x.filled == nil && x.untouched(s) {
		x.filled = newSegment(s)
	}
	if x.filled != nil {
		x.filled.add(seq, h, at)
	}
	x.table.add(h, seq)
	for skipped := max(x.done+1, seq-min(seq, recently)); skipped < seq; skipped++ {
		x.times[skipped%recently] = 0
	}
	x.times[seq%recently] = at.UnixNano()
	x.last, x.lastAt = seq, at
	x.moveTo(seq)
	return full
}

// untouched says whether nothing was read of a segment, nor behind it.
func (x *Index) untouched(segment uint64) bool { return x.done < max(1, segment*segmentEvents) }

// take takes in a whole segment.
func (x *Index) take(s *segment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, h := range s.hashes {
		if seq := s.first() + uint64(i); seq >= x.table.first {
			x.table.add(h, seq)
		}
	}
	x.filled, x.times = nil, [recently]int64{}
	x.last, x.lastAt = s.last, s.lastAt
	x.moveTo(s.end() - 1)
}

// moveTo says that the index has come to seq. The caller holds mu.
func (x *Index) moveTo(seq uint64) {
	x.done = seq
	if x.waited {
		x.waited = false
		close(x.moved)
		x.moved = make(chan struct{})
	}
}
