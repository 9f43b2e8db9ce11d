package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/test/testkit"
)

// within points a DSN at another database of the same server.
func within(d testkit.Database, database string) string {
	return strings.Replace(d.DSN, "/"+d.Name, "/"+database, 1)
}

// A migrator that died left word that it is at work: the next one waits for a
// while, and goes on.
func TestWhatAMigratorLeftThatDiedIsRemoved(t *testing.T) {
	t.Parallel()
	d := testkit.ClickHouse(t)
	conn := connect(t, d.DSN)
	if err := conn.Exec(context.Background(), "CREATE TABLE _tmp_replace_migrating (at DateTime) ENGINE = MergeTree "+
		"ORDER BY at"); err != nil {
		t.Fatal(err)
	}
	db, err := ledger.Open(context.Background(), d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.CheckSchema(context.Background()); err != nil {
		t.Error(err)
	}
	compare(t, lines(t, conn, "SELECT name FROM system.tables WHERE database = currentDatabase() AND name LIKE "+
		"'%migrating%'"), nil)
}

func TestTheDatabaseIsMadeAndManyMigratorsAtOnceMakeOneSchema(t *testing.T) {
	t.Parallel()
	d := testkit.ClickHouse(t)
	name := d.Name + "_new"
	dsn := within(d, name)
	conn := connect(t, d.DSN)
	t.Cleanup(func() {
		if err := conn.Exec(context.Background(), "DROP DATABASE IF EXISTS "+name+" SYNC"); err != nil {
			t.Error(err)
		}
	})
	db, err := ledger.New(dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.CheckSchema(context.Background()); !errors.Is(err, ledger.ErrNoSchema) ||
		!strings.Contains(err.Error(), "waybill ledger migrate") {
		t.Errorf("before: %v", err)
	}
	for range 2 { // the second round finds everything done
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				db, err := ledger.Open(context.Background(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if err := db.CheckSchema(context.Background()); err != nil {
		t.Error(err)
	}
	compare(t, lines(t, conn, "SELECT (version, name) FROM "+name+".schema_versions ORDER BY version"), applied(t))
}

// applied are the rows of schema_versions once every file was applied.
func applied(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations: %v", len(files), err)
	}
	rows := make([]string, len(files)) // sorted, as Glob gives them
	for i, f := range files {
		rows[i] = fmt.Sprintf("(%d,'%s')", i+1, strings.TrimSuffix(filepath.Base(f), ".sql"))
	}
	return rows
}

func TestANewerDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	if err := conn.Exec(context.Background(), "INSERT INTO schema_versions (version, name) VALUES (1009, 'from the "+
		"future')"); err != nil {
		t.Fatal(err)
	}
	err := db.Migrate(context.Background())
	if !errors.Is(err, ledger.ErrNewerSchema) || !strings.Contains(err.Error(), "version 1009") ||
		!strings.Contains(err.Error(), "run the newer version") {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorSaysWhatIsWrongAndWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	d := testkit.ClickHouse(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, dsn, want string
		again           bool
	}{
		{"nobody listens", "clickhouse://" + nobody + "/waybill", "cannot reach ClickHouse at " + nobody, true},
		{"an unknown user", strings.Replace(d.DSN, "://", "://nobody:secret@", 1), "user", false},
		{"not a DSN", "localhost:9000", "want clickhouse://host:9000/database", false},
		{"another protocol", "http://localhost:8123/waybill", "want the native protocol", false},
		{"a database that is no name", "clickhouse://localhost/a-b", `database "a-b"`, false},
	}
	if i := strings.Index(d.DSN, "@"); i > 0 {
		cases[1].dsn = "clickhouse://nobody:secret" + d.DSN[i:]
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			_, err := ledger.Open(ctx, c.dsn)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ledger.ErrUnavailable) != c.again {
				t.Errorf("got %v (try again: %v); want %q, %v", err, errors.Is(err, ledger.ErrUnavailable), c.want, c.again)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
	db, err := ledger.New("clickhouse://localhost:9000")
	if err != nil || db.Database() != "waybill" {
		t.Errorf("the default database: %v, %v", db.Database(), err)
	}
}
