package allinone

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/app/process"
)

const (
	// natsStartBound covers the recovery of a large store after a crash.
	natsStartBound = 2 * time.Minute
	// natsStopBound covers the last sync of every stream.
	natsStopBound = 20 * time.Second
	// jetStreamCheck is how often we look whether JetStream still works. After a
	// write that failed, a stream takes nothing more until the server is started
	// again, whatever room there is by then; or JetStream takes itself out of
	// service as a whole.
	jetStreamCheck = time.Second
	// unhealthyLooks in a row are no passing state.
	unhealthyLooks = 3
	// maxStore lifts JetStream's own guess at the disk (three quarters of what
	// is free at start): the reservation of LEDGER and CLAIMS would not fit a
	// small disk, and a full one refuses the publish by itself.
	maxStore = 1 << 50
)

// Sync says when JetStream makes what it stored safe from a power cut.
type Sync struct {
	Always   bool
	Interval time.Duration // when not Always
}

// ParseSync reads "always" or a duration.
func ParseSync(s string) (Sync, error) {
	if s == "always" {
		return Sync{Always: true}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return Sync{}, process.Usagef(`--sync %q: want "always" (a power cut loses nothing) or a duration such as 1s (it loses at most that)`, s)
	}
	return Sync{Interval: d}, nil
}

// String writes what ParseSync reads.
func (s Sync) String() string {
	if s.Always {
		return "always"
	}
	return s.Interval.String()
}

// natsServer is the NATS server inside this process.
type natsServer struct {
	server *server.Server
	// fatal gets the server's last words when it cannot go on.
	fatal chan string
}

// startNATS returns once the server answers.
func startNATS(addr, dir string, sync Sync, log zerolog.Logger) (*natsServer, error) {
	host, port, err := splitAddress("nats", addr)
	if err != nil {
		return nil, err
	}
	// The server would only log a taken port.
	l, err := process.Listen("nats", addr)
	if err != nil {
		return nil, err
	}
	_ = l.Close()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dataDirError(dir, err)
	}
	o := &server.Options{
		ServerName: "waybill", Host: host, Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxStore: maxStore,
		MaxConn: process.MostConnections(), SyncAlways: sync.Always, SyncInterval: sync.Interval,
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS server: %w", err)
	}
	n := &natsServer{server: s, fatal: make(chan string, 1)}
	s.SetLoggerV2(natsLog{log.With().Str("part", "nats-server").Logger(), n.fatal}, false, false, false)
	go s.Start()
	if err := n.ready(natsStartBound); err != nil {
		s.Shutdown()
		return nil, err
	}
	warnExposed(log, "NATS server", "publish, read and change streams", s.Addr())
	return n, nil
}

func (n *natsServer) ready(bound time.Duration) error {
	ready := make(chan bool, 1)
	go func() { ready <- n.server.ReadyForConnections(bound) }()
	select {
	case why := <-n.fatal:
		return fmt.Errorf("embedded NATS server: %s", why)
	case ok := <-ready:
		if !ok {
			return fmt.Errorf("embedded NATS server: not ready after %s; run again with --log-level debug to see why", bound)
		}
	}
	if !n.server.JetStreamEnabled() {
		return errors.New("embedded NATS server: JetStream did not start; is the data directory writable and the disk not " +
			"full?")
	}
	return nil
}

// address is where a client on this machine reaches the server.
func (n *natsServer) address() string { return reachable(n.server.Addr()) }

// connect makes a connection that never leaves the process.
func (n *natsServer) connect(ctx context.Context, name string, log zerolog.Logger) (*nats.Conn, error) {
	return process.ConnectNATS(ctx, n.server.ClientURL(), name, "", natsStartBound, log, nats.InProcessServer(n.server))
}

// watch returns when the server is of no more use, with the reason, or when ctx ends.
func (n *natsServer) watch(ctx context.Context) error {
	t := time.NewTicker(jetStreamCheck)
	defer t.Stop()
	bad := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case why := <-n.fatal:
			return fmt.Errorf("embedded NATS server: %s", why)
		case <-t.C:
			if !n.server.JetStreamEnabled() {
				return errors.New("embedded NATS server: JetStream took itself out of service; is the disk full or not " +
					"writable? See the log above, mend it, and start again: nothing acknowledged is lost")
			}
			health := n.server.Healthz(&server.HealthzOptions{})
			if bad++; health.Error == "" {
				bad = 0
			}
			if bad >= unhealthyLooks {
				return fmt.Errorf("embedded NATS server: %s; is the disk full or not writable? Mend it and start again: nothing "+
					"acknowledged is lost", health.Error)
			}
		}
	}
}

func (n *natsServer) stop(ctx context.Context) error {
	done := make(chan struct{})
	go func() { defer close(done); n.server.Shutdown(); n.server.WaitForShutdown() }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("the embedded NATS server did not stop in time")
	}
}

// natsLog writes the server's log to ours: what is routine for an operator of
// NATS is detail here.
type natsLog struct {
	log   zerolog.Logger
	fatal chan<- string
}

func (l natsLog) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l natsLog) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l natsLog) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l natsLog) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l natsLog) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }
func (l natsLog) Fatalf(format string, v ...any) {
	l.log.Error().Msgf(format, v...)
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default: // the first reason is the reason
	}
}

// warnExposed says what a listener beyond loopback gives away: none of ours
// asks for a password.
func warnExposed(log zerolog.Logger, what, may string, addr net.Addr) {
	if a, ok := addr.(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		log.Warn().Str("addr", a.String()).Msg("the " + what + " asks for no password: whoever reaches this address may " +
			may + "; keep others away with a firewall or a proxy, or listen on loopback")
	}
}

// splitAddress checks a listen address. flag names its setting.
func splitAddress(flag, addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, process.Usagef("--%s %q: want host:port, such as 127.0.0.1:0 for any free port", flag, addr)
	}
	return host, port, nil
}

// reachable is where a client on this machine reaches a listener.
func reachable(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	if t.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(t.Port))
	}
	return t.String()
}
