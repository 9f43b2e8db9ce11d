// Package escalator tells people about dead letters: inside the deadline that
// the delivery had, by the channels that a policy names, until a named person
// acknowledges.
//
// One escalator works at a time, so that one burst becomes one message; others
// stand by. What it knows is in the bucket of incidents: whoever takes over
// goes on where it stopped, under the same message ids.
package escalator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/pipeline/recorder"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/version"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// transientPause hands a message back when the pipeline is in the way.
	transientPause = time.Second
	// sessionPause is the pause before the work is taken up again after NATS
	// was away.
	sessionPause = 500 * time.Millisecond
	// intake is how many problems are being stored at once.
	intake = 256
)

// Options configure an Escalator. All are required unless marked Optional.
type Options struct {
	NC *nats.Conn
	// Name tells this escalator from others; an earlier run under the same name
	// hands over at once.
	Name   string
	Sender *sender.Sender
	Keys   *sealed.Keyring // open the channels' secrets. Optional: where none is sealed
	// Source says in messages where they come from. Optional: Name.
	Source string
	// Link of an incident, given its id. Optional.
	Link         func(incident string) string
	DrainTimeout time.Duration
	Random       func() float64 // Optional: retry.Random
	Software     string         // Optional: version.Software
	Log          zerolog.Logger
	Metrics      prometheus.Registerer
}

// Escalator is the stage.
type Escalator struct {
	o         Options
	log       zerolog.Logger
	js        jetstream.JetStream
	kv        jetstream.KeyValue
	pub       *stage.Publisher
	channels  *revision.View[channel.Channel]
	policies  *revision.View[escalation.Policy]
	metrics   *metrics
	recorders []*stage.Loop
	ackWait   time.Duration
}

// New connects the stage to its streams.
func New(ctx context.Context, o Options) (*Escalator, error) {
	if o.NC == nil || o.Name == "" || o.Sender == nil || o.Metrics == nil {
		return nil, errors.New("escalator: NC, Name, Sender and Metrics are required")
	}
	if o.Random == nil {
		o.Random = retry.Random
	}
	if o.Software == "" {
		o.Software = version.Software
	}
	if o.Source == "" {
		o.Source = o.Name
	}
	if o.Link == nil {
		o.Link = func(string) string { return "" }
	}
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("escalator: %w", err)
	}
	e := &Escalator{o: o, log: o.Log, js: js, metrics: newMetrics(o.Metrics),
		channels: revision.NewView(js, channel.Registry(), o.Log),
		policies: revision.NewView(js, escalation.Policies(), o.Log)}
	if e.kv, err = streams.Bucket(ctx, js, streams.IncidentsBucket); err != nil {
		return nil, err
	}
	if e.pub, err = stage.NewPublisher(o.NC, o.Log); err != nil {
		return nil, err
	}
	if e.ackWait, err = stage.AckWait(ctx, js, streams.Escalations, streams.EscalatorConsumer); err != nil {
		return nil, err
	}
	e.recorders, err = recorder.Open(ctx, recorder.Options{JS: js, Publisher: e.pub, DrainTimeout: o.DrainTimeout,
		Log: o.Log}, streams.ChannelsStream, streams.EscalationPoliciesStream)
	return e, err
}

// Ready says whether whom to tell is known. It is a readiness check.
func (e *Escalator) Ready(context.Context) error {
	select {
	case <-e.channels.Ready():
	default:
		return errors.New("the channels have not been read yet")
	}
	select {
	case <-e.policies.Ready():
		return nil
	default:
		return errors.New("the escalation policies have not been read yet")
	}
}

// Run tells people until ctx ends, then stops within DrainTimeout: what is under
// way is finished or taken up again by whoever comes next.
func (e *Escalator) Run(ctx context.Context) error {
	g := new(errgroup.Group)
	g.Go(func() error { return e.channels.Run(ctx) })
	g.Go(func() error { return e.policies.Run(ctx) })
	for _, l := range e.recorders {
		g.Go(func() error { return l.Run(ctx) })
	}
	g.Go(func() error { return e.lead(ctx) })
	return g.Wait()
}

// lead works whenever this escalator holds the lease.
func (e *Escalator) lead(ctx context.Context) error {
	for _, ready := range []<-chan struct{}{e.channels.Ready(), e.policies.Ready()} {
		select {
		case <-ready: // before it, everything would be told to nobody
		case <-ctx.Done():
			return nil
		}
	}
	if len(e.policies.All()) == 0 {
		e.log.Warn().Msg(logevent.EscalationNoPolicy +
			": dead letters reach no person, only this log; make a channel and an " +
			"escalation policy: waybill channel create, waybill escalation-policy create")
	}
	for ctx.Err() == nil {
		if err := e.hold(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn().Err(err).Msg(logevent.EscalatorWaiting)
		}
		stage.Pause(ctx, sessionPause)
	}
	return nil
}

// hold takes the lease and runs one session under it.
func (e *Escalator) hold(ctx context.Context) error {
	o := lease.Options{JS: e.js, Key: streams.EscalatorLease, Name: e.o.Name, Log: e.log,
		Waiting: func(holder string) { e.log.Info().Str("holder", holder).Msg(logevent.EscalatorStandby) }}
	return lease.Hold(ctx, o, func(held context.Context, l *lease.Lease) error {
		e.metrics.leading.Set(1)
		defer e.metrics.leading.Set(0)
		return newSession(e, l).run(held)
	})
}

type metrics struct {
	leading prometheus.Gauge
	open    prometheus.Gauge
	tries   *prometheus.CounterVec
	untold  prometheus.Counter
	told    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		leading: prometheus.NewGauge(prometheus.GaugeOpts{Name: "waybill_escalator_leading",
			Help: "1 while this escalator tells people, 0 while it stands by."}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "waybill_incidents_open",
			Help: "Incidents that nobody has acknowledged."}),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_escalations_total",
			Help: "Tries to tell people, by kind of channel and outcome."}, []string{"kind", "outcome"}),
		untold: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_escalations_untold_total",
			Help: "Dead letters and rejected events of which no person could be told in time, or nobody is to be told. Alert " +
				"on it."}),
		told: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_escalation_seconds",
			Help:    "From the dead letter to the first channel that took the message.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16)}),
	}
	reg.MustRegister(m.leading, m.open, m.tries, m.untold, m.told)
	for _, k := range sender.Kinds() { // so that the first one is an increase
		m.tries.WithLabelValues(string(k), "delivered")
	}
	return m
}
