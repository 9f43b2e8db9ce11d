package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/test/testkit"
)

// open gives a migrated ledger of the test's own, and a plain connection to it.
func open(t testing.TB) (*ledger.DB, driver.Conn, testkit.Database) {
	t.Helper()
	d := testkit.ClickHouse(t)
	db, err := ledger.Open(context.Background(), d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, connect(t, d.DSN), d
}

func connect(t testing.TB, dsn string) driver.Conn {
	t.Helper()
	o, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// full is a record with every field set to a value of its own.
func full(kind record.Kind, seed int) record.Record {
	r := record.Record{}
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		n := seed*1000 + i + 1
		switch f := v.Field(i); f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 11, 2, 3, 4, 5, n, time.UTC)))
		case []string:
			f.Set(reflect.ValueOf([]string{fmt.Sprint("a<&>", n), "ü\"\\\n"}))
		case []uint64:
			f.Set(reflect.ValueOf([]uint64{1<<63 + uint64(n), 1}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"retry-after": fmt.Sprint(n), "x-ü": "\"q\""}))
		case map[string]int:
			f.Set(reflect.ValueOf(map[string]int{"email": n, "card": 1}))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString(fmt.Sprintf("%s-%d <é\u2028\"\\>", v.Type().Field(i).Name, n))
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(n))
			case reflect.Uint64:
				f.SetUint(1<<63 + uint64(n))
			default:
				panic("full: a field of a kind that it does not know: " + v.Type().Field(i).Name)
			}
		}
	}
	r.Version, r.Kind = record.Version, kind
	return r
}

func row(t testing.TB, idx uint64, r record.Record) ledger.Row {
	t.Helper()
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Row{Idx: idx, StreamSeq: idx + 1, StreamEpoch: 7, Body: body, Record: r}
}

func TestEveryFieldOfTheRecordIsAColumnThatEqualsTheBody(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	var rows []ledger.Row
	for i, kind := range record.Kinds() {
		rows = append(rows, row(t, uint64(2*i), full(kind, i)))
		rows = append(rows, row(t, uint64(2*i+1), record.Record{ID: fmt.Sprint("bare-", i), Kind: kind,
			At: time.Unix(1_790_000_000, 5).UTC(), Tenant: "t"}))
	}
	for len(rows) > 0 {
		n := ledger.SameMonth(rows)
		if err := db.Append(context.Background(), rows[:n]); err != nil {
			t.Fatal(err)
		}
		rows = rows[n:]
	}
	var checked int
	typ := reflect.TypeFor[record.Record]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		checked += checkColumn(t, conn, name, i)
	}
	if want := typ.NumField() * 2 * len(record.Kinds()); checked != want {
		t.Errorf("compared %d values, want %d", checked, want)
	}
}

// checkColumn compares column name with field i of what each body says.
func checkColumn(t *testing.T, conn driver.Conn, name string, i int) int {
	t.Helper()
	typ := reflect.TypeFor[record.Record]()
	rows, err := conn.Query(context.Background(), fmt.Sprintf("SELECT body, %s FROM records ORDER BY idx", name))
	if err != nil {
		t.Errorf("record.Record has %s, the table has no such column: %v", name, err)
		return 0
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var body string
		value := reflect.New(rows.ColumnTypes()[1].ScanType())
		if err := rows.Scan(&body, value.Interface()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var r record.Record
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		want := reflect.ValueOf(r).Field(i)
		if got := value.Elem(); !same(got, want) {
			t.Errorf("%s of %s: column %v, body %v (%s)", name, r.Kind, got, want, typ.Field(i).Type)
		}
		n++
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return n
}

// same takes NULL, an empty list and an empty map for the field's zero.
func same(got, want reflect.Value) bool {
	for got.Kind() == reflect.Pointer {
		if got.IsNil() {
			return want.IsZero()
		}
		got = got.Elem()
	}
	if w, ok := want.Interface().(time.Time); ok {
		return got.Interface().(time.Time).Equal(w)
	}
	if want.Kind() == reflect.Slice || want.Kind() == reflect.Map {
		return got.Len() == 0 && want.Len() == 0 || fmt.Sprint(got) == fmt.Sprint(want) // whole numbers differ in their types
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

func TestADateThatClickHouseCannotHoldIsStoredAsTheNearest(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	early := record.Record{ID: "1", Kind: record.EventAccepted, At: time.Unix(1_790_000_000, 0), Tenant: "t",
		EventAt: time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), DeliverBy: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	if err := db.Append(context.Background(), []ledger.Row{row(t, 0, early)}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := conn.QueryRow(context.Background(), "SELECT concat(toString(event_at), ' ', toString(deliver_by)) FROM "+
		"records").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "1900-01-01 00:00:00.000000000 2262-01-01 00:00:00.000000000"; got != want {
		t.Errorf("stored %s, want %s", got, want)
	}
}
