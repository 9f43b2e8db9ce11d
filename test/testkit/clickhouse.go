// Package testkit gives tests the real things to run against. Only tests import it.
package testkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

// startLimit covers a start on a machine that runs much else beside.
const startLimit = 2 * time.Minute

// Main is TestMain's body for a package whose tests call ClickHouse:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// It runs the tests, stops what they shared, and exits.
func Main(m *testing.M) {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.engine != nil {
		// Its data goes with it, so it need not shut down in order, which
		// takes 5 s when a test left a connection open.
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = shared.engine.Stop(now)
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, "testkit:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// shared is the one engine of a test binary. Starting one costs up to two
// seconds and 220 MB, so tests share it and keep apart by database. It is the
// only state a package of this project keeps, and only test binaries have it.
var shared struct {
	sync.Mutex
	engine *engine.Engine
	dir    string
	next   atomic.Uint64
}

// Database is an empty database of the shared engine.
type Database struct {
	DSN      string // owner, native protocol, this database
	Name     string
	HTTPAddr string // "host:port"
}

// sharedUsers spares the shared engine the wait for its disk at each of the
// hundred files that a schema is: nothing reads its data after it has ended.
const sharedUsers = `<clickhouse><profiles><default><fsync_metadata>0</fsync_metadata></default></profiles></clickhouse>`

// ClickHouse makes a database of its own for t in an engine that all tests of
// the binary share, and drops it at t's end. A missing engine fails the test
// and names the command that fetches one. The package needs Main.
func ClickHouse(t testing.TB) Database {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil {
		dir, err := os.MkdirTemp("", "waybill-clickhouse-")
		if err != nil {
			t.Fatalf("testkit: %v", err)
		}
		shared.dir = dir
		shared.engine = start(t, engine.Options{Dir: dir, UsersXML: sharedUsers})
	}
	name := fmt.Sprintf("test_%d", shared.next.Add(1))
	run(t, shared.engine, "CREATE DATABASE "+name)
	t.Cleanup(func() { run(t, shared.engine, "DROP DATABASE "+name+" SYNC") })
	return Database{DSN: shared.engine.DSN("", name), Name: name, HTTPAddr: shared.engine.HTTPAddr()}
}

// StartClickHouse starts an engine of t's own in dir, for tests that kill or
// restart it, and stops it at t's end. Its data stays in dir.
func StartClickHouse(t testing.TB, dir string) *engine.Engine {
	t.Helper()
	return StartClickHouseWith(t, engine.Options{Dir: dir})
}

// StartClickHouseWith is StartClickHouse with every option.
func StartClickHouseWith(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	e := start(t, o)
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Logf("testkit: %v", err) // killed: what tests of crashes do anyway
		}
	})
	return e
}

func start(t testing.TB, o engine.Options) *engine.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	e, err := engine.Start(ctx, o)
	if err != nil {
		t.Fatalf("this test needs a ClickHouse engine (make engine installs one): %v", err)
	}
	return e
}

// run executes one statement as the owner, on a connection of its own: a test
// may have left any other in any state.
func run(t testing.TB, e *engine.Engine, statement string) {
	t.Helper()
	options, err := clickhouse.ParseDSN(e.DSN("", "system"))
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("testkit: %s: %v", statement, err)
	}
}

// Exec runs one statement on an engine, as its owner: what somebody with full
// rights does beside the product.
func Exec(t testing.TB, e *engine.Engine, statement string) {
	t.Helper()
	run(t, e, statement)
}
