// Command dispatcher makes the attempts: it sends the signed requests.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/pipeline/dispatcher"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

func main() {
	var allow, nat64 []string
	var name string
	var concurrency int
	var policy egress.Policy
	var keyFile string
	var keys *sealed.Keyring
	var proxyFlags process.Proxy
	var proxy *egress.Proxy
	var redaction process.Redaction
	var onRecord *redact.Redactor
	os.Exit(process.Execute(process.StageCommand{
		Name:  "dispatcher",
		Short: "Make the attempts: send each delivery as a signed HTTP request",
		Long: `Takes deliveries, sends each as a signed POST, decides what follows (delivered,
another attempt at a later time, dead letter), and puts every attempt on record.
Addresses that are not public are refused unless --egress-allow names them.
It needs the keys that endpoints' secrets are encrypted with.
Run any number beside each other.`,
		Example: `  dispatcher --nats-url nats://127.0.0.1:4222 --secrets-key-file /etc/waybill/secrets.key
  dispatcher --secrets-key-file /etc/waybill/secrets.key --egress-allow 10.20.0.0/16
  dispatcher --secrets-key-file /etc/waybill/secrets.key --egress-proxy http://proxy.example.com:3128`,
		HTTP:    "127.0.0.1:8082",
		Streams: []string{streams.Deliveries, streams.Retry, streams.Claims, streams.Ledger},
		Bind: func(f *pflag.FlagSet) {
			f.StringSliceVar(&allow, "egress-allow", nil,
				"addresses that may be called although they are not public: CIDRs, comma-separated")
			f.StringSliceVar(&nat64, "nat64-prefix", nil, "prefixes (IPv6 CIDR) of the NAT64 translators on the way out, "+
				"comma-separated: an address behind one is what the IPv4 address in it is")
			process.BindKeys(f, &keyFile, "one of the two is required")
			proxyFlags.Bind(f)
			redaction.Bind(f)
			f.StringVar(&name, "name", "", "this dispatcher's name on record, unique among all (default: host name and a "+
				"random part)")
			f.IntVar(&concurrency, "concurrency", 0, "deliveries in hand at once per consumer (0: 2048)")
		},
		Check: func() (err error) {
			if concurrency < 0 {
				return fmt.Errorf("--concurrency %d: want 1 or more, or 0 for the default", concurrency)
			}
			if policy, err = egress.ParseAllow(allow); err != nil {
				return fmt.Errorf("--egress-allow: %w", err)
			}
			if policy, err = policy.WithNAT64(nat64); err != nil {
				return fmt.Errorf("--nat64-prefix: %w", err)
			}
			if proxy, err = proxyFlags.Parse(policy); err != nil {
				return err
			}
			if onRecord, err = redaction.Load(); err != nil {
				return err
			}
			if keys, err = process.LoadKeys(keyFile); err == nil && keys == nil {
				err = fmt.Errorf("--secrets-key-file is missing: without the keys no request can be signed; give the file that "+
					"the endpoints were made with, or %s, or make one with: waybill key generate", sealed.EnvKeys)
			}
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
			view := registry.NewView(env.JS, env.Log)
			stage, err := dispatcher.New(ctx, dispatcher.Options{NC: env.NATS, View: view, Name: name, Keys: keys,
				Egress: policy, Proxy: proxy, ProxyNames: proxyFlags.Names, Redact: onRecord,
				Partitions: env.Settings.Partitions, Concurrency: concurrency, DrainTimeout: env.Settings.Drain,
				Log: env.Log, Metrics: env.Metrics, Tracer: env.Tracer})
			if err != nil {
				return err
			}
			env.Health.Add("registry", view.Check)
			env.Health.AddNote("registry", view.Note)
			env.Health.Add("secrets", stage.CheckKeys)
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
