package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

// upFlags are the flags of up and demo.
type upFlags struct {
	o         allinone.Options
	sync      string
	caFile    string
	logLevel  string
	logFormat string
}

func (f *upFlags) bind(flags *pflag.FlagSet, level string) {
	bindDataDir(flags, &f.o.Data, "data directory (also: --data); made if need be, used by one process at a time")
	flags.StringVar(&f.o.HTTP, "http", "127.0.0.1:8080", "listen address of the HTTP API")
	flags.StringVar(&f.o.NATS, "nats", "127.0.0.1:4222", "listen address of the embedded NATS server")
	flags.StringVar(&f.o.ClickHouseNative, "clickhouse-native", "127.0.0.1:9000",
		"listen address of the ledger engine's native protocol")
	flags.StringVar(&f.o.ClickHouseHTTP, "clickhouse-http", "127.0.0.1:8123",
		"listen address of the ledger engine's HTTP interface; same host as --clickhouse-native")
	flags.StringVar(&f.o.NATSURL, "nats-url", "",
		"use these NATS servers (comma-separated, with JetStream) instead of an embedded one")
	flags.StringVar(&f.o.NATSCreds, "nats-creds", "", "NATS credentials file for --nats-url")
	flags.StringVar(&f.o.ClickHouseDSN, "clickhouse", "", "use this ClickHouse server instead of the embedded engine, "+
		"clickhouse://user:password@host:9000/database")
	flags.StringVar(&f.sync, "sync", "always", "when the embedded NATS server makes what it stored safe from a power "+
		"cut: always, or every so often, such as 1s")
	flags.StringSliceVar(&f.o.EgressAllow, "egress-allow", nil, "networks (CIDR) that may be called although they are "+
		"private, loopback or otherwise special; repeatable, comma-separated")
	flags.StringSliceVar(&f.o.NAT64, "nat64-prefix", nil, "prefixes (IPv6 CIDR) of the NAT64 translators on the way "+
		"out, comma-separated: an address behind one is what the IPv4 address in it is")
	flags.StringVar(&f.caFile, "ca-file", "", "certificates (PEM) that the servers of escalation channels are verified "+
		"with, besides the system's")
	f.o.EgressProxy.Bind(flags)
	f.o.Redaction.Bind(flags)
	process.BindKeys(flags, &f.o.SecretsKeyFile, "default: DATA/keys/secrets.key, made at the first start")
	f.o.Transparency.Bind(flags, "default: DATA/keys/checkpoint.key, made at the first start")
	flags.StringVar(&f.o.Origin, "origin", "", "name of the ledger's log, for the checkpoint key that is made at the "+
		"first start, such as example.com/ledger (default: one that is unique)")
	flags.IntVar(&f.o.Partitions, "partitions", 0, "partitions of the delivery queues, 1 to 100; never fewer than "+
		"before (default: what the data has, or 1)")
	flags.DurationVar(&f.o.Drain, "drain-timeout", 5*time.Second, "how long an orderly stop waits for attempts under way")
	flags.StringVar(&f.o.AddressesFile, "addresses", "", "write the addresses to this file as JSON once everything works")
	process.BindDebug(flags, &f.o.DebugHTTP)
	process.BindTracing(flags, &f.o.OTLP)
	flags.StringVar(&f.logLevel, "log-level", level, "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "", "json or text (default: text on a terminal, else json)")
}

// options checks the flags.
func (f *upFlags) options(stderr io.Writer) (allinone.Options, error) {
	if err := needFile("addresses", f.o.AddressesFile); err != nil {
		return allinone.Options{}, err
	}
	format := f.logFormat
	if format == "" {
		format = "json"
		if isTerminal(stderr) {
			format = "text"
		}
	}
	log, err := process.NewLogger(stderr, format, f.logLevel)
	if err != nil {
		return f.o, err
	}
	f.o.Log = log
	if f.o.Partitions < 0 || f.o.Partitions > 100 {
		return f.o, process.Usagef("--partitions %d: want 1 to 100", f.o.Partitions)
	}
	if f.o.Drain < 0 {
		return f.o, process.Usagef("--drain-timeout %s: want 0s or more", f.o.Drain)
	}
	if f.o.RootCAs, err = process.RootCAs("ca-file", f.caFile); err != nil {
		return f.o, &process.UsageError{Err: err}
	}
	if f.o.Sync, err = allinone.ParseSync(f.sync); err != nil {
		return f.o, err
	}
	return f.o, nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

func upCommand(s stdio) *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use: "up", Short: "Run everything on this machine",
		Long: `Run everything in one process group: a NATS server with JetStream, every stage,
the ledger engine (ClickHouse) and the HTTP API. The line "waybill: ready" says
that everything works. All data is in --data; kill -9 and a restart lose nothing.

--addresses FILE and DATA/addresses.json hold a JSON object with http, nats,
clickhouse_native and clickhouse_http, each host:port, and pid.
Stop with Ctrl-C or SIGTERM; a second one ends the process at once.

The secrets of endpoints are encrypted with the keys in DATA/keys/secrets.key,
which is made at the first start: keep a copy of it, apart from the data. So is
DATA/keys/checkpoint.key, with which the ledger's checkpoints are signed: give
whoever verifies them its public half, which is printed at the start.`,
		Example: `  waybill up
  waybill up --data-dir /var/lib/waybill --http 0.0.0.0:8080 --log-format json
  waybill up --egress-allow 10.20.0.0/16 --egress-allow 127.0.0.0/8
  waybill up --secrets-key-file /etc/waybill/secrets.key
  waybill up --nats-url nats://nats.internal:4222 --clickhouse clickhouse://waybill:secret@ch.internal:9000/waybill`,
	}
	f.bind(c.Flags(), "info")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := f.options(s.err)
		if err != nil {
			return err
		}
		return up(c.Context(), o, s, nil)
	}
	return c
}

