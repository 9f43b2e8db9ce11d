package roles_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/test/testkit"
)

const owner = "owner"

// deployment is an engine with the ledger's users, asked over HTTP.
type deployment struct {
	t    *testing.T
	e    *engine.Engine
	dir  string
	pass map[string]string
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	pass := map[string]string{owner: "of the owner"}
	for _, r := range roles.All() {
		pass[r.Name] = "of " + r.Name
	}
	return deployWith(t, roles.EmbeddedXML(ledger.DefaultDatabase, pass), pass)
}

func deployWith(t *testing.T, users string, pass map[string]string) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir(), pass: pass}
	d.e = testkit.StartClickHouseWith(t, engine.Options{Dir: d.dir, User: owner, Password: d.pass[owner],
		UsersXML: users, ConfigXML: roles.EngineXML(d.dir)})
	d.makeDatabase()
	d.must(owner, "INSERT INTO records (idx, id, at, tenant) VALUES (0, 'a', '2015-01-02 00:00:00', 't'), (1, 'b', "+
		"'2015-01-03 00:00:00', 't')")
	return d
}

func (d *deployment) makeDatabase() {
	d.t.Helper()
	if err := mustOpen(d.t, d.e.DSN("", ledger.DefaultDatabase)).Close(); err != nil {
		d.t.Fatal(err)
	}
}

