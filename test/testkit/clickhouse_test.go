package testkit_test

import (
	"context"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestTestsOfABinaryShareAnEngineAndNotADatabase(t *testing.T) {
	a, b := testkit.ClickHouse(t), testkit.ClickHouse(t)
	if a.HTTPAddr != b.HTTPAddr || a.Name == b.Name {
		t.Fatalf("got %+v and %+v", a, b)
	}
	for _, db := range []testkit.Database{a, b} {
		options, err := clickhouse.ParseDSN(db.DSN)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := clickhouse.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// The same name in both: they are apart.
		if err := conn.Exec(context.Background(), "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a"); err != nil {
			t.Error(err)
		}
		var current string
		if err := conn.QueryRow(context.Background(), "SELECT currentDatabase()").Scan(&current); err != nil ||
			current != db.Name {
			t.Errorf("connected to %q, want %q (%v)", current, db.Name, err)
		}
	}
}
