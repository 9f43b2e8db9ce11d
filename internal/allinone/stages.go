package allinone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/dispatcher"
	"github.com/waybill-dev/waybill/internal/fanout"
	"github.com/waybill-dev/waybill/internal/ids"
	"github.com/waybill-dev/waybill/internal/registry"
)

// stopMargin is what a stage gets beyond its drain: for the interrupted work
// to put itself on record.
const stopMargin = 10 * time.Second

// startStages starts what works on the streams, the end of the pipeline first:
// the cleanup then stops it in the order in which work flows.
func (w *Waybill) startStages(ctx context.Context) error {
	view, err := w.startView(ctx)
	if err != nil {
		return err
	}
	for _, start := range []func(context.Context, *registry.View) error{w.startSink, w.startDispatcher, w.startFanout, w.startAPI} {
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
	name, err := w.name()
	if err != nil {
		return err
	}
	d, err := dispatcher.New(ctx, dispatcher.StageOptions{
		NC: nc, View: view,
		// The name is kept in the data directory, and its lock makes us the only one who uses it.
		Name: name, Exclusive: true,
		Partitions: w.partitions, Egress: w.egress, DrainTimeout: w.o.Drain,
		Log: w.stageLog("dispatcher"), Metrics: w.metrics,
	})
	if err != nil {
		return err
	}
	w.work("dispatcher", w.o.Drain+stopMargin, d.Run)
	return nil
}

func (w *Waybill) startFanout(ctx context.Context, view *registry.View) error {
	nc, err := w.connect(ctx, "waybill-fanout")
	if err != nil {
		return err
	}
	f, err := fanout.New(ctx, fanout.Options{NC: nc, View: view, Partitions: w.partitions,
		DrainTimeout: w.o.Drain, Log: w.stageLog("fanout"), Metrics: w.metrics})
	if err != nil {
		return err
	}
	w.work("fanout", w.o.Drain+stopMargin, f.Run)
	return nil
}

func (w *Waybill) stageLog(name string) zerolog.Logger {
	return w.log.With().Str("stage", name).Logger()
}

// name is how this installation's dispatcher is called on record: made at the
// first start, the same at every later one.
func (w *Waybill) name() (string, error) {
	path := w.data.join(nameFile)
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", dataDirError(w.data.path, err)
	}
	name := ids.New("up_", time.Now())
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", dataDirError(w.data.path, err)
	}
	return name, nil
}
