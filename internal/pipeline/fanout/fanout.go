// Package fanout expands events into deliveries: one for each endpoint that is
// owed it. It also expands replays, and puts every revision of an endpoint and
// of an event type on record.
package fanout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/pipeline/recorder"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// defaultConcurrency is how many events are being expanded at once: more
	// would not be faster, and make each one wait longer for the processor.
	defaultConcurrency = 32
	// SyncedConcurrency is for a server that syncs every write: where what comes
	// together is stored together, more come together.
	SyncedConcurrency = 128
	// transientPause hands a message back when the pipeline is in the way.
	transientPause = time.Second
)

// Options configure a Fanout. All are required unless marked Optional.
type Options struct {
	NC           *nats.Conn
	View         *registry.View  // kept up to date by whoever made it
	IDs          *eventids.Index // Optional: kept up to date by whoever made it. Nil: one of its own
	Partitions   int             // of DELIVERIES; the same in every stage
	Concurrency  int             // Optional: events in hand. Default 32, see SyncedConcurrency.
	DrainTimeout time.Duration   // how long a stop waits for events in hand
	Tracer       *tracing.Tracer // Optional: none
	Log          zerolog.Logger
	Metrics      prometheus.Registerer
}

// Fanout is the stage.
type Fanout struct {
	o        Options
	log      zerolog.Logger
	js       jetstream.JetStream
	view     *registry.View
	pub      *stage.Publisher
	ledger   *stage.Journal
	clock    *stage.Clock
	ids      *eventids.Index
	stored   *eventlog.Log
	loops    []*stage.Loop
	events   *prometheus.CounterVec
	owed     prometheus.Counter
	progress *progress
	wide     *wide
}

// New connects the stage to its streams.
func New(ctx context.Context, o Options) (*Fanout, error) {
	if o.NC == nil || o.View == nil || o.Metrics == nil {
		return nil, errors.New("fanout: NC, View and Metrics are required")
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("fanout: %w", err)
	}
	f := &Fanout{o: o, log: o.Log, js: js, view: o.View, wide: newWide(), progress: newProgress(),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_events_total",
			Help: "Events expanded, by what became of them."}, []string{"result"}),
		owed: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_deliveries_owed_total",
			Help: "Deliveries that came to be owed, replays included."})}
	for _, k := range alternatives(record.EventAccepted) {
		f.events.WithLabelValues(result(k)) // from 0: the first one counts as an increase
	}
	o.Metrics.MustRegister(f.events, f.owed)
	if f.pub, err = stage.NewPublisher(o.NC, o.Log); err != nil {
		return nil, err
	}
	if err := f.pub.Register(o.Metrics, "fanout"); err != nil {
		return nil, fmt.Errorf("fanout metrics: %w", err)
	}
	f.clock = stage.NewClock(js, streams.Events, nil, o.Log)
	if err := errors.Join(f.clock.Compare(ctx), f.clock.Register(o.Metrics, "fanout")); err != nil {
		return nil, fmt.Errorf("fanout: comparing clocks: %w", err)
	}
	ledger, err := stage.OpenJournal(ctx, js, f.pub, streams.Ledger)
	if err != nil {
		return nil, err
	}
	f.ledger = ledger.WithClock(f.clock)
	if f.stored, err = eventlog.New(o.NC, 0); err != nil {
		return nil, err
	}
	if f.ids = o.IDs; f.ids == nil {
		if f.ids, err = eventids.New(o.NC, o.Log); err != nil {
			return nil, err
		}
		if err := f.ids.Register(o.Metrics, "fanout"); err != nil {
			return nil, fmt.Errorf("fanout metrics: %w", err)
		}
	}
	return f, f.openLoops(ctx)
}

// CheckIDs says whether the stage has read the ids that EVENTS holds, for a readiness probe.
func (f *Fanout) CheckIDs(ctx context.Context) error { return f.ids.Check(ctx) }

func (f *Fanout) openLoops(ctx context.Context) error {
	for _, l := range []struct {
		stream, consumer string
		handle           stage.Handler
		concurrency      int
		lane             func(subject string) stage.Lane
	}{
		{streams.Events, streams.FanoutConsumer, f.expandEvent, f.o.Concurrency, laneOf},
		{streams.Replays, streams.ReplayConsumer, f.replayEvent, 16, nil},
	} {
		loop, err := stage.OpenLoop(ctx, stage.LoopOptions{JS: f.js, Stream: l.stream, Consumer: l.consumer, Handle: l.handle,
			Concurrency: l.concurrency, Lane: l.lane, DrainTimeout: f.o.DrainTimeout, Log: f.log, Metrics: f.o.Metrics})
		if err != nil {
			return err
		}
		f.loops = append(f.loops, loop)
	}
	recorders, err := recorder.Open(ctx, recorder.Options{JS: f.js, Publisher: f.pub, DrainTimeout: f.o.DrainTimeout,
		Log: f.log, Metrics: f.o.Metrics}, streams.EndpointsStream, streams.EventTypesStream)
	f.loops = append(f.loops, recorders...)
	return err
}

// Run expands until ctx ends, then stops within DrainTimeout.
func (f *Fanout) Run(ctx context.Context) error {
	g := new(errgroup.Group)
	if f.o.IDs == nil {
		g.Go(func() error { return f.ids.Run(ctx) })
	}
	// Before the view is there, every event would match nobody; before the index, none
	// would be known.
	for _, ready := range []<-chan struct{}{f.view.Ready(), f.ids.Ready()} {
		select {
		case <-ready:
		case <-ctx.Done():
			return g.Wait()
		}
	}
	g.Go(func() error { return f.clock.Run(ctx) })
	for _, l := range f.loops {
		g.Go(func() error { return l.Run(ctx) })
	}
	return g.Wait()
}

