// Package sink carries every record from the stream LEDGER into
// ClickHouse: each exactly once, in the stream's order.
//
// The position lives in ClickHouse, in the rows themselves. A session begins by
// finding the last row's record in the stream and reads on behind it, so that
// nothing depends on what a consumer or a process remembered. Whatever goes
// wrong ends the session, and the next one starts from what really landed.
package sink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// Ledger is what the sink needs of ClickHouse.
//
// Append is atomic. Of all inserts that begin at one index only one takes
// effect, and neither its nil nor its error says whether this one did: only
// Last does. A row that an Append's caller saw in Last is durable.
type Ledger interface {
	Migrate(ctx context.Context) error
	Position(ctx context.Context) (ledger.Position, error)
	Last(ctx context.Context) (ledger.Position, error)
	Append(ctx context.Context, rows []ledger.Row) error
	IDOfSeq(ctx context.Context, epoch int64, seq uint64) (string, error)
	IDs(ctx context.Context, from uint64, yield func(ledger.Digest)) error
	Turned(ctx context.Context, from uint64, epoch int64) (bool, error)
}

// Tree is told of every row that has landed, in order. Neither call may hold up
// the sink: Follow runs beside it, from where ClickHouse stands until ctx ends,
// and valid says whether this still is the sink that writes.
type Tree interface {
	Follow(ctx context.Context, at ledger.Position, valid func() bool)
	Landed(rows []ledger.Row)
}

// Defaults of Options.
const (
	// A batch is this large only when the sink is behind. Batches of 20,000 took
	// the engine a third less processor time for each record than of 5,000, and
	// caught up twice as fast; three of them are in memory at a time.
	DefaultBatchRecords = 20_000
	DefaultBatchBytes   = 16 << 20
	// At 50 deliveries a second, one insert a second rather than four halved what
	// the engine takes (1.6 rather than 3.4 CPU-s for 1,000 deliveries) and what is
	// kept (8 rather than 16 KB for each); bench, latency-always, on a busy machine.
	DefaultBatchAge = time.Second
	DefaultKeep     = 24 * time.Hour
	// DefaultRecentIDs covers what stages state again after a crash or an
	// outage. It costs about 25 MB.
	DefaultRecentIDs = 1_000_000
	// DefaultRecentIDsTurned is used while the last rows came from another
	// making of the stream, or from sequences that it used twice: then as much
	// as LEDGER holds may come again. It costs about 250 MB.
	DefaultRecentIDsTurned = 10_000_000
)

// Options of a sink. NATS, Ledger and Log are required; zero means the default.
type Options struct {
	NATS   *nats.Conn
	Ledger Ledger
	Log    zerolog.Logger
	// Tree grows over the records. Optional.
	Tree Tree
	// Name tells this sink from others in the lease. Default: host, process and a random part.
	Name string
	// A batch ends at BatchRecords or BatchBytes, or BatchAge after the one before
	// it; after a pause, and when somebody asks (streams.LedgerWanted), much sooner.
	BatchRecords int
	BatchBytes   int
	BatchAge     time.Duration
	// Keep is how long LEDGER keeps what ClickHouse already has. When the
	// stream is more than half full, less is kept.
	Keep time.Duration
	// TrimEvery is the pause between trims. Default a minute.
	TrimEvery time.Duration
	// LostEndpoints says which endpoints are on record and not in the registry. It is
	// asked every RegistryEvery while the sink writes. Optional; every ten minutes.
	LostEndpoints func(context.Context, jetstream.JetStream) ([]string, error)
	RegistryEvery time.Duration
	// RecentIDs is how many of the last ids every record is compared with.
	RecentIDs, RecentIDsTurned int
	// Registerer of the metrics. Default: none.
	Registerer prometheus.Registerer
}

// Sink writes while it holds the lease; beside another that does, it waits.
type Sink struct {
	o         Options
	js        jetstream.JetStream
	publisher *stage.Publisher
	metrics   *metrics
	status    atomic.Pointer[Status]
	// What follows belongs to Run's goroutine.
	reported  string    // cause of waiting that was logged last; "" while writing
	trimmedAt time.Time // when LEDGER was last looked at for trimming
}

// Status is what the sink is doing.
type Status struct {
	// Writing: this sink holds the lease, and ClickHouse answered last.
	Writing bool `json:"writing"`
	// Waiting says for what, when it is not writing.
	Waiting string `json:"waiting,omitempty"`
	// Stored is the number of records in ClickHouse, as far as this sink knows.
	Stored uint64 `json:"stored"`
	// StreamSeq is the last record's sequence in LEDGER.
	StreamSeq uint64 `json:"stream_seq"`
}