// ask runs a statement as a user; "default" has no password.
func (d *deployment) ask(user, statement string) (ok bool, answer string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost,
		"http://"+d.e.HTTPAddr()+"/?database=waybill&wait_end_of_query=1", strings.NewReader(statement))
	if err != nil {
		d.t.Fatal(err)
	}
	if user != "default" {
		r.Header.Set("X-ClickHouse-User", user)
		r.Header.Set("X-ClickHouse-Key", d.pass[user])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatalf("%s: %s: %v", user, statement, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode == http.StatusOK && !strings.Contains(string(b), "DB::Exception"), strings.TrimSpace(string(b))
}

func (d *deployment) must(user, statement string) string {
	d.t.Helper()
	ok, answer := d.ask(user, statement)
	if !ok {
		d.t.Errorf("%s may not: %s\n%s", user, statement, answer)
	}
	return answer
}

// refuse checks that the answer is a refusal for lack of a right: a statement
// that fails for another reason would prove nothing.
func (d *deployment) refuse(user, statement string) {
	d.t.Helper()
	ok, answer := d.ask(user, statement)
	if ok {
		d.t.Errorf("%s MAY: %s\n%s", user, statement, answer)
		return
	}
	for _, why := range []string{"ACCESS_DENIED", "SETTING_CONSTRAINT_VIOLATION", "READONLY", "INTO_OUTFILE_NOT_ALLOWED",
		"ACCESS_STORAGE_READONLY", "SUPPORT_IS_DISABLED", "QUERY_IS_PROHIBITED"} {
		if strings.Contains(answer, "("+why+")") {
			return
		}
	}
	d.t.Errorf("%s: %s fails for another reason than a right: %s", user, statement, answer)
}

func TestNobodyMayChangeWhatWasRecorded(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.must(owner, "SYSTEM FLUSH LOGS") // makes query_log
	d.must(owner, "BACKUP TABLE records TO File('b')")
	d.must(owner, "CREATE DATABASE secret")
	d.must(owner, "CREATE TABLE secret.t (x Int8) ENGINE = MergeTree ORDER BY x")
	nobody, custodian := changes()
	for _, user := range []string{"default", roles.Analyst, roles.Auditor, roles.Sink, roles.Custodian} {
		t.Run(user, func(t *testing.T) {
			d := *d
			d.t = t
			for _, s := range nobody {
				d.refuse(user, s)
			}
			if user != roles.Custodian {
				for _, s := range custodian {
					d.refuse(user, s)
				}
			}
			if user != roles.Sink {
				for _, table := range []string{"records", "tiles", "checkpoints", "checkpoint_signatures"} {
					d.refuse(user, "INSERT INTO "+table+" SELECT * FROM "+table)
				}
			}
			if user != roles.Auditor {
				for _, table := range []string{"query_log", "users", "grants", "mutations", "parts", "processes"} {
					d.refuse(user, "SELECT * FROM system."+table)
				}
			}
		})
	}
	// Allowed without a table's name, and then for those that the user has a right to.
	d.must("default", "SYSTEM STOP MERGES")
	d.must(owner, "OPTIMIZE TABLE tiles FINAL SETTINGS optimize_throw_if_noop = 1")
	if got := d.must(roles.Auditor, "SELECT count() FROM records"); got != "2" {
		t.Errorf("%s records are left", got)
	}
	if got := d.must(roles.Auditor, "SELECT count() FROM system.mutations"); got != "0" {
		t.Errorf("%s mutations", got)
	}
}

// A client's driver turns its deadline into max_execution_time.
func TestADeadlineBeyondAUsersLimitIsNoReasonToRefuse(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for user, password := range map[string]string{"": "", roles.Analyst: d.pass[roles.Analyst]} {
		db, err := ledger.New(allinone.EngineDSN(d.e.NativeAddr(), user, password))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		if _, err := db.LatestCheckpoints(ctx, 1); err != nil {
			t.Errorf("user %q: %v", user, err)
		}
		cancel()
		if _, err := db.LatestCheckpoints(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("user %q: a cancelled question answers %v", user, err)
		}
		_ = db.Close()
	}
}

func TestEachRoleCanDoItsWork(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, user := range []string{"default", roles.Analyst, roles.Auditor} {
		for _, view := range []string{"records", "events", "deliveries", "attempts", "dead_letters", "escalations", "replays",
			"endpoint_history", "completeness", "tiles", "checkpoints", "checkpoint_signatures", "schema_versions"} {
			d.must(user, "SELECT * FROM "+view)
		}
		d.must(user, "SELECT name FROM system.tables WHERE database = 'waybill'")
		d.must(user, "SELECT column_name FROM information_schema.columns WHERE table_schema = 'waybill'")
		d.must(user, "SELECT 1 SETTINGS max_threads = 1, max_execution_time = 5") // as clients do
		d.must(user, "SHOW TABLES")
		d.must(user, "DESCRIBE records")
		d.must(user, "SHOW CREATE TABLE records")
	}
	d.must(roles.Sink, "SELECT max(version) FROM schema_versions")
	d.must(roles.Sink, "INSERT INTO records (idx, id, at) VALUES (2, 'c', '2016-01-01 00:00:00')")
	d.must(roles.Sink, "INSERT INTO tiles (level, tile, hashes) VALUES (0, 0, '')")
	d.must(owner, "SYSTEM FLUSH LOGS")
	if got := d.must(roles.Auditor, "SELECT count() > 0 FROM system.query_log WHERE user = 'analyst' AND query LIKE "+
		"'%dead_letters%'"); got != "1" {
		t.Error("the auditor does not see what the analyst asked")
	}
	for _, table := range []string{"users", "grants", "mutations", "parts", "detached_parts",
		"settings_profile_elements"} {
		d.must(roles.Auditor, "SELECT * FROM system."+table)
	}
	d.must(roles.Backup, "BACKUP DATABASE waybill TO File('b')")
	d.refuse(roles.Backup, "RESTORE DATABASE waybill AS other FROM File('b')")
	d.must(roles.Custodian, "ALTER TABLE records DROP PARTITION 201501")
	if got := d.must(roles.Auditor, "SELECT groupArray(idx) FROM records"); got != "[2]" {
		t.Errorf("left: %s", got)
	}
}

func TestTheMigratorMakesTheSchemaAndTheSinkUsesIt(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.must(owner, "DROP DATABASE waybill SYNC")
	dsn := func(user string) string {
		return fmt.Sprintf("clickhouse://%s:%s@%s/waybill", user, strings.ReplaceAll(d.pass[user], " ", "%20"),
			d.e.NativeAddr())
	}
	_, err := ledger.Open(t.Context(), dsn(roles.Sink))
	if err == nil || !strings.Contains(err.Error(), "waybill ledger migrate") {
		t.Errorf("the sink's user makes the schema, or is not told who does: %v", err)
	}
	for range 2 { // the second time everything is replaced or left
		db, err := ledger.Open(t.Context(), dsn(roles.Migrator))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		d.must(owner, "TRUNCATE TABLE waybill.schema_versions SYNC")
		d.must(owner, "INSERT INTO waybill.schema_versions (version, name) VALUES (1, 'x')")
	}
	if _, err := ledger.Open(t.Context(), dsn(roles.Sink)); err == nil ||
		!strings.Contains(err.Error(), "has schema version 1") {
		t.Errorf("%v", err)
	}
	if err := mustOpen(t, dsn(roles.Migrator)).Close(); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, dsn(roles.Sink)).Close(); err != nil {
		t.Fatal(err)
	}
	d.refuse(roles.Migrator, "INSERT INTO records (idx) VALUES (0)")
	d.refuse(roles.Migrator, "DROP TABLE records")
	d.refuse(roles.Migrator, "CREATE OR REPLACE VIEW records AS SELECT 1")
	d.refuse(roles.Migrator, "ALTER TABLE records DELETE WHERE 1")
	d.refuse(roles.Migrator, "ALTER TABLE records MODIFY TTL toDateTime(at) + INTERVAL 1 DAY")
}

