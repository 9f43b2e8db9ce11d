package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// held are column readers that hold one row: what rec says.
func held(t testing.TB, body []byte, rec record.Record) (map[string]columnReader, *Row) {
	t.Helper()
	row := &Row{Idx: 5, StreamSeq: 6, StreamEpoch: 7, Body: body, Record: rec}
	out := map[string]columnReader{}
	for _, c := range stored() {
		r := c.reader()
		switch r := r.(type) {
		case *numbers[uint64]:
			*r.values = append(*r.values, r.value(row))
		case *numbers[int64]:
			*r.values = append(*r.values, r.value(row))
		case *texts:
			r.plainStrings.AppendBytes(r.value(row))
		case *instants:
			v := r.value(row)
			null := uint8(0)
			if r.null && v.IsZero() {
				null = 1
			}
			r.maybe.Nulls = append(r.maybe.Nulls, null)
			r.column.Data = append(r.column.Data, proto.DateTime64(clampTime(v).UnixNano()))
		default:
			t.Fatalf("column %s is of a kind that the test does not know", c.name)
		}
		out[c.name] = r
	}
	return out, row
}

func typicalRecord() record.Record {
	at := time.Date(2026, 11, 2, 3, 4, 5, 678_912_345, time.UTC)
	return record.Record{Version: 1, ID: "att_1", Kind: record.Attempt, At: at, Tenant: "übel", EventID: "evt_1",
		EndpointID: "ep_1", EventType: "order.paid",
		EventSeq: 42, Attempt: 1, StartedAt: at, DurationUS: 71_000, Status: 200, Outcome: "response", Class: "delivered",
		URL:    "https://hooks.example.com/in",
		KeyIDs: []string{"key_1", `a"b`}, SignedAt: at.Truncate(time.Second),
		ResponseHeaders: map[string]string{"content-type": "application/json", "x": "\\"},
		ResponseExcerpt: "{\"ok\":true}\u2028\n", Reused: true, EndpointRevision: 3}
}

func TestWhatIsAsItWasWrittenIsMatchedWithoutDecoding(t *testing.T) {
	rec := typicalRecord()
	body, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	columns, _ := held(t, body, rec)
	if !newMatcher(columns).row(0, body) {
		t.Errorf("%s was not matched", body)
	}
}

// agreeOn checks that whatever the matcher takes, the decoded record says too.
func agreeOn(t *testing.T, body []byte, stored record.Record) {
	t.Helper()
	columns, row := held(t, body, stored)
	if !newMatcher(columns).row(0, body) {
		return
	}
	decoded, err := record.Decode(body)
	if err != nil {
		t.Fatalf("%q was matched, and is no record: %v", body, err)
	}
	row.Record = decoded
	for name, c := range columns {
		if stored, said, differs := c.differs(0, row); differs && name != "body" {
			t.Fatalf("%q was matched; column %s has %q, the record says %q", body, name, stored, said)
		}
	}
}

func FuzzAMatchIsNeverWrong(f *testing.F) {
	rec := typicalRecord()
	body, err := rec.Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "{}", string(body), strings.Replace(string(body), `"status":200`, `"status":0200`, 1),
		strings.Replace(string(body), "2026-11-02", "2026-02-30", 1), strings.Replace(string(body), `"v":1`, `"v":2`, 1),
		strings.Replace(string(body), `"tenant":"übel"`, "\"tenant\":\"\xff\"", 1),
		strings.Replace(string(body), `"key_1"`, `null`, 1),
		strings.Replace(string(body), `"status":200,`, `"status":200,"status":300,`, 1),
		strings.Replace(string(body), "\n", "\x01", 1)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		agreeOn(t, b, rec)
		var said record.Record
		if json.Unmarshal(b, &said) == nil {
			agreeOn(t, b, said)
		}
	})
}

func FuzzInstants(f *testing.F) {
	for _, s := range []string{"2026-11-02T03:04:05Z", "2028-02-29T23:59:59.123456789Z", "2100-02-29T00:00:00Z",
		"1970-01-01T00:00:00.1Z", "2261-12-31T23:59:59Z", "2026-11-02T24:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := plainInstant([]byte(`"` + s + `"`))
		if !ok {
			return
		}
		var want time.Time
		if err := want.UnmarshalText([]byte(s)); err != nil || want.UnixNano() != n {
			t.Fatalf("%q: got %d, want %v, %v", s, n, want, err)
		}
	})
}

func TestEveryDayIsRead(t *testing.T) {
	for at := time.Date(1970, 1, 1, 12, 34, 56, 7, time.UTC); at.Year() < 2262; at = at.AddDate(0, 0, 1) {
		if n, ok := plainInstant([]byte(at.Format(`"` + time.RFC3339Nano + `"`))); !ok || n != at.UnixNano() {
			t.Fatalf("%v: %d, %v", at, n, ok)
		}
	}
}

func TestEveryStoredColumnIsAFieldOfTheRecord(t *testing.T) {
	own := map[string]bool{"idx": true, "stream_seq": true, "stream_epoch": true, "body": true}
	fields := map[string]bool{}
	typ := reflect.TypeFor[record.Record]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		fields[name] = true
	}
	for _, c := range stored() {
		if !own[c.name] && !fields[c.name] {
			t.Errorf("column %s has no field of that name, so the matcher would not compare it", c.name)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	rec := typicalRecord()
	body, err := rec.Encode()
	if err != nil {
		b.Fatal(err)
	}
	columns, _ := held(b, body, rec)
	m := newMatcher(columns)
	b.ReportAllocs()
	for b.Loop() {
		if !m.row(0, body) {
			b.Fatal("no match")
		}
	}
}
