//lint:long everything is tested on the same engine

package engine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

// parentEnv makes this test binary the parent of an engine in the directory it
// names, so that a test can kill the parent.
const parentEnv = "WAYBILL_TEST_ENGINE_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		parent(dir)
		return
	}
	os.Exit(m.Run())
}

// parent starts an engine, prints its pid and native address, and waits to be killed.
func parent(dir string) {
	e, err := engine.Start(context.Background(), engine.Options{Dir: dir})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(e.Pid(), e.NativeAddr())
	<-e.Done()
}

func start(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.StopLimit == 0 {
		o.StopLimit = time.Minute // a loaded machine is no failure
	}
	e, err := engine.Start(within(t, 2*time.Minute), o)
	if err != nil {
		t.Fatalf("start the engine: %v", err)
	}
	t.Cleanup(func() {
		select {
		case <-e.Done(): // the test stopped it and saw how
			return
		default:
		}
		if err := e.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return e
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, dsn string) driver.Conn {
	t.Helper()
	options, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func mustExec(t *testing.T, conn driver.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := conn.Exec(within(t, time.Minute), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func count(t *testing.T, conn driver.Conn, query string) (n uint64) {
	t.Helper()
	if err := conn.QueryRow(within(t, time.Minute), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func httpQuery(t *testing.T, e *engine.Engine, user, password, query string) string {
	t.Helper()
	u := url.URL{Scheme: "http", Host: e.HTTPAddr(), Path: "/", RawQuery: url.Values{"query": {query}}.Encode()}
	request, err := http.NewRequestWithContext(within(t, time.Minute), http.MethodPost, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(user, password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

func TestAnEngineServesBothProtocolsLikeAServer(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{})
	conn := open(t, e.DSN("", "default"))
	if err := conn.Ping(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := httpQuery(t, e, "default", "", "SELECT 40 + 2"); got != "42" {
		t.Errorf("HTTP query answered %q", got)
	}
	for query, want := range map[string]string{
		"SELECT toString(getSetting('implicit_select'))":               "false",
		"SELECT toString(getSetting('allow_introspection_functions'))": "false",
		"SELECT getSetting('storage_file_read_method')":                "pread",
		"SELECT timezone()": "UTC",
		"SELECT value FROM system.server_settings WHERE name = 'background_pool_size'":                                  "2",
		"SELECT value FROM system.server_settings WHERE name = 'mark_cache_size'":                                       "134217728",
		"SELECT toString(toUInt64OrZero(value) > 0) FROM system.server_settings WHERE name = 'max_server_memory_usage'": "1",
	} {
		var got string
		if err := conn.QueryRow(within(t, time.Minute), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, want %q (%v)", query, got, want, err)
		}
	}
	mustExec(t, conn, "CREATE DATABASE ledger", "CREATE TABLE ledger.t (a UInt64) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO ledger.t SELECT number FROM numbers(10)", "SYSTEM FLUSH LOGS")
	if n := count(t, conn, "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND query LIKE 'INSERT "+
		"INTO ledger.t%'"); n != 1 {
		t.Errorf("query_log holds %d finished inserts, want 1", n)
	}
	if n := count(t, conn, "SELECT count() FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log' AND "+
		"name != 'query_log'"); n != 0 {
		t.Errorf("%d noisy system logs are on", n)
	}
	for _, name := range []string{"config.xml", "users.xml", "stderr.log"} {
		if info, err := os.Stat(filepath.Join(optionsDir(t, e, conn), name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, want 0600 (%v)", name, info.Mode(), err)
		}
	}
}

// optionsDir is the engine's directory, as the engine itself reports it.
func optionsDir(t *testing.T, e *engine.Engine, conn driver.Conn) string {
	t.Helper()
	var path string
	if err := conn.QueryRow(within(t, time.Minute),
		"SELECT path FROM system.disks WHERE name = 'default'").Scan(&path); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Clean(path))
}

func TestWithAPasswordNobodyElseGetsIn(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{User: "owner", Password: "s3cret<&>'", MemoryLimit: 1 << 30, UsersXML: `<clickhouse>
		<profiles><reader><readonly>2</readonly></reader></profiles>
		<users><analyst><password>look</password><networks><ip>127.0.0.1</ip></networks><profile>reader</profile><quota>default</quota>
		<grants><query>GRANT SELECT ON ledger.*</query></grants></analyst></users></clickhouse>`})
	conn := open(t, e.DSN("", "default"))
	mustExec(t, conn, "CREATE DATABASE ledger", "CREATE TABLE ledger.t (a UInt64) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO ledger.t VALUES (7)")
	for _, c := range []struct{ user, password, query, want string }{
		{"owner", "s3cret<&>'", "SELECT a FROM ledger.t", "7"},
		{"owner", "s3cret<&>'", "SELECT value FROM system.server_settings WHERE name = 'max_server_memory_usage'",
			"1073741824"},
		{"owner", "wrong", "SELECT 1", "AUTHENTICATION_FAILED"},
		{"owner", "", "SELECT 1", "AUTHENTICATION_FAILED"},
		{"default", "", "SELECT a FROM ledger.t", "ACCESS_DENIED"},
		{"default", "", "SELECT * FROM file('/etc/hostname', 'LineAsString')", "ACCESS_DENIED"},
		{"default", "", "DROP TABLE ledger.t", "ACCESS_DENIED"},
		{"analyst", "look", "SELECT a FROM ledger.t", "7"},
		{"analyst", "look", "INSERT INTO ledger.t VALUES (8)", "ACCESS_DENIED"},
	} {
		got := httpQuery(t, e, c.user, c.password, c.query)
		if got != c.want && !strings.Contains(got, "("+c.want+")") {
			t.Errorf("as %s: %s = %.200s, want %s", c.user, c.query, got, c.want)
		}
	}
}

func TestADeadEngineIsReplacedOnTheSamePortsWithItsData(t *testing.T) {
	t.Parallel()
	exits := make(chan error, 8)
	e := start(t, engine.Options{OnExit: func(err error) { exits <- err }})
	conn := open(t, e.DSN("", "default"))
	mustExec(t, conn, "CREATE DATABASE ledger", `CREATE TABLE ledger.t (a UInt64) ENGINE = MergeTree ORDER BY a
		SETTINGS fsync_after_insert = 1, fsync_part_directory = 1`)
	native, httpAddr := e.NativeAddr(), e.HTTPAddr()
	for round := uint64(1); round <= 3; round++ {
		mustExec(t, open(t, e.DSN("", "default")), fmt.Sprintf("INSERT INTO ledger.t VALUES (%d)", round))
		before := e.Pid()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-exits
		if err := e.Ready(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		if e.NativeAddr() != native || e.HTTPAddr() != httpAddr {
			t.Fatalf("addresses moved to %s and %s", e.NativeAddr(), e.HTTPAddr())
		}
		if e.Pid() == before || e.Restarts() != int(round) {
			t.Fatalf("pid %d after %d, %d restarts counted in round %d", e.Pid(), before, e.Restarts(), round)
		}
		conn := open(t, e.DSN("", "default"))
		if n := count(t, conn, "SELECT count() FROM ledger.t"); n != round {
			t.Fatalf("%d rows after round %d", n, round)
		}
		mustExec(t, conn, "SYSTEM FLUSH LOGS")
		if n := count(t, conn, "SELECT uniqExact(toString(initial_query_start_time_microseconds)) FROM system.query_log "+
			"WHERE query = 'SELECT count() FROM ledger.t' AND type = 'QueryFinish'"); n != round {
			t.Fatalf("query_log remembers %d of %d rounds", n, round)
		}
	}
}

func TestAnEngineEndsWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var native string
	if _, err := fmt.Fscan(stdout, &pid, &native); err != nil {
		t.Fatalf("the parent did not start an engine: %v", err)
	}
	conn := open(t, "clickhouse://default@"+native+"/default") // an open client must not keep it
	mustExec(t, conn, "CREATE DATABASE ledger")
	// Where the kernel has process descriptors, this is one: no other process can take its place.
	watch, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The new engine waits for the old one to leave the directory.
	again := start(t, engine.Options{Dir: dir, NativeAddr: native})
	if err := watch.Signal(syscall.Signal(0)); err == nil && !zombie(pid) {
		t.Errorf("process %d of the killed parent still runs beside its successor", pid)
	}
	if n := count(t, open(t, again.DSN("", "default")),
		"SELECT count() FROM system.databases WHERE name = 'ledger'"); n != 1 {
		t.Error("the database is gone")
	}
}

// zombie tells a process that ended but was not yet reaped by its new parent.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

func TestASecondEngineInADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, engine.Options{Dir: dir})
	_, err := engine.Start(within(t, time.Minute), engine.Options{Dir: dir, LockWait: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) ||
		!strings.Contains(err.Error(), "--data") {
		t.Errorf("got %v, want an error that names the directory, its holder and --data", err)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flag, o := range map[string]engine.Options{
		"--clickhouse-native": {NativeAddr: taken.Addr().String()},
		"--clickhouse-http":   {HTTPAddr: taken.Addr().String()},
	} {
		o.Dir = t.TempDir()
		_, err := engine.Start(within(t, time.Minute), o)
		if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), flag) ||
			!strings.Contains(err.Error(), "already in use") {
			t.Errorf("got %v, want an error that names %s and %s", err, taken.Addr(), flag)
		}
	}
}

func TestAnEngineThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "clickhouse")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho the disk is on fire >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	exits := 0
	_, err := engine.Start(within(t, time.Minute), engine.Options{Dir: dir, Location: engine.Location{Binary: script},
		OnExit: func(error) { exits++ }})
	if err == nil || !strings.Contains(err.Error(), "the disk is on fire") ||
		!strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "started 4 times") {
		t.Errorf("got %v, want the engine's last words, its status and how often it was tried", err)
	}
	if exits != 4 {
		t.Errorf("it was started %d times", exits)
	}
	// Nothing may be left behind that keeps the directory.
	start(t, engine.Options{Dir: dir, LockWait: time.Second})
}

func TestAClickHouseServerIsRunTheSameWay(t *testing.T) {
	t.Parallel()
	at, err := engine.Find(engine.SearchFromEnv(os.Getenv))
	if err != nil {
		t.Fatal(err)
	}
	// Stands for clickhouse: takes "server --config-file=…", knows no lifetime pipe.
	binary := filepath.Join(t.TempDir(), "clickhouse")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = server ] || exit 9\nexec %s --libchdb=%s \"$2\"\n", at.Binary, at.Library)
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e := start(t, engine.Options{Location: engine.Location{Binary: binary}})
	if got := httpQuery(t, e, "default", "", "SELECT 1"); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options engine.Options
		want    string
	}{
		"no directory":               {engine.Options{}, "Dir"},
		"password for default":       {engine.Options{Dir: t.TempDir(), User: "default", Password: "x"}, `"default"`},
		"user without password":      {engine.Options{Dir: t.TempDir(), User: "owner"}, "Password"},
		"user that is no plain name": {engine.Options{Dir: t.TempDir(), User: "a<b", Password: "x"}, "a<b"},
		"two hosts": {engine.Options{Dir: t.TempDir(), NativeAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.2:0"},
			"different hosts"},
		"no such address": {engine.Options{Dir: t.TempDir(), NativeAddr: "127.0.0.1"}, "--clickhouse-native"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Logger = zerolog.Nop()
			if _, err := engine.Start(within(t, time.Minute), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that names %s", err, c.want)
			}
		})
	}
}
