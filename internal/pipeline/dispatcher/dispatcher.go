// Package dispatcher makes the attempts: it takes deliveries, sends the signed
// request, decides what follows, and puts it on record.
//
// Deliver is the one door; Decide is the one decision.
package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt/webhook"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/internal/platform/version"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/internal/registry/endpointhealth"
	"github.com/waybill-dev/waybill/streams"
)

// defaultConcurrency is how many messages of one consumer are in hand at once.
// It is far above an endpoint's cap, so that a few endpoints that hang do not
// use it up.
const defaultConcurrency = 2048

// Options configure a Dispatcher. All are required unless marked Optional.
type Options struct {
	NC   *nats.Conn
	View *registry.View // kept up to date by whoever made it
	// Name is the dispatcher on record. Exclusive says that no other process
	// can run under it at the same time, so that claims made under it by an
	// earlier run are known to be dead.
	Name      string
	Exclusive bool

	Partitions   int                  // of DELIVERIES and RETRY; the same in every stage
	Keys         *sealed.Keyring      // open what endpoints keep secret
	Egress       egress.Policy        // which addresses may be called
	Proxy        *egress.Proxy        // Optional, see webhook.Options
	ProxyNames   bool                 // Optional, see webhook.Options
	Concurrency  int                  // Optional: messages in hand per consumer. Default 2048.
	DrainTimeout time.Duration        // how long a stop waits for attempts under way
	Destinations attempt.Destinations // Optional: http and https, made from Egress
	Redact       *redact.Redactor     // Optional: what of answers goes on record. Default redact.Default
	Random       func() float64
	Now          func() time.Time // Optional: this machine's clock. Default time.Now.
	Software     string           // Optional: version.Software
	Tracer       *tracing.Tracer  // Optional: none
	Log          zerolog.Logger
	Metrics      prometheus.Registerer
}

// Dispatcher is the stage.
type Dispatcher struct {
	o            Options
	boot         string // this run of this process
	log          zerolog.Logger
	view         *registry.View
	store        *registry.Store
	pub          *stage.Publisher
	claims       *claims
	destinations attempt.Destinations
	slots        *concurrency
	inHand       inHand
	clock        *stage.Clock
	late         *lateness
	health       *endpointhealth.Tracker
	rates        *rates
	fifoHeads    fifoHeads
	js           jetstream.JetStream
	breakers     *breakers
	faults       *faults
	waits        *waits
	metrics      *metrics
	loops        []*stage.Loop
}

// New connects the stage to its streams.
func New(ctx context.Context, o Options) (*Dispatcher, error) {
	if o.NC == nil || o.View == nil || o.Name == "" || o.Metrics == nil || o.Keys == nil {
		return nil, errors.New("dispatcher: NC, View, Name, Keys and Metrics are required")
	}
	o.Partitions = cmp.Or(o.Partitions, 1)
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	o.Software = cmp.Or(o.Software, version.Software)
	if o.Random == nil {
		o.Random = retry.Random
	}
	if o.Redact == nil {
		o.Redact = redact.Default()
	}
	if o.Destinations == nil {
		c := webhook.NewClient(webhook.Options{Egress: o.Egress, Redact: o.Redact, Proxy: o.Proxy, ProxyNames: o.ProxyNames,
			UserAgent: o.Software})
		o.Destinations = attempt.Destinations{"http": c, "https": c}
	}
	d := &Dispatcher{o: o, boot: ids.New("", time.Now()), log: o.Log, view: o.View, destinations: o.Destinations,
		slots: newConcurrency(o.Concurrency*3/4, o.View.Enabled)}
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("dispatcher: %w", err)
	}
	d.clock = stage.NewClock(js, streams.Retry, o.Now, o.Log)
	if err := errors.Join(d.clock.Compare(ctx), d.clock.Register(o.Metrics, "dispatcher")); err != nil {
		return nil, fmt.Errorf("dispatcher: comparing clocks: %w", err)
	}
	d.late = newLateness(o.Partitions, d.clock.Now)
	d.metrics = newMetrics(o.Metrics, d.slots.inFlight, d.late, o.Redact)
	d.breakers, d.waits = newBreakers(o.Random, time.Now, d.breakerChanged), newWaits(time.Now)
	d.faults = newFaults(d.clock.Now)
	if d.store, err = registry.OpenStore(ctx, js); err != nil {
		return nil, err
	}
	if d.health, err = endpointhealth.New(ctx, endpointhealth.Options{JS: js, Store: d.store, Log: o.Log}); err != nil {
		return nil, err
	}
	if d.pub, err = stage.NewPublisher(o.NC, o.Log); err != nil {
		return nil, err
	}
	if err := d.pub.Register(o.Metrics, "dispatcher"); err != nil {
		return nil, fmt.Errorf("dispatcher metrics: %w", err)
	}
	if d.claims, err = openClaims(ctx, js, d.pub, d.clock); err != nil {
		return nil, err
	}
	if d.rates, err = openRates(ctx, js, d.clock.Now); err != nil {
		return nil, err
	}
	if d.fifoHeads, err = openFifoHeads(ctx, js); err != nil {
		return nil, err
	}
	d.js, d.slots.freed = js, d.freed
	return d, d.openLoops(ctx, js)
}

