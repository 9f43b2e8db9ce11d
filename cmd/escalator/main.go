// Command escalator tells people about dead letters.
package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/channel"
	"github.com/waybill-dev/waybill/internal/egress"
	"github.com/waybill-dev/waybill/internal/escalator"
	"github.com/waybill-dev/waybill/internal/ids"
	"github.com/waybill-dev/waybill/internal/process"
	"github.com/waybill-dev/waybill/internal/sealed"
	"github.com/waybill-dev/waybill/internal/version"
)

func main() {
	var allow []string
	var name, link, caFile, keyFile string
	var keys *sealed.Keyring
	var policy egress.Policy
	var roots *x509.CertPool
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
		HTTP: "127.0.0.1:8084",
		Bind: func(f *pflag.FlagSet) {
			f.StringSliceVar(&allow, "egress-allow", nil, "addresses that may be called although they are not public: CIDRs, comma-separated")
			process.BindKeys(f, &keyFile, "one of the two is required")
			f.StringVar(&name, "name", "", "this escalator's name on record, unique among all (default: host name and a random part)")
			f.StringVar(&link, "link", "", "address of an incident for messages; {id} stands for its id")
			f.StringVar(&caFile, "ca-file", "", "certificates (PEM) that servers are verified with, besides the system's")
		},
		Check: func() (err error) {
			if policy, err = egress.ParseAllow(allow); err != nil {
				return fmt.Errorf("--egress-allow: %w", err)
			}
			if link != "" && !strings.Contains(link, "{id}") {
				return fmt.Errorf("--link %q: want {id} in it, where the incident's id goes", link)
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
			o := escalator.Options{NC: env.NATS, Name: name, Sender: sender, Keys: keys, DrainTimeout: env.Settings.Drain, Log: env.Log, Metrics: env.Metrics}
			if link != "" {
				o.Link = func(id string) string { return strings.ReplaceAll(link, "{id}", id) }
			}
			stage, err := escalator.New(ctx, o)
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
