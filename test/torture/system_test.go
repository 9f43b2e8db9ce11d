package torture_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/operator/history"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

const (
	// patience bounds every wait; none lasts that long unless something is wrong.
	patience = 150 * time.Second
	// partitions: more than one, so that nothing works by accident.
	partitions = 2
	ourselves  = "127.0.0.0/8"
)

// system is a running Waybill of either topology, and a client of it.
type system struct {
	t        *testing.T
	dir      string
	natsURL  string // the server itself
	dsn      string // ClickHouse
	http     string // takes events
	programs []*program
	health   []string // base URLs whose /readyz counts
	hurts    []hurt   // what chaos may do to it
	// producers reach NATS through this proxy.
	producers *proxy
	nats      *testkit.Server // separate processes only
	engine    *separateEngine // separate processes only

	nc      *nats.Conn
	js      jetstream.JetStream
	ledger  *ledger.DB
	control *control.Control
	keyFile string // of endpoints' secrets
	// checkpointKey signs checkpoints. where tells commands where the system is.
	checkpointKey string
	where         []string
}

// allInOne runs waybill up.
func allInOne(t *testing.T, sync string) *system {
	t.Helper()
	dir := workspace(t)
	s := &system{t: t, dir: dir, keyFile: filepath.Join(dir, "secrets.key")}
	s.makeKeys()
	address := func() string { return loopback.Address(t) }
	natsAddr, native := address(), address()
	s.http, s.natsURL, s.dsn = address(), "nats://"+natsAddr, "clickhouse://default@"+native+"/"+ledger.DefaultDatabase
	up := startProgram(t, dir, "up", "waybill", "up", "--data", filepath.Join(dir, "data"), "--http", s.http, "--nats",
		natsAddr,
		"--clickhouse-native", native, "--clickhouse-http", address(), "--sync", sync, "--egress-allow", ourselves,
		"--secrets-key-file", s.keyFile,
		"--partitions", fmt.Sprint(partitions), "--log-format", "json")
	s.programs, s.health = []*program{up}, []string{s.http}
	s.where = []string{"--data", filepath.Join(dir, "data")}
	s.checkpointKey = filepath.Join(dir, "data", "keys", "checkpoint.key")
	s.producers = startProxy(t, natsAddr)
	s.hurts = append(programHurts(up, 0), engineHurts("up's engine", func() int {
		if pids := up.children(); len(pids) > 0 {
			return pids[0]
		}
		return 0
	})...)
	s.hurts = append(s.hurts, proxyHurt("the producers' connections", s.producers))
	s.connect()
	return s
}

func (s *system) makeKeys() {
	s.t.Helper()
	if _, err := sealed.CreateFile(s.keyFile); err != nil {
		s.t.Fatal(err)
	}
}

// separate runs every stage in processes of its own, most of them twice.
func separate(t *testing.T) *system {
	t.Helper()
	dir := workspace(t)
	s := &system{t: t, dir: dir, nats: testkit.BareNATS(t), engine: startEngine(t, filepath.Join(dir, "clickhouse")),
		keyFile: filepath.Join(dir, "secrets.key")}
	s.makeKeys()
	s.nats.Apply(streams.Options{Partitions: partitions})
	s.natsURL, s.dsn = s.nats.URL, s.engine.get().DSN("", ledger.DefaultDatabase)
	s.where = []string{"--clickhouse", s.dsn, "--nats-url", s.natsURL}
	s.checkpointKey = filepath.Join(dir, "checkpoint.key")
	_, err := checkpoint.CreateFile(s.checkpointKey, "torture.example/ledger")
	must(t, err)
	natsAddr := s.natsURL[len("nats://"):]
	s.producers = startProxy(t, natsAddr)
	s.hurts = append(s.hurts, proxyHurt("the producers' connections", s.producers))
	for _, stage := range []struct {
		binary string
		copies int
		args   []string
	}{
		{"ledger-sink", 2, []string{"--clickhouse", s.dsn, "--checkpoint-key", s.checkpointKey}},
		{"dispatcher", 2, nil},
		{"fanout", 2, nil},
		{"ingest", 1, nil},
	} {
		for i := range stage.copies {
			name := fmt.Sprintf("%s-%d", stage.binary, i+1)
			way, address := startProxy(t, natsAddr), loopback.Address(t)
			if stage.binary == "dispatcher" {
				stage.args = []string{"--egress-allow", ourselves, "--name", name, "--secrets-key-file", s.keyFile}
			}
			p := startProgram(t, dir, name, stage.binary,
				append([]string{"--nats-url", "nats://" + way.addr(), "--http", address,
					"--partitions", fmt.Sprint(partitions), "--drain-timeout", "5s"}, stage.args...)...)
			s.programs, s.health = append(s.programs, p), append(s.health, address)
			s.hurts = append(s.hurts, programHurts(p, streamsAckWait)...)
			s.hurts = append(s.hurts, proxyHurt(name+"'s connections", way))
			if stage.binary == "ingest" {
				s.http = address
			}
		}
	}
	s.hurts = append(s.hurts, natsHurts(s.nats)...)
	s.hurts = append(s.hurts, engineHurts("engine", func() int { return s.engine.get().Pid() })...)
	s.connect()
	return s
}

