// Command ingest takes events over HTTP and NATS and stores them in EVENTS.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/internal/platform/problem"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	var o ingest.Options
	os.Exit(process.Execute(process.StageCommand{
		Name:  "ingest",
		Short: "Take events over HTTP and NATS and store them in EVENTS",
		Long: `Takes events over HTTP (POST /v1/events, one or a batch) and over NATS
(events.<tenant>.<type>), and answers once EVENTS has stored them. Run any number
beside each other: without one, producers on NATS hear that nobody responds.`,
		Example: `  ingest --nats-url nats://127.0.0.1:4222 --http 127.0.0.1:8080
  curl -H 'Content-Type: application/json' -d '{"type":"ping","data":null}' http://127.0.0.1:8080/v1/events
  nats pub -J events.default.ping '{"type":"ping","data":null}'`,
		HTTP:    "127.0.0.1:8080",
		Streams: []string{streams.Events},
		Bind: func(f *pflag.FlagSet) {
			f.IntVar(&o.MaxEventBytes, "max-event-bytes", envelope.MaxEventBytes,
				"largest event, in bytes; the same in every stage")
		},
		Run: func(ctx context.Context, env *process.Env) error {
			// The event travels to each endpoint with headers of its own.
			if most := env.NATS.MaxPayload() - 16<<10; o.MaxEventBytes < 1 || int64(o.MaxEventBytes) > most {
				return process.Usagef("--max-event-bytes %d: want 1 to %d, which is what NATS takes (max_payload)", o.MaxEventBytes,
					most)
			}
			o.NC, o.Metrics, o.Tracer, o.Log, o.DrainTimeout = env.NATS, env.Metrics, env.Tracer, env.Log, env.Settings.Drain
			ids, err := eventids.New(env.NATS, env.Log)
			if err != nil {
				return err
			}
			o.IDs = ids
			if err := ids.Register(env.Metrics, "ingest"); err != nil {
				return err
			}
			stage, err := ingest.New(o)
			if err != nil {
				return err
			}
			env.Health.Add("ingest", stage.Ready)
			stage.Routes(env.Mux)
			env.Mux.HandleFunc("/", problem.NotFound)
			if err := env.Serve(); err != nil {
				return err
			}
			g := new(errgroup.Group)
			g.Go(func() error { return ids.Run(ctx) })
			g.Go(func() error { return stage.Run(ctx) })
			return g.Wait()
		},
	}.Command(), os.Args[1:], os.Stderr))
}
