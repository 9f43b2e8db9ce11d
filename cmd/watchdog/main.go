// Command watchdog sees that nothing falls silent, and tells people where nobody else does.
package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/channel"
	"github.com/waybill-dev/waybill/internal/egress"
	"github.com/waybill-dev/waybill/internal/ids"
	"github.com/waybill-dev/waybill/internal/process"
	"github.com/waybill-dev/waybill/internal/sealed"
	"github.com/waybill-dev/waybill/internal/version"
	"github.com/waybill-dev/waybill/internal/watchdog"
)

func main() {
	var allow []string
	var name, link, caFile, keyFile string
	var keys *sealed.Keyring
	var policy egress.Policy
	var roots *x509.CertPool
	limits := watchdog.DefaultLimits()
	os.Exit(process.Execute(process.StageCommand{
		Name:  "watchdog",
		Short: "See that nothing falls silent, and tell people where nobody else does",
		Long: `Reads LEDGER and looks at the NATS server: for deliveries that have no verdict in
time, dead letters that nobody was told of, parts that stand still, streams that
lost something, clocks. It tells people by itself, through the escalation policies,
where no dispatcher or escalator does, and needs the keys that the channels' secrets
are encrypted with for that. One watchdog acts at a time; run a second one,
on another machine, to take over. docs/watchdog.md lists the alarms.`,
		Example: `  watchdog --nats-url nats://127.0.0.1:4222 --secrets-key-file /etc/waybill/secrets.key
  watchdog --secrets-key-file /etc/waybill/secrets.key --link http://waybill.internal:8080/v1/escalations/{id}`,
		HTTP:    "127.0.0.1:8085",
		Watches: true,
		Bind: func(f *pflag.FlagSet) {
			f.StringSliceVar(&allow, "egress-allow", nil, "addresses that may be called although they are not public: CIDRs, comma-separated")
			process.BindKeys(f, &keyFile, "one of the two is required")
			f.StringVar(&name, "name", "", "this watchdog's name on record, unique among all (default: host name and a random part)")
			f.StringVar(&link, "link", "", "address of an incident for messages; {id} stands for its id")
			f.DurationVar(&limits.Stalled, "stalled-after", limits.Stalled, "alarm when a consumer has had something to do for so long and did nothing")
			f.DurationVar(&limits.SinkLag, "sink-lag", limits.SinkLag, "alarm when ClickHouse lacks a record that is so old")
			f.DurationVar(&limits.Overdue, "overdue-after", limits.Overdue, "alarm when an attempt of a delivery without deadline has been due for so long")
			f.StringVar(&caFile, "ca-file", "", "certificates (PEM) that servers are verified with, besides the system's")
		},
		Check: func() (err error) {
			if policy, err = egress.ParseAllow(allow); err != nil {
				return fmt.Errorf("--egress-allow: %w", err)
			}
			if link != "" && !strings.Contains(link, "{id}") {
				return fmt.Errorf("--link %q: want {id} in it, where the incident's id goes", link)
			}
			if min(limits.Stalled, limits.SinkLag, limits.Overdue) <= 0 {
				return errors.New("--stalled-after, --sink-lag and --overdue-after: want more than 0s")
			}
			if keys, err = process.LoadKeys(keyFile); err == nil && keys == nil {
				err = fmt.Errorf("--secrets-key-file is missing: without the keys no channel's secret can be read; give the file that the channels were made with, or %s", sealed.EnvKeys)
			}
			if err != nil {
				return err
			}
			roots, err = process.RootCAs("ca-file", caFile)
			return err
		},
		Run: func(ctx context.Context, env *process.Env) error {
			if name == "" {
				host, err := os.Hostname()
				if err != nil {
					return fmt.Errorf("host name: %w; give one with --name", err)
				}
				name = ids.New(host+"-", time.Now())
			}
			sender := channel.NewSender(channel.Options{Egress: policy, NC: env.NATS, RootCAs: roots, Software: version.Software})
			defer sender.Close()
			o := watchdog.Options{NC: env.NATS, Name: name, Sender: sender, Keys: keys, Partitions: env.Settings.Partitions, Limits: limits, Log: env.Log, Metrics: env.Metrics}
			if link != "" {
				o.Link = func(id string) string { return strings.ReplaceAll(link, "{id}", id) }
			}
			dog, err := watchdog.New(o)
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