// streamsAckWait is the consumers' ack_wait: a stage that is frozen longer
// loses its messages to another.
const streamsAckWait = 10 * time.Second

// connect waits until everything works and opens the test's own clients.
func (s *system) connect() {
	s.t.Helper()
	s.ready()
	var err error
	s.nc, err = nats.Connect(s.natsURL, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(s.t, err)
	s.t.Cleanup(s.nc.Close)
	s.js, err = jetstream.New(s.nc)
	must(s.t, err)
	if s.engine == nil {
		// What a bounded question may take is more than an analyst may.
		out, err := command(s.t, append([]string{"ledger", "dsn", "--role", "auditor"}, s.where...)...)
		must(s.t, err)
		s.dsn = strings.TrimSpace(out)
	}
	s.ledger, err = ledger.New(s.dsn)
	must(s.t, err)
	s.t.Cleanup(func() { _ = s.ledger.Close() })
	policy, err := egress.ParseAllow([]string{ourselves})
	must(s.t, err)
	keys, err := sealed.Open(s.keyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	s.control, err = control.New(s.t.Context(),
		control.Options{NC: s.nc, Ledger: history.New(s.ledger), Egress: policy, Keys: keys})
	must(s.t, err)
}

// ready waits until every program says that it can work.
func (s *system) ready() {
	s.t.Helper()
	for _, address := range s.health {
		url := "http://" + address + "/readyz"
		eventually(s.t, patience, "ready: "+url, func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", res.StatusCode)
			}
			return nil
		})
	}
}

// eventually asks a process of ours, which cannot signal to the test, until it
// answers well.
func eventually(t *testing.T, bound time.Duration, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		once, cancelOnce := context.WithTimeout(ctx, 10*time.Second)
		err := ask(once)
		cancelOnce()
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not after %s: %v", what, bound, last)
		}
	}
}

// separateEngine is ClickHouse that can go away for a while.
type separateEngine struct {
	t       *testing.T
	options engine.Options
	mu      sync.Mutex // guards now
	now     *engine.Engine
}

func startEngine(t *testing.T, dir string) *separateEngine {
	t.Helper()
	e := &separateEngine{t: t, options: engine.Options{Dir: dir, NativeAddr: loopback.Address(t),
		HTTPAddr: loopback.Address(t)}}
	e.start()
	t.Cleanup(func() { _ = e.get().Stop(context.Background()) })
	return e
}

func (e *separateEngine) start() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now, err := engine.Start(ctx, e.options)
	if err != nil {
		e.t.Fatalf("this test needs a ClickHouse engine (make engine installs one): %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = now
}

func (e *separateEngine) get() *engine.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *separateEngine) stop() {
	if err := e.get().Stop(context.Background()); err != nil {
		e.t.Logf("stopping the engine: %v", err) // killed, which is what tests of crashes do anyway
	}
}

// program finds one by its name.
func (s *system) program(name string) *program {
	s.t.Helper()
	for _, p := range s.programs {
		if p.name == name {
			return p
		}
	}
	s.t.Fatalf("no program %q", name)
	return nil
}

// faults lists what went wrong with the programs themselves, and what they
// said each time that they ended unasked.
func (s *system) faults() (crashes, exits []string) {
	for _, p := range s.programs {
		if text, ok := p.crashed(); ok {
			crashes = append(crashes, p.name+": "+text)
		}
		p.mu.Lock()
		for _, words := range p.unasked {
			exits = append(exits, p.name+": "+words)
		}
		p.mu.Unlock()
	}
	return crashes, slices.Compact(exits)
}

func signalPID(pid int, sig syscall.Signal) {
	if pid > 1 {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Signal(sig)
		}
	}
}