// laneOf lets tenants take turns, and the event types of a tenant among
// themselves: a flood of one delays no other.
func laneOf(subject string) stage.Lane {
	tenant, eventType, err := streams.ParseEventSubject(subject)
	if err != nil {
		return stage.Lane{Name: subject}
	}
	return stage.Lane{Owner: tenant, Name: eventType}
}

// expandEvent is the handler of EVENTS.
func (f *Fanout) expandEvent(ctx context.Context, m stage.Message) stage.Settlement {
	// Whoever was told that an endpoint exists is owed the events stored after it.
	if err := f.view.Fresh(ctx); err != nil {
		return f.later(err, m.Subject)
	}
	incoming := tracing.Context(eventlog.TraceIn(m.Header))
	span := f.o.Tracer.Start("fanout", tracing.Consumer, incoming, tracing.Context{})
	defer span.End()
	r := read(m)
	owner, err := f.owner(ctx, m, r)
	if err != nil {
		return f.later(err, m.Subject)
	}
	x := Expand(m, r, owner, f.view, time.Now())
	if len(x.matched) > listedMost {
		leave, err := f.wide.enter(ctx, m)
		if err != nil {
			return f.later(err, m.Subject)
		}
		defer leave()
	}
	first, mine, err := f.decide(ctx, m, r, &x)
	if err != nil {
		return f.later(err, m.Subject)
	}
	if !mine {
		if x, err = f.followed(ctx, m, first); err != nil {
			return f.later(err, m.Subject)
		}
	}
	span.Text("waybill.tenant", first.Tenant).Text("waybill.event_id", first.EventID).Text("waybill.event_type",
		first.EventType).
		Text("waybill.result", result(first.Kind)).Number("waybill.endpoints", len(x.matched))
	trace := func() (parent, state string) {
		next := span.Context(incoming)
		return next.Parent, next.State
	}
	if err := f.publishOwed(ctx, m, x, trace); err != nil {
		span.Failed("handed_back")
		return f.later(err, m.Subject)
	}
	if err := errors.Join(f.disown(ctx, m, first), f.tell(ctx, m, first)); err != nil {
		span.Failed("handed_back")
		return f.later(err, m.Subject)
	}
	f.events.WithLabelValues(result(first.Kind)).Inc()
	if first.Kind == record.EventRejected {
		f.log.Warn().Str("tenant", first.Tenant).Str("event_id", first.EventID).Str("subject", first.NATSSubject).
			Str("reason", first.Reason).Str("detail", first.Detail).Msg(logevent.EventRejected)
	}
	return stage.Done()
}

// tell asks for people to be told of an event that was rejected, which nobody
// gets. It is asked before the event is acknowledged: after a crash, again.
func (f *Fanout) tell(ctx context.Context, event stage.Message, first record.Record) error {
	if first.Kind != record.EventRejected {
		return nil
	}
	m, err := escalation.Of(first).Message()
	if err != nil {
		return err
	}
	if _, err = f.pub.Publish(ctx, m); err != nil {
		return err
	}
	f.announce(event, first)
	return nil
}

// result of an expansion, as the metrics call it.
func result(k record.Kind) string { return string(k[len("event."):]) }

// alternatives are the kinds of which a decision of kind k is one.
func alternatives(k record.Kind) []record.Kind {
	if k == record.DeliveryOwed || k == record.DeliveryCancelled {
		return []record.Kind{record.DeliveryOwed, record.DeliveryCancelled}
	}
	return []record.Kind{record.EventAccepted, record.EventUnmatched, record.EventRejected, record.EventDuplicate}
}

// state puts a decision on record, and returns the one that stands.
func (f *Fanout) state(ctx context.Context, r record.Record, since time.Time) (stands record.Record, mine bool,
	err error) {
	m, err := r.Message()
	if err != nil {
		return r, false, err
	}
	var also []string
	for _, k := range alternatives(r.Kind) {
		if k != r.Kind {
			also = append(also, streams.LedgerSubject(string(k), r.Tenant))
		}
	}
	data, mine, err := f.ledger.PutFirst(ctx, m, since, also...)
	if err != nil || mine {
		return r, mine, err
	}
	stands, err = record.Decode(data)
	return stands, false, err
}

// publish stores the deliveries of a replay, whose records are stored.
func (f *Fanout) publish(ctx context.Context, x expansion) error {
	msgs := make([]*nats.Msg, len(x.deliveries))
	for i, d := range x.deliveries {
		msgs[i] = d.First(f.o.Partitions)
	}
	for block := range slices.Chunk(msgs, blockMost) {
		if err := f.hand(ctx, block); err != nil {
			return err
		}
	}
	f.owed.Add(float64(len(msgs)))
	return nil
}

func (f *Fanout) store(ctx context.Context, records []record.Record) error {
	msgs := make([]*nats.Msg, len(records))
	for i := range records {
		m, err := records[i].Message()
		if err != nil {
			return err
		}
		msgs[i] = m
	}
	_, err := f.pub.PublishAll(ctx, msgs...)
	return err
}

func (f *Fanout) later(err error, what string) stage.Settlement {
	f.log.Warn().Err(err).Str("what", what).Msg(logevent.EventHandedBack)
	return stage.Later(transientPause)
}