func mustNew(t *testing.T, dsn string) *ledger.DB {
	t.Helper()
	db, err := ledger.New(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustOpen(t *testing.T, dsn string) *ledger.DB {
	t.Helper()
	db, err := ledger.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestLimitsCannotBeLifted(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for _, user := range []string{"default", roles.Analyst} {
		for _, s := range []string{"max_execution_time = 0", "max_execution_time = 61", "max_memory_usage = 0",
			"max_memory_usage = 99000000000", "max_memory_usage_for_user = 0",
			"max_result_rows = 0", "max_result_rows = 1000001", "max_result_bytes = 0", "result_overflow_mode = 'break'",
			"timeout_overflow_mode = 'break'",
			"max_untracked_memory = 9000000000", "max_concurrent_queries_for_user = 0",
			"max_temporary_data_on_disk_size_for_user = 0"} {
			d.refuse(user, "SELECT 1 SETTINGS "+s)
			d.refuse(user, "SET "+s)
		}
		for statement, code := range map[string]string{
			"SELECT number FROM numbers(1000001)":                                         "TOO_MANY_ROWS_OR_BYTES",
			"SELECT groupArray(number) FROM numbers(1000000000)":                          "MEMORY_LIMIT_EXCEEDED",
			"SELECT count() FROM numbers(1000000000000000) SETTINGS max_execution_time=1": "TIMEOUT_EXCEEDED",
		} {
			if ok, answer := d.ask(user, statement); ok || !strings.Contains(answer, code) {
				t.Errorf("%s: %s: %.200s, want %s", user, statement, answer, code)
			}
		}
	}
	d.refuse(roles.Analyst, "SET readonly = 0")
	d.refuse(roles.Auditor, "SET readonly = 0")
}

// The library opens its ports as user "default", so that user can close them.
// They must be open again soon.
func TestPortsThatWereClosedAreOpenedAgain(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 4)
	d := &deployment{t: t, dir: t.TempDir(), pass: map[string]string{owner: "x"}}
	d.e = testkit.StartClickHouseWith(t, engine.Options{Dir: d.dir, User: owner, Password: "x",
		UsersXML: roles.EmbeddedXML("waybill", d.pass),
		OnExit:   func(err error) { gone <- err }})
	d.makeDatabase()
	d.must("default", "SYSTEM STOP LISTEN TCP")
	<-gone
	if err := d.e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.must("default", "SELECT 1")
}

// To the library any user is whoever runs clickhouse-local, and may read files. A
// kernel that can confine the engine does; on another the engine says so.
func TestAQueryReadsNoFileOfTheMachine(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	if _, answer := d.ask("default", "SELECT file('/proc/self/environ')"); strings.Contains(answer, "of this test") {
		t.Error("a query reads the secrets in the environment")
	}
	said, err := os.ReadFile(filepath.Join(d.dir, "stderr.log"))
	if err != nil {
		t.Fatal(err)
	}
	warned := strings.Contains(string(said), "can read every file that this user can")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of this machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(d.dir, "data", "user_files", "link")
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(secret, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/etc/passwd", secret, link, "/proc/self/root/etc/passwd",
		fmt.Sprintf("/proc/%d/environ", os.Getpid()), fmt.Sprintf("/proc/%d/root%s", os.Getpid(), secret)} {
		for _, user := range []string{"default", roles.Analyst} {
			if ok, answer := d.ask(user, "SELECT file('"+path+"')"); ok && !warned {
				t.Errorf("%s reads %s: %.80s", user, path, answer)
			}
		}
	}
}

func TestTheFilesForAServerAreThoseOfTheProgram(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "deploy", "clickhouse")
	for name, want := range map[string]string{"roles.sql": roles.SQL(ledger.DefaultDatabase),
		"users.xml": roles.DeployXML(ledger.DefaultDatabase)} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("deploy/clickhouse/%s is not what the program says (%v); write it anew with: make docs", name, err)
		}
		var any struct{}
		if err := xml.Unmarshal(got, &any); err != nil && strings.HasSuffix(name, ".xml") {
			t.Errorf("deploy/clickhouse/%s: %v", name, err)
		}
	}
}
