// Package allinone is the whole of Waybill in one process: the NATS server, the
// stages, the ledger engine as a supervised child, and the HTTP API.
package allinone

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/streams"
)

// Options of Start. Listen addresses are "host:port"; port 0 takes a free one.
type Options struct {
	Data             string // the data directory; made if need be
	HTTP             string // API and ingest
	NATS             string // the embedded server
	ClickHouseNative string // the embedded engine
	ClickHouseHTTP   string // the embedded engine; same host as ClickHouseNative
	NATSURL          string // Optional: an existing server instead of the embedded one
	NATSCreds        string // Optional: credentials file for NATSURL
	ClickHouseDSN    string // Optional: an existing server instead of the embedded engine
	Sync             Sync   // of the embedded NATS server
	EgressAllow      []string
	NAT64            []string
	EgressProxy      process.Proxy
	Redaction        process.Redaction // what of receivers' answers goes on record
	RootCAs          *x509.CertPool    // Optional: verify the servers of escalation channels instead of the system's
	SecretsKeyFile   string            // Optional: the environment's keys, or a file in the data directory
	Partitions       int               // 0: what the data has, or 1
	Drain            time.Duration     // how long a stop waits for a stage's work in hand
	DebugHTTP        string            // Optional: where to serve Go's profiles, on loopback
	OTLP             string            // Optional: where to send traces
	AddressesFile    string            // Optional: where to write the addresses besides the data directory
	Transparency     transparency.Settings
	Origin           string // Optional: of the checkpoint key that is made at the first start
	Log              zerolog.Logger
}

// Waybill is everything, running.
type Waybill struct {
	o          Options
	egress     egress.Policy
	proxy      *egress.Proxy // Optional
	redact     *redact.Redactor
	keys       *sealed.Keyring
	checkKeys  func(context.Context) error
	log        zerolog.Logger
	cleanup    process.Cleanup
	health     process.Health
	metrics    *prometheus.Registry
	tracer     *tracing.Tracer // nil: off
	partitions int
	name       string // see installationName
	addresses  Addresses

	data     *dataDir
	listener net.Listener
	nats     *natsServer // nil with NATSURL
	js       jetstream.JetStream
	dsn      ledgerDSNs
	ledger   *ledger.DB // as the sink
	reader   *ledger.DB // for questions
	control  *control.Control
	ids      *eventids.Index
	// keysOfLog sign the ledger's checkpoints.
	keysOfLog *checkpoint.Keys

	failOnce sync.Once
	failed   chan struct{} // closed when a part ended that must not
	cause    error         // read after failed
}

// Start returns once everything works. ctx bounds the start; Stop MUST be
// called for a Waybill that was returned. When it fails, whatever was started is stopped.
func Start(ctx context.Context, o Options) (w *Waybill, err error) {
	policy, err := egress.ParseAllow(o.EgressAllow)
	if err != nil {
		return nil, process.Usagef("--egress-allow: %w", err)
	}
	if policy, err = policy.WithNAT64(o.NAT64); err != nil {
		return nil, process.Usagef("--nat64-prefix: %w", err)
	}
	if err := o.Transparency.Check(); err != nil {
		return nil, &process.UsageError{Err: err}
	}
	if o.Origin != "" {
		if err := checkpoint.CheckOrigin(o.Origin); err != nil {
			return nil, process.Usagef("--origin: %w", err)
		}
	}
	proxy, err := o.EgressProxy.Parse(policy)
	if err != nil {
		return nil, err
	}
	policyOnRecord, err := o.Redaction.Load()
	if err != nil {
		return nil, err
	}
	if o.ClickHouseDSN != "" {
		db, err := ledger.New(o.ClickHouseDSN) // connects to nothing yet
		if err != nil {
			return nil, process.Usagef("--clickhouse: %w", err)
		}
		_ = db.Close()
	}
	for flag, addr := range map[string]string{"http": o.HTTP, "nats": o.NATS,
		"clickhouse-native": o.ClickHouseNative, "clickhouse-http": o.ClickHouseHTTP} {
		if _, _, err := splitAddress(flag, addr); err != nil {
			return nil, err
		}
	}
	w = &Waybill{o: o, egress: policy, proxy: proxy, redact: policyOnRecord, log: o.Log, metrics: process.NewMetrics(),
		failed: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.cleanup.Run(w.log))
			w = nil
		}
	}()
	if w.data, err = openDataDir(o.Data, w.log); err != nil {
		return w, err
	}
	w.cleanup.Push("data directory", time.Second, func(context.Context) error { return w.data.close() })
	process.WarnFewDescriptors(w.log)
	if err := process.ServeDebug(o.DebugHTTP, &w.cleanup, w.log); err != nil {
		return w, err
	}
	if w.tracer, err = process.StartTracing(ctx, o.OTLP, "waybill", &w.cleanup, w.log); err != nil {
		return w, err
	}
	if w.listener, err = process.Listen("http", o.HTTP); err != nil {
		return w, err
	}
	w.cleanup.Push("listener", time.Second, func(context.Context) error { return closeListener(w.listener) })
	w.addresses.HTTP = reachable(w.listener.Addr())
	warnExposed(w.log, "HTTP API", "publish events and change endpoints", w.listener.Addr())
	if err := w.startServers(ctx); err != nil {
		return w, err
	}
	if err := w.startStages(ctx); err != nil {
		return w, err
	}
	if err := w.awaitReady(ctx); err != nil {
		return w, err
	}
	w.watchKeys()
	return w, w.announce()
}

