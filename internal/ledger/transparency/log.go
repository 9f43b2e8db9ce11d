// Package transparency makes the ledger a transparency log: it grows the Merkle
// tree over the records that are in ClickHouse, stores its tiles, signs
// checkpoints, has them cosigned, and serves all of it.
//
// The tree follows the records and is never ahead of them. Nothing here delays a
// record: it runs beside the sink, and whatever it did not see, or forgot, it
// reads from ClickHouse.
package transparency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Store is what the log needs of ClickHouse.
type Store interface {
	merkle.Store
	Tiled(ctx context.Context) ([]uint64, error)
	TileHashes(ctx context.Context, level int, first, end uint64,
		yield func(number uint64, hashes []tlog.Hash) error) error
	AppendTiles(ctx context.Context, level int, first uint64, hashes []tlog.Hash) error
	Entries(ctx context.Context, first, end uint64, yield func(idx uint64, entry []byte) error) error
	Last(ctx context.Context) (ledger.Position, error)
	LastCheckpoint(ctx context.Context, origin string) (ledger.Checkpoint, error)
	AppendCheckpoint(ctx context.Context, c ledger.Checkpoint) error
	AppendCheckpointSignature(ctx context.Context, s ledger.CheckpointSignature) error
	CheckpointSignatures(ctx context.Context, first, last uint64) ([]ledger.CheckpointSignature, error)
	LastSignatureAt(ctx context.Context, kind string) (time.Time, error)
}

// Defaults of Options.
const (
	DefaultEvery          = 5 * time.Second
	DefaultQuiet          = 2 * time.Second
	DefaultTimestampEvery = 24 * time.Hour
)

// Options of a log. Store, NATS and Log are required; zero means the default.
type Options struct {
	Store Store
	NATS  *nats.Conn
	Log   zerolog.Logger
	// Keys that sign checkpoints. nil: tiles are stored, nothing is signed.
	Keys *checkpoint.Keys
	// Every is the pause between checkpoints while records come; Quiet is how
	// long none must have come for a checkpoint before that.
	Every, Quiet time.Duration
	// Witnesses are asked to cosign each checkpoint.
	Witnesses []Witness
	// TimestampURL is asked for a timestamp (RFC 3161) of a checkpoint, every
	// TimestampEvery. "": none.
	TimestampURL   string
	TimestampEvery time.Duration
	// Registerer of the metrics. Default: none.
	Registerer prometheus.Registerer
}

// Log is the transparency log over one ledger.
type Log struct {
	o         Options
	js        jetstream.JetStream
	metrics   *metrics
	witnesses []*witness
	stamper   *stamper // nil: none

	batches chan []ledger.Row
	landed  atomic.Uint64 // records that ClickHouse has, as far as the sink said
	fault   atomic.Pointer[trouble]
	signed  atomic.Uint64 // size of the last checkpoint
	follows atomic.Bool   // Follow runs: what is known is of now
	mu      sync.Mutex    // guards what follows
	// newest is the largest checkpoint that this process signed or agreed to.
	newest ledger.Checkpoint
}

// New checks the options.
func New(o Options) (*Log, error) {
	if o.Store == nil || o.NATS == nil {
		return nil, errors.New("ledger log: options Store and NATS are required")
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Quiet <= 0 {
		o.Quiet = min(DefaultQuiet, o.Every)
	}
	if o.TimestampEvery <= 0 {
		o.TimestampEvery = DefaultTimestampEvery
	}
	js, err := jetstream.New(o.NATS)
	if err != nil {
		return nil, fmt.Errorf("ledger log: %w", err)
	}
	l := &Log{o: o, js: js, batches: make(chan []ledger.Row, 2)}
	if l.metrics, err = newMetrics(l, o.Registerer); err != nil {
		return nil, fmt.Errorf("ledger log: %w", err)
	}
	for _, w := range o.Witnesses {
		l.witnesses = append(l.witnesses, newWitness(l, w))
	}
	if o.TimestampURL != "" {
		l.stamper = newStamper(l)
	}
	return l, nil
}

// Landed hands over rows that were read back from ClickHouse. It never waits:
// what is not taken in time is read again from there.
func (l *Log) Landed(rows []ledger.Row) {
	if len(rows) == 0 {
		return
	}
	select {
	case l.batches <- rows:
	default:
	}
	l.landed.Store(rows[len(rows)-1].Idx + 1)
}

// Fault says why nothing is signed though there is a key; "": all is well, or
// another sink writes.
func (l *Log) Fault() string {
	if t := l.fault.Load(); t != nil && l.follows.Load() {
		return t.text
	}
	return ""
}

// Note is a line for people who look whether all is well; "": there is nothing to say.
func (l *Log) Note() string {
	if f := l.Fault(); f != "" {
		return "no checkpoint is signed: " + f
	}
	return ""
}

const (
	// turnEvery is how often the log looks whether something is due.
	turnEvery = 200 * time.Millisecond
	// tilesAtOnce are stored in one insert while records come fast. Fewer wait
	// for the next checkpoint: an insert costs ClickHouse a part and an fsync.
	tilesAtOnce = 64
	// entriesAtOnce are read from ClickHouse in one question.
	entriesAtOnce = 1 << 16
	// progressEvery is how often a long back-fill says how far it is.
	progressEvery = 5 * time.Second
	pauseMin      = 200 * time.Millisecond
	pauseMax      = 10 * time.Second
)

// Follow grows the tree from the records that ClickHouse has, and signs, until
// ctx ends. valid says whether the caller still is the one sink that writes.
// There is one Follow at a time.
func (l *Log) Follow(ctx context.Context, at ledger.Position, valid func() bool) {
	for len(l.batches) > 0 { // of an earlier one
		<-l.batches
	}
	l.landed.Store(at.Next)
	l.follows.Store(true)
	defer l.follows.Store(false)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	for _, w := range l.witnesses {
		helpers.Go(func() { w.run(ctx) })
	}
	if l.stamper != nil {
		helpers.Go(func() { l.stamper.run(ctx) })
	}
	said := ""
	for pause := pauseMin; ctx.Err() == nil; pause = min(2*pause, pauseMax) {
		began := time.Now()
		err := l.follow(ctx, valid)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ledger.ErrDamaged) {
			l.refuse(ctx, trouble{causeDamaged, l.landed.Load(), err.Error()})
		}
		l.metrics.interruptions.Inc()
		level := zerolog.DebugLevel
		if err.Error() != said {
			level, said = zerolog.WarnLevel, err.Error()
		}
		l.o.Log.WithLevel(level).Err(err).Msg(logevent.LedgerLogWaiting)
		if time.Since(began) > pauseMax {
			pause = pauseMin
		}
		wait(ctx, pause)
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// follow is one go at it: whatever fails ends it, and the next one begins from
// what is stored.
func (l *Log) follow(ctx context.Context, valid func() bool) error {
	g, err := l.restore(ctx)
	if err != nil {
		return err
	}
	s := &signing{log: l, tree: g, valid: valid}
	tick := time.NewTicker(min(turnEvery, l.o.Quiet, l.o.Every))
	defer tick.Stop()
	for {
		if len(l.batches) == 0 {
			if err := g.fill(ctx, l.landed.Load()); err != nil {
				return err
			}
		}
		l.metrics.size.Set(float64(g.size))
		if err := s.turn(ctx, time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case rows := <-l.batches:
			if err := g.take(ctx, rows); err != nil {
				return err
			}
		}
	}
}
