package allinone

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/internal/pipeline/fanout"
	"github.com/waybill-dev/waybill/internal/pipeline/watchdog"
	"github.com/waybill-dev/waybill/internal/platform/version"
	"github.com/waybill-dev/waybill/internal/registry"
)

// stopMargin is what a stage gets beyond its drain: for the interrupted work
// to put itself on record.
const stopMargin = 10 * time.Second

// startStages starts what works on the streams, the end of the pipeline first:
// the cleanup then stops it in the order in which work flows.
func (w *Waybill) startStages(ctx context.Context) error {
	var err error
	if w.name, err = w.data.installationName(); err != nil {
		return err
	}
	view, err := w.startView(ctx)
	if err != nil {
		return err
	}
	if err := w.openKeys(ctx, view); err != nil {
		return err
	}
	for _, start := range []func(context.Context, *registry.View) error{w.startWatchdog, w.startSink, w.startEscalator,
		w.startDispatcher, w.startFanout, w.startAPI} {
		if err := start(ctx, view); err != nil {
			return err
		}
	}
	return nil
}

// startView watches the registry, for all stages at once.
func (w *Waybill) startView(ctx context.Context) (*registry.View, error) {
	view := registry.NewView(w.js, w.log)
	w.work("registry", time.Second, view.Run)
	select {
	case <-view.Ready():
		return view, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("reading the endpoints: %w", context.Cause(ctx))
	}
}

func (w *Waybill) startDispatcher(ctx context.Context, view *registry.View) error {
	nc, err := w.connect(ctx, "waybill-dispatcher")
	if err != nil {
		return err
	}
	d, err := dispatcher.New(ctx, dispatcher.Options{
		NC: nc, View: view,
		Name: w.name, Exclusive: true, // see installationName
		Partitions: w.partitions, Egress: w.egress, DrainTimeout: w.o.Drain,
		Keys: w.keys, Proxy: w.proxy, ProxyNames: w.o.EgressProxy.Names, Redact: w.redact,
		Tracer: w.tracer, Log: w.stageLog("dispatcher"), Metrics: w.metrics,
	})
	if err != nil {
		return err
	}
	w.checkKeys = d.CheckKeys
	w.work("dispatcher", w.o.Drain+stopMargin, d.Run)
	return nil
}

func (w *Waybill) startFanout(ctx context.Context, view *registry.View) error {
	nc, err := w.connect(ctx, "waybill-fanout")
	if err != nil {
		return err
	}
	if w.ids, err = eventids.New(nc, w.stageLog("fanout")); err != nil {
		return err
	}
	if err := w.ids.Register(w.metrics, "fanout"); err != nil {
		return err
	}
	w.work("event ids", stopMargin, w.ids.Run)
	inHand := 0 // fanout's default
	if w.nats != nil && w.o.Sync.Always {
		inHand = fanout.SyncedConcurrency
	}
	f, err := fanout.New(ctx, fanout.Options{NC: nc, View: view, IDs: w.ids, Partitions: w.partitions,
		DrainTimeout: w.o.Drain, Concurrency: inHand, Tracer: w.tracer, Log: w.stageLog("fanout"), Metrics: w.metrics})
	if err != nil {
		return err
	}
	w.work("fanout", w.o.Drain+stopMargin, f.Run)
	return nil
}

// sender is what tells people.
func (w *Waybill) sender(nc *nats.Conn) *sender.Sender {
	return sender.New(sender.Options{Egress: w.egress, Proxy: w.proxy, ProxyNames: w.o.EgressProxy.Names, NC: nc,
		RootCAs: w.o.RootCAs,
		Redact:  w.redact, Software: version.Software})
}

func (w *Waybill) startEscalator(ctx context.Context, _ *registry.View) error {
	nc, err := w.connect(ctx, "waybill-escalator")
	if err != nil {
		return err
	}
	sender := w.sender(nc)
	w.cleanup.Push("escalator's connections", time.Second, func(context.Context) error { sender.Close(); return nil })
	e, err := escalator.New(ctx, escalator.Options{NC: nc, Name: w.name, Sender: sender, Keys: w.keys,
		DrainTimeout: w.o.Drain,
		Link:         func(id string) string { return "http://" + w.addresses.HTTP + "/v1/escalations/" + id },
		Log:          w.stageLog("escalator"), Metrics: w.metrics})
	if err != nil {
		return err
	}
	w.health.Add("escalator", e.Ready)
	w.work("escalator", w.o.Drain+stopMargin, e.Run)
	return nil
}

// startWatchdog starts what sees that the others work: first, so that it stops last.
func (w *Waybill) startWatchdog(ctx context.Context, _ *registry.View) error {
	nc, err := w.connect(ctx, "waybill-watchdog")
	if err != nil {
		return err
	}
	sender := w.sender(nc)
	w.cleanup.Push("watchdog's connections", time.Second, func(context.Context) error { sender.Close(); return nil })
	dog, err := watchdog.New(watchdog.Options{NC: nc, Name: w.name, Sender: sender, Keys: w.keys, Partitions: w.partitions,
		Link: func(id string) string { return "http://" + w.addresses.HTTP + "/v1/escalations/" + id },
		Log:  w.stageLog("watchdog"), Metrics: w.metrics})
	if err != nil {
		return err
	}
	w.work("watchdog", stopMargin, dog.Run)
	return nil
}

func (w *Waybill) stageLog(name string) zerolog.Logger {
	return w.log.With().Str("stage", name).Logger()
}
