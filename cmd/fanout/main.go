// Command fanout expands events into deliveries.
package main

import (
	"context"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/pipeline/fanout"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	os.Exit(process.Execute(process.StageCommand{
		Name:  "fanout",
		Short: "Expand events into deliveries: one for each endpoint that is owed it",
		Long: `Reads EVENTS, matches each event with the endpoints of its tenant, puts on record
what is owed, and publishes one delivery for each. It expands replays too, and
puts every revision of an endpoint on record. Run any number beside each other.`,
		Example: `  fanout --nats-url nats://127.0.0.1:4222`,
		HTTP:    "127.0.0.1:8081",
		Streams: []string{streams.Events, streams.Deliveries, streams.Ledger},
		Run: func(ctx context.Context, env *process.Env) error {
			view := registry.NewView(env.JS, env.Log)
			stage, err := fanout.New(ctx, fanout.Options{NC: env.NATS, View: view, Partitions: env.Settings.Partitions,
				DrainTimeout: env.Settings.Drain, Log: env.Log, Metrics: env.Metrics, Tracer: env.Tracer})
			if err != nil {
				return err
			}
			env.Health.Add("registry", view.Check)
			env.Health.AddNote("registry", view.Note)
			env.Health.Add("event ids", stage.CheckIDs)
			if err := env.Serve(); err != nil {
				return err
			}
			g := new(errgroup.Group)
			g.Go(func() error { return view.Run(ctx) })
			g.Go(func() error { return stage.Run(ctx) })
			return g.Wait()
		},
	}.Command(), os.Args[1:], os.Stderr))
}