// New checks the options.
func New(o Options) (*Sink, error) {
	if o.NATS == nil || o.Ledger == nil {
		return nil, errors.New("ledger-sink: options NATS and Ledger are required")
	}
	o.BatchRecords = orDefault(o.BatchRecords, DefaultBatchRecords)
	o.BatchBytes = orDefault(o.BatchBytes, DefaultBatchBytes)
	o.BatchAge = orDefault(o.BatchAge, DefaultBatchAge)
	o.Keep = orDefault(o.Keep, DefaultKeep)
	o.TrimEvery = orDefault(o.TrimEvery, time.Minute)
	o.RegistryEvery = orDefault(o.RegistryEvery, 10*time.Minute)
	o.RecentIDs = orDefault(o.RecentIDs, DefaultRecentIDs)
	o.RecentIDsTurned = orDefault(o.RecentIDsTurned, DefaultRecentIDsTurned)
	if o.Name == "" {
		host, _ := os.Hostname() // only to be read by people; the random part makes the difference
		o.Name = fmt.Sprintf("%s/%d/%s", host, os.Getpid(), ulid.Make())
	}
	js, err := jetstream.New(o.NATS)
	if err != nil {
		return nil, fmt.Errorf("ledger-sink: %w", err)
	}
	p, err := stage.NewPublisher(o.NATS, o.Log)
	if err != nil {
		return nil, fmt.Errorf("ledger-sink: %w", err)
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("ledger-sink: %w", err)
	}
	s := &Sink{o: o, js: js, publisher: p, metrics: m}
	s.status.Store(&Status{Waiting: "start"})
	if o.Registerer != nil {
		if err := errors.Join(o.Registerer.Register(newLag(s)), p.Register(o.Registerer, "ledger-sink")); err != nil {
			return nil, fmt.Errorf("ledger-sink: %w", err)
		}
	}
	return s, nil
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// Status says what the sink is doing.
func (s *Sink) Status() Status { return *s.status.Load() }

// Ready is nil while this sink writes, or stands by for another that does. The
// error says what it waits for.
func (s *Sink) Ready() error {
	if st := s.Status(); !st.Writing && st.Waiting != waitingForLease {
		return fmt.Errorf("ledger-sink is not writing: %s", st.Waiting)
	}
	return nil
}

const (
	waitingForLease = "another ledger-sink writes"
	// backoffMin and backoffMax bound the pause after a failed session: short
	// enough to catch up at once, long enough to leave a starting server alone.
	backoffMin = 100 * time.Millisecond
	backoffMax = 2 * time.Second
)

// Run writes until ctx ends, and heals itself meanwhile: a server that is away
// is waited for, for as long as it takes. It returns an error only for what
// waiting does not mend: a schema that is newer than this program, or a ledger
// that is damaged.
func (s *Sink) Run(ctx context.Context) error {
	pause := backoffMin
	for ctx.Err() == nil {
		stored := s.Status().Stored
		err := s.hold(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ledger.ErrNewerSchema) || errors.Is(err, ledger.ErrDamaged) {
			s.waiting(err.Error())
			return fmt.Errorf("ledger-sink: %w", err)
		}
		s.report(err)
		if s.Status().Stored > stored {
			pause = backoffMin // it worked until something new went wrong
		}
		stage.Pause(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, backoffMax)
	}
	return nil
}

// report says once what the sink waits for: when the cause changes.
func (s *Sink) report(err error) {
	kind := errorKind(err)
	s.metrics.sessions.WithLabelValues(kind).Inc()
	s.waiting(err.Error())
	level := zerolog.DebugLevel
	if kind != s.reported {
		level = zerolog.WarnLevel
	}
	s.reported = kind
	s.o.Log.WithLevel(level).Err(err).Str("cause", kind).Msg(logevent.LedgerSinkWaiting)
}

func (s *Sink) waiting(what string) {
	st := s.Status()
	st.Writing, st.Waiting = false, what
	s.metrics.writing.Set(0)
	s.status.Store(&st)
}

// hold takes the lease and runs one session under it.
func (s *Sink) hold(ctx context.Context) error {
	o := lease.Options{JS: s.js, Key: streams.LedgerSinkLease, Name: s.o.Name, Log: s.o.Log,
		Waiting: func(holder string) {
			s.waiting(waitingForLease)
			s.o.Log.Info().Str("holder", holder).Msg(logevent.LedgerSinkStandby)
		}}
	return lease.Hold(ctx, o, func(ctx context.Context, l *lease.Lease) error {
		ctx, end := context.WithCancel(ctx)
		var beside sync.WaitGroup
		defer beside.Wait()
		defer end()
		beside.Go(func() { s.watchRegistry(ctx) })
		return s.session(ctx, l)
	})
}
