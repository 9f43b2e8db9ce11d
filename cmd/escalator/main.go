// Command escalator tells people about dead letters.
package main

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/notifyflags"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	var flags notifyflags.Flags
	os.Exit(process.Execute(process.StageCommand{
		Name:  "escalator",
		Short: "Tell people about dead letters, inside their deadline",
		Long: `Takes what is owed to people (dead letters, rejected events), and tells them through
the channels that the escalation policies name, until a named person acknowledges.
Every try is put on record. It needs the keys that the channels' secrets are
encrypted with. One escalator tells at a time; run a second one beside
it to take over.`,
		Example: `  escalator --nats-url nats://127.0.0.1:4222 --secrets-key-file /etc/waybill/secrets.key
  escalator --secrets-key-file /etc/waybill/secrets.key --link http://waybill.internal:8080/v1/escalations/{id}`,
		HTTP:    "127.0.0.1:8083",
		Streams: []string{streams.Escalations, streams.Ledger},
		Bind: func(f *pflag.FlagSet) {
			flags.Bind(f, "escalator")
		},
		Check: flags.Check,
		Run: func(ctx context.Context, env *process.Env) error {
			name, err := flags.Name()
			if err != nil {
				return err
			}
			sender := flags.Sender(env.NATS)
			defer sender.Close()
			stage, err := escalator.New(ctx, escalator.Options{NC: env.NATS, Name: name, Sender: sender, Keys: flags.Keys(),
				Link:         flags.Link(),
				DrainTimeout: env.Settings.Drain, Log: env.Log, Metrics: env.Metrics})
			if err != nil {
				return err
			}
			env.Health.Add("registry", stage.Ready)
			if err := env.Serve(); err != nil {
				return err
			}
			return stage.Run(ctx)
		},
	}.Command(), os.Args[1:], os.Stderr))
}