// readyPoll is how often the checks behind /readyz are made until all pass.
const readyPoll = 10 * time.Millisecond

// awaitReady returns when /readyz says that everything works.
func (w *Waybill) awaitReady(ctx context.Context) error {
	t := time.NewTicker(readyPoll)
	defer t.Stop()
	for {
		failures := w.health.Failures(ctx)
		if len(failures) == 0 {
			return nil
		}
		select {
		case <-t.C:
		case <-w.failed:
			return w.cause
		case <-ctx.Done():
			return fmt.Errorf("not everything is ready: %v: %w", failures, context.Cause(ctx))
		}
	}
}

// startServers brings up NATS and ClickHouse beside each other.
func (w *Waybill) startServers(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.startStreams(ctx) })
	g.Go(func() error { return w.startLedger(ctx) })
	return g.Wait()
}

// jetStreamWait is how long a start waits for a NATS server and its JetStream.
const jetStreamWait = 30 * time.Second

// startStreams brings up NATS and puts the topology in place.
func (w *Waybill) startStreams(ctx context.Context) (err error) {
	if w.o.NATSURL != "" {
		w.addresses.NATS, w.addresses.NATSURL = natsAddress(w.o.NATSURL), w.o.NATSURL
	} else {
		if w.nats, err = startNATS(w.o.NATS, w.data.join(natsDir), w.o.Sync, w.log); err != nil {
			return err
		}
		w.cleanup.Push("nats server", natsStopBound, w.nats.stop)
		w.addresses.NATS, w.addresses.Sync = w.nats.address(), w.o.Sync.String()
		w.watch("nats server", w.nats.watch)
	}
	nc, err := w.connect(ctx, "waybill-up")
	if err != nil {
		return err
	}
	w.health.Add("nats", process.Connected(nc))
	if w.js, err = jetstream.New(nc); err != nil {
		return err
	}
	// A server of a cluster that comes up answers once a leader is elected.
	err = process.WaitForJetStream(ctx, jetStreamWait, func(ctx context.Context) (err error) {
		w.partitions, err = streams.ChoosePartitions(ctx, w.js, w.o.Partitions)
		return err
	})
	if err != nil {
		return err
	}
	w.health.Add("streams", process.Led(w.js, streams.Events, streams.Deliveries, streams.Retry, streams.Claims,
		streams.Ledger))
	changes, err := streams.Apply(ctx, w.js, streams.Options{Partitions: w.partitions})
	for _, c := range changes {
		if c.Action != "unchanged" {
			w.log.Debug().Str("what", c.Name).Str("action", c.Action).Strs("differences",
				c.Differences).Msg(logevent.StreamsChanged)
		}
	}
	if err != nil {
		return fmt.Errorf("putting the streams in place: %w", err)
	}
	return process.QueueMetrics(w.metrics, w.js, w.partitions)
}

