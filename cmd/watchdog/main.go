// Command watchdog sees that nothing falls silent, and tells people where nobody else does.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/notifyflags"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/pipeline/watchdog"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	var flags notifyflags.Flags
	limits := watchdog.DefaultLimits()
	os.Exit(process.Execute(process.StageCommand{
		Name:  "watchdog",
		Short: "See that nothing falls silent, and tell people where nobody else does",
		Long: `Reads LEDGER and looks at the NATS server: for deliveries that have no verdict in
time, dead letters that nobody was told of, parts that stand still, streams that
lost something, clocks. It tells people by itself, through the escalation policies,
where no dispatcher or escalator does; for that it needs the keys that the channels'
secrets are encrypted with. One watchdog acts at a time; run a second one,
on another machine, to take over. docs/watchdog.md lists the alarms.`,
		Example: `  watchdog --nats-url nats://127.0.0.1:4222 --secrets-key-file /etc/waybill/secrets.key
  watchdog --secrets-key-file /etc/waybill/secrets.key --link http://waybill.internal:8080/v1/escalations/{id}`,
		HTTP:    "127.0.0.1:8085",
		Streams: []string{streams.Ledger},
		Watches: true,
		Bind: func(f *pflag.FlagSet) {
			flags.Bind(f, "watchdog")
			f.DurationVar(&limits.Stalled, "stalled-after", limits.Stalled,
				"alarm when a consumer has had something to do for so long and did nothing")
			f.DurationVar(&limits.SinkLag, "sink-lag", limits.SinkLag, "alarm when ClickHouse lacks a record that is so old")
			f.DurationVar(&limits.Overdue, "overdue-after", limits.Overdue,
				"alarm when an attempt of a delivery without deadline has been due for so long")
		},
		Check: func() error {
			if min(limits.Stalled, limits.SinkLag, limits.Overdue) <= 0 {
				return errors.New("--stalled-after, --sink-lag and --overdue-after: want more than 0s")
			}
			return flags.Check()
		},
		Run: func(ctx context.Context, env *process.Env) error {
			name, err := flags.Name()
			if err != nil {
				return err
			}
			sender := flags.Sender(env.NATS)
			defer sender.Close()
			dog, err := watchdog.New(watchdog.Options{NC: env.NATS, Name: name, Sender: sender, Keys: flags.Keys(),
				Link:       flags.Link(),
				Partitions: env.Settings.Partitions, Limits: limits, Log: env.Log, Metrics: env.Metrics})
			if err != nil {
				return err
			}
			env.Health.Add("watchdog", dog.Ready)
			if err := env.Serve(); err != nil {
				return err
			}
			return dog.Run(ctx)
		},
	}.Command(), os.Args[1:], os.Stderr))
}
