package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/tracing"
	"github.com/waybill-dev/waybill/streams"
)

// Settings that every stage's command has.
type Settings struct {
	NATSURL    string        // --nats-url
	NATSCreds  string        // --nats-creds. Optional
	NATSWait   time.Duration // --nats-wait
	HTTP       string        // --http: health, readiness, metrics, and the stage's own routes
	LogLevel   string        // --log-level
	LogFormat  string        // --log-format
	Partitions int           // --partitions: of DELIVERIES and RETRY; the same in every stage
	Drain      time.Duration // --drain-timeout
	DebugHTTP  string        // --debug-http. Optional
	OTLP       string        // --otlp-endpoint. Optional
}

// BindNATS adds the flags of the connection to NATS.
func (s *Settings) BindNATS(f *pflag.FlagSet) {
	f.StringVar(&s.NATSURL, "nats-url", "nats://127.0.0.1:4222", "NATS servers, comma-separated")
	f.StringVar(&s.NATSCreds, "nats-creds", "", "NATS credentials file")
	f.DurationVar(&s.NATSWait, "nats-wait", 30*time.Second, "how long to wait for NATS at start")
}

// BindLog adds the logger's flags.
func (s *Settings) BindLog(f *pflag.FlagSet, format string) {
	f.StringVar(&s.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.LogFormat, "log-format", format, "json or text")
}

// BindStage adds what a stage has besides.
func (s *Settings) BindStage(f *pflag.FlagSet, http string) {
	f.StringVar(&s.HTTP, "http", http, "listen address of /healthz, /readyz, /metrics and the stage's own routes")
	f.IntVar(&s.Partitions, "partitions", 1, "partitions of DELIVERIES and RETRY; the same in every stage")
	f.DurationVar(&s.Drain, "drain-timeout", 15*time.Second, "how long an orderly stop waits for work in hand")
	BindDebug(f, &s.DebugHTTP)
	BindTracing(f, &s.OTLP)
}

// Env is what a running stage is given.
type Env struct {
	Settings Settings
	Log      zerolog.Logger
	NATS     *nats.Conn
	JS       jetstream.JetStream
	Mux      *http.ServeMux
	Health   *Health
	Metrics  *prometheus.Registry
	Tracer   *tracing.Tracer // nil: off
	Cleanup  *Cleanup
	// Serve starts answering on --http; a stage calls it once its routes are added.
	Serve func() error
}

// StageCommand describes a stage's command.
type StageCommand struct {
	Name, Short, Long, Example string
	HTTP                       string // default of --http
	// Watches says that it starts also while the streams are not as they must be:
	// it is there to say so.
	Watches bool
	// Streams are those without which it can do nothing: it is not ready while one
	// of them has no leader.
	Streams []string
	Bind    func(*pflag.FlagSet)
	// Check looks at the stage's own flags before anything is opened. Optional.
	Check func() error
	// Run builds the stage and works until ctx ends.
	Run func(ctx context.Context, env *Env) error
}

// Command builds the cobra command of a stage that runs alone.
func (s StageCommand) Command() *cobra.Command {
	var settings Settings
	c := &cobra.Command{Use: s.Name, Short: s.Short, Example: s.Example, Args: NoArgs,
		Long: s.Long + "\n\nEvery flag is also an environment variable: --nats-url is WAYBILL_NATS_URL."}
	settings.BindNATS(c.Flags())
	settings.BindStage(c.Flags(), s.HTTP)
	settings.BindLog(c.Flags(), "json")
	if s.Bind != nil {
		s.Bind(c.Flags())
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return s.run(c.Context(), settings) }
	return c
}

func (s StageCommand) run(ctx context.Context, settings Settings) (err error) {
	log, err := NewLogger(os.Stderr, settings.LogFormat, settings.LogLevel)
	if err != nil {
		return err
	}
	log = log.With().Str("stage", s.Name).Logger()
	if settings.Partitions < 1 {
		return Usagef("--partitions %d: want 1 or more", settings.Partitions)
	}
	if s.Check != nil {
		if err := s.Check(); err != nil {
			return &UsageError{err}
		}
	}
	cleanup := &Cleanup{}
	defer func() { err = errors.Join(err, cleanup.Run(log)) }()

	listener, err := Listen("http", settings.HTTP)
	if err != nil {
		return err
	}
	served := false
	cleanup.Push("listener", time.Second, func(context.Context) error {
		if served {
			return nil
		}
		return listener.Close()
	})
	if err := ServeDebug(settings.DebugHTTP, cleanup, log); err != nil {
		return err
	}
	tracer, err := StartTracing(ctx, settings.OTLP, "waybill-"+s.Name, cleanup, log)
	if err != nil {
		return err
	}
	nc, err := ConnectNATS(ctx, settings.NATSURL, "waybill-"+s.Name, settings.NATSCreds, settings.NATSWait, log)
	if err != nil {
		return err
	}
	cleanup.Push("nats", time.Second, func(context.Context) error { nc.Close(); return nil })
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if !s.Watches {
		check := func(ctx context.Context) error {
			return streams.Check(ctx, js, streams.Options{Partitions: settings.Partitions})
		}
		if err := WaitForJetStream(ctx, settings.NATSWait, check); err != nil {
			return err
		}
	}
	env := &Env{Settings: settings, Log: log, NATS: nc, JS: js, Mux: http.NewServeMux(),
		Health: &Health{}, Metrics: NewMetrics(), Tracer: tracer, Cleanup: cleanup}
	env.Health.Add("nats", Connected(nc))
	if len(s.Streams) > 0 {
		env.Health.Add("streams", Led(js, s.Streams...))
	}
	if err := errors.Join(ConnectionMetrics(env.Metrics, nc, s.Name),
		QueueMetrics(env.Metrics, js, settings.Partitions)); err != nil {
		return err
	}
	env.Serve = func() error {
		served = true
		Routes(env.Mux, env.Health, env.Metrics)
		Serve(listener, env.Mux, cleanup, log)
		log.Info().Str("http", listener.Addr().String()).Msg(logevent.StageStarted)
		return nil
	}
	if err := s.Run(ctx, env); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	log.Info().Msg(logevent.StageStopped)
	return nil
}