// connect opens a connection of its own for each part, so that one that is
// slow to read holds up no other.
func (w *Waybill) connect(ctx context.Context, name string) (nc *nats.Conn, err error) {
	if w.nats != nil {
		nc, err = w.nats.connect(ctx, name, w.log)
	} else {
		nc, err = process.ConnectNATS(ctx, w.o.NATSURL, name, w.o.NATSCreds, jetStreamWait, w.log)
	}
	if err != nil {
		return nil, err
	}
	w.cleanup.Push("connection "+name, time.Second, func(context.Context) error { nc.Close(); return nil })
	return nc, process.ConnectionMetrics(w.metrics, nc, strings.TrimPrefix(name, "waybill-"))
}

// startEngine runs ClickHouse unless there is one already.
func (w *Waybill) startEngine(ctx context.Context) error {
	if w.o.ClickHouseDSN != "" {
		w.dsn = ledgerDSNs{w.o.ClickHouseDSN, w.o.ClickHouseDSN, w.o.ClickHouseDSN}
		w.addresses.ClickHouseDSN = w.o.ClickHouseDSN
		w.addresses.ClickHouseNative = dsnAddress(w.o.ClickHouseDSN)
		return nil
	}
	passwords, err := ensurePasswords(w.data.join(passwordsFile))
	if err != nil {
		return err
	}
	e, err := engine.Start(ctx, roleOptions(engine.Options{
		Dir: w.data.join(engineDir), NativeAddr: w.o.ClickHouseNative, HTTPAddr: w.o.ClickHouseHTTP,
		Logger: w.log.With().Str("part", "clickhouse").Logger(),
	}, passwords))
	if err != nil {
		return err
	}
	w.cleanup.Push("clickhouse", 20*time.Second, e.Stop)
	w.health.Add("clickhouse", e.Ready)
	w.addresses.ClickHouseNative, w.addresses.ClickHouseHTTP = e.NativeAddr(), e.HTTPAddr()
	w.addresses.ClickHousePasswordsFile = w.data.join(passwordsFile)
	dsn := func(user string) string { return EngineDSN(e.NativeAddr(), user, passwords[user]) }
	w.dsn = ledgerDSNs{owner: dsn(Owner), sink: dsn(roles.Sink), reader: dsn(roles.Analyst)}
	return nil
}

// work runs a part until its turn in the cleanup. A part that ends before is a
// failure of the whole: no process lives on with a dead worker.
func (w *Waybill) work(name string, bound time.Duration, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended without a reason")
		}
		w.fail(fmt.Errorf("%s stopped working: %w", name, err))
	}()
	w.cleanup.Push(name, bound, func(limit context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-limit.Done():
			return fmt.Errorf("not stopped after %s; what it had in hand is taken up at the next start", bound)
		}
	})
}

// watch runs a check that returns nil when told to end.
func (w *Waybill) watch(name string, check func(context.Context) error) {
	w.work("watch of the "+name, time.Second, check)
}

func (w *Waybill) fail(err error) {
	w.failOnce.Do(func() {
		w.cause = err
		close(w.failed)
	})
}

// announce writes the addresses where others look for them: last, so that
// whoever reads them finds everything working.
func (w *Waybill) announce() error {
	w.addresses.PID, w.addresses.EgressAllow, w.addresses.NAT64 = os.Getpid(), w.egress.Allowed(), w.egress.NAT64()
	if err := WriteAddresses(w.data.join(AddressesName), w.addresses); err != nil {
		return err
	}
	if w.o.AddressesFile == "" {
		return nil
	}
	return WriteAddresses(w.o.AddressesFile, w.addresses.Public())
}

// Addresses of what runs.
func (w *Waybill) Addresses() Addresses { return w.addresses }

// Control acts on what runs, as the HTTP API does.
func (w *Waybill) Control() *control.Control { return w.control }

// Data is the absolute path of the data directory.
func (w *Waybill) Data() string { return w.data.path }

// Wait returns nil when ctx ends, or an error when a part stopped working.
func (w *Waybill) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.failed:
		return w.cause
	}
}

// Stop ends everything in the order in which work flows: nothing new is
// accepted, what is in hand is finished, what is finished is stored.
func (w *Waybill) Stop() error {
	w.log.Info().Msg(logevent.UpStopping)
	removeAddresses(w.data.join(AddressesName), w.o.AddressesFile)
	return w.cleanup.Run(w.log)
}