// up runs everything until ctx ends or a part fails. then, if any, is called
// once everything works, and up ends when it returns.
func up(ctx context.Context, o allinone.Options, s stdio,
	then func(context.Context, *allinone.Waybill) error) (err error) {
	w, err := allinone.Start(ctx, o)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("interrupted before everything was up")
		}
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	if then == nil {
		printAddresses(s.out, w, o.Log)
		return w.Wait(ctx)
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // a part that fails ends what uses it
		if cause := w.Wait(run); cause != nil {
			cancel(cause)
		}
	}()
	err = then(run, w)
	if cause := context.Cause(run); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printAddresses says where everything is; its last line is the one that
// scripts wait for.
func printAddresses(out io.Writer, w *allinone.Waybill, log zerolog.Logger) {
	a := w.Addresses()
	fmt.Fprintf(out, "Waybill %s, data in %s\n\n", version.Version, w.Data())
	fmt.Fprintf(out, "  API          http://%s\n", a.HTTP)
	fmt.Fprintf(out, "  NATS         nats://%s\n", a.NATS)
	fmt.Fprintf(out, "  ClickHouse   %s (native protocol)\n", a.ClickHouseNative)
	if a.ClickHouseHTTP != "" {
		fmt.Fprintf(out, "               http://%s (HTTP)\n", a.ClickHouseHTTP)
	}
	fmt.Fprintf(out, "  Ledger key   %s\n               verifies http://%s/log/checkpoint\n", w.Verifier(), a.HTTP)
	if a.ClickHouseHTTP != "" {
		fmt.Fprintf(out, "\nAsk the ledger, for example:\n\n  %s\n",
			curl(a.ClickHouseHTTP, "SELECT state, count() FROM deliveries GROUP BY state FORMAT PrettyCompact"))
	}
	fmt.Fprintf(out, "\nwaybill: ready\n")
	log.Info().Str("http", a.HTTP).Str("nats", a.NATS).Str("clickhouse_native", a.ClickHouseNative).
		Str("clickhouse_http", a.ClickHouseHTTP).Str("data", w.Data()).Msg(logevent.UpReady)
}

// curl is a command line that asks the ledger.
func curl(address, query string) string {
	return fmt.Sprintf("curl 'http://%s/?database=waybill' --data-binary \"%s\"", address, query)
}