func (d *Dispatcher) openLoops(ctx context.Context, js jetstream.JetStream) error {
	for p := range d.o.Partitions {
		for _, c := range [][2]string{{streams.Deliveries, streams.DispatchConsumer(p)},
			{streams.Retry, streams.RetryConsumer(p)}} {
			loop, err := stage.OpenLoop(ctx, stage.LoopOptions{JS: js, Stream: c[0], Consumer: c[1], Handle: d.Deliver,
				Lane: laneOf, Open: d.slots.open, Now: d.o.Now, Concurrency: d.o.Concurrency, DrainTimeout: d.o.DrainTimeout,
				Log: d.log, Metrics: d.o.Metrics})
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				return fmt.Errorf("%w --partitions %d", err, d.o.Partitions)
			}
			if err != nil {
				return err
			}
			d.loops = append(d.loops, loop)
		}
	}
	return nil
}

// laneOf lets endpoints take turns: a flood for one delays no other.
func laneOf(subject string) stage.Lane {
	return stage.Lane{Owner: subject[strings.LastIndexByte(subject, '.')+1:]}
}

// freed tells the loops that an endpoint has a slot again.
func (d *Dispatcher) freed(endpoint string) {
	for _, l := range d.loops {
		l.Opened(endpoint)
	}
}

// Run delivers until ctx ends, then stops within DrainTimeout: attempts under
// way are finished or cut short and recorded as interrupted, what was not
// started is handed back.
func (d *Dispatcher) Run(ctx context.Context) error {
	select {
	case <-d.view.Ready(): // before it, every endpoint would look deleted
	case <-ctx.Done():
		return nil
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()
	health := make(chan error, 1)
	go func() { health <- d.health.Run(watching) }()
	g := new(errgroup.Group)
	g.Go(func() error { return d.clock.Run(ctx) })
	for _, l := range d.loops {
		g.Go(func() error { return l.Run(ctx) })
	}
	g.Go(func() error { return d.runFifo(ctx) })
	err := g.Wait()
	d.destinations.Close()
	stopWatching()
	return errors.Join(err, <-health)
}

// CheckKeys is a readiness check: it fails while an endpoint that is enabled
// keeps secrets that the keys at hand do not open. Its deliveries wait.
func (d *Dispatcher) CheckKeys(context.Context) error { return CheckKeys(d.view, d.o.Keys) }

// CheckKeys is Dispatcher.CheckKeys for a view and keys.
func CheckKeys(view *registry.View, keys *sealed.Keyring) error {
	if err := keys.Check(); err != nil {
		return err
	}
	failed, first := 0, error(nil)
	for _, e := range view.All() {
		if e.State != registry.Enabled {
			continue
		}
		if _, err := e.Open(keys); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("the secrets of %s do not open, what is owed there waits; one of them: %w",
		text.Count(failed, "endpoint", "endpoints"), first)
}

// InHand counts the messages that are being handled.
func (d *Dispatcher) InHand() int {
	n := 0
	for _, l := range d.loops {
		n += l.InHand()
	}
	return n
}
