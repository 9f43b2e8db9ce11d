// Package watchdog sees that nothing falls silent: deliveries that have no
// verdict when they should, dead letters that nobody was told of, parts that
// stand still, streams that lost something. It shares nothing with the stages
// it watches but the streams, and tells people by itself where they do not.
//
// Every watchdog reads LEDGER and looks at the server; the one that holds the
// lease acts. What it does is on record, so another one goes on from there.
package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/version"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// Actor is how the watchdog calls itself on record.
const Actor = "watchdog"

// Tenant is whose alarms are: policies of this tenant, or of all, say who is told.
const Tenant = "waybill"

// Actions on record. They are the ledger's and never change.
const (
	actionRaised     = logevent.AlarmRaised
	actionRepeated   = logevent.AlarmRepeated
	actionCleared    = logevent.AlarmCleared
	actionNotTold    = "watchdog.not_told_in_time"
	actionHandedOver = "handed_over" // of an escalation: the escalator was asked
)

const classDelivered = string(outcome.ClassDelivered)

const (
	// defaultEvery is how often everything that is owed is looked through;
	// lookEvery how often the server is asked for the state of everything.
	defaultEvery = 500 * time.Millisecond
	defaultLook  = 5 * time.Second
	// sessionPause is the pause before the lease is asked for again.
	sessionPause = 500 * time.Millisecond
	// storeBound bounds one write: people are told also when nothing can be stored.
	storeBound = 3 * time.Second
)

// Options configure a Watchdog. All are required unless marked Optional.
type Options struct {
	NC *nats.Conn
	// Name tells this watchdog from others; an earlier run under the same name
	// hands over at once.
	Name   string
	Sender *sender.Sender
	Keys   *sealed.Keyring // open the channels' secrets. Optional: where none is sealed
	// Source says in messages where they come from. Optional: Name.
	Source string
	// Link of an incident, given its id. Optional.
	Link       func(incident string) string
	Partitions int           // of DELIVERIES and RETRY
	Limits     Limits        // Optional: DefaultLimits
	Hold       Hold          // Optional: DefaultHold
	Every      time.Duration // Optional: how often what is owed is looked through
	LookEvery  time.Duration // Optional: how often the server is looked at
	Software   string        // Optional: version.Software
	Log        zerolog.Logger
	Metrics    prometheus.Registerer
}

// Watchdog is the program.
type Watchdog struct {
	o        Options
	log      zerolog.Logger
	js       jetstream.JetStream
	pub      *stage.Publisher
	channels *revision.View[channel.Channel]
	policies *revision.View[escalation.Policy]
	registry *registry.View
	metrics  *metrics

	lease       atomic.Pointer[lease.Lease] // held, or nil
	level       atomic.Bool                 // LEDGER has been read to its end once
	alive       atomic.Bool                 // an escalator holds its lease
	outstanding atomic.Pointer[reading]     // as the reader last saw them
	tasks       chan []task                 // from the reader to whoever does them
	done        chan result                 // and back
	alarms      chan []change
}

// reading is what the reader of LEDGER last saw.
type reading struct {
	Outstanding
	behind time.Duration
}

// New connects to what is watched. Nothing needs to be well for it.
func New(o Options) (*Watchdog, error) {
	if o.NC == nil || o.Name == "" || o.Sender == nil || o.Metrics == nil {
		return nil, errors.New("watchdog: NC, Name, Sender and Metrics are required")
	}
	o = o.withDefaults()
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	pub, err := stage.NewPublisher(o.NC, o.Log)
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	w := &Watchdog{o: o, log: o.Log, js: js, pub: pub, metrics: newMetrics(o.Metrics),
		channels: revision.NewView(js, channel.Registry(), o.Log),
		policies: revision.NewView(js, escalation.Policies(), o.Log),
		registry: registry.NewView(js, o.Log), tasks: make(chan []task), done: make(chan result, maxTasks),
		alarms: make(chan []change, 1)}
	w.outstanding.Store(&reading{})
	return w, nil
}

func (o Options) withDefaults() Options {
	if o.Source == "" {
		o.Source = o.Name
	}
	if o.Link == nil {
		o.Link = func(string) string { return "" }
	}
	if o.Software == "" {
		o.Software = version.Software
	}
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Hold == (Hold{}) {
		o.Hold = DefaultHold()
	}
	o.Partitions = max(o.Partitions, 1)
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.LookEvery == 0 {
		o.LookEvery = defaultLook
	}
	return o
}

// Ready says whether the watchdog sees. It is a readiness check.
func (w *Watchdog) Ready(context.Context) error {
	for what, ready := range map[string]<-chan struct{}{"channels": w.channels.Ready(),
		"escalation policies": w.policies.Ready()} {
		select {
		case <-ready:
		default:
			return fmt.Errorf("the %s have not been read yet", what)
		}
	}
	if !w.level.Load() {
		return errors.New("LEDGER has not been read to its end yet")
	}
	return nil
}

// Leading says whether this watchdog acts.
func (w *Watchdog) Leading() bool {
	l := w.lease.Load()
	return l != nil && l.Valid()
}

// Run watches until ctx ends.
func (w *Watchdog) Run(ctx context.Context) error {
	g := new(errgroup.Group)
	for _, part := range []func(context.Context) error{w.channels.Run, w.policies.Run, w.registry.Run, w.lead, w.follow,
		w.work, w.watch, w.announce} {
		g.Go(func() error { return part(ctx) })
	}
	return g.Wait()
}

// lead holds the lease whenever it can be had.
func (w *Watchdog) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.holdLease(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg(logevent.WatchdogWaiting)
		}
		stage.Pause(ctx, sessionPause)
	}
	return nil
}

func (w *Watchdog) holdLease(ctx context.Context) error {
	o := lease.Options{JS: w.js, Key: streams.WatchdogLease, Name: w.o.Name, Log: w.log,
		Waiting: func(holder string) { w.log.Info().Str("holder", holder).Msg(logevent.WatchdogStandby) }}
	return lease.Hold(ctx, o, func(held context.Context, l *lease.Lease) error {
		w.lease.Store(l)
		w.metrics.leading.Set(1)
		w.log.Info().Msg(logevent.WatchdogLeading)
		defer func() { w.lease.Store(nil); w.metrics.leading.Set(0) }()
		<-held.Done()
		return nil
	})
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
