package history_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/operator/history"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// perEvent is how many records the benchmark's events have: accepted, owed,
// attempt, attempt.
const perEvent = 4

// fill makes a ledger of n records, a multiple of perEvent, with its tiles and a
// checkpoint over them all, and returns the key.
func fill(tb testing.TB, db *ledger.DB, n int) string {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	at := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	levels := [][]tlog.Hash{{}}
	const batch = 20_000
	for from := 0; from < n; from += batch {
		var rows []ledger.Row
		for i := from; i < min(from+batch, n); i++ {
			r := made(i, at.Add(time.Duration(i)*time.Millisecond))
			body, err := r.Encode()
			must(err)
			rows = append(rows, ledger.Row{Idx: uint64(i), StreamSeq: uint64(i) + 1, StreamEpoch: 5, Body: body, Record: r})
			levels[0] = append(levels[0], merkle.LeafHash(5, uint64(i)+1, body))
		}
		must(db.Append(tb.Context(), rows))
	}
	for level := 0; len(levels[level]) >= merkle.TileWidth; level++ {
		full := len(levels[level]) / merkle.TileWidth * merkle.TileWidth
		above := []tlog.Hash{}
		for i := 0; i < full; i += merkle.TileWidth {
			above = append(above, merkle.Root(levels[level][i:i+merkle.TileWidth]))
		}
		must(db.AppendTiles(tb.Context(), level, 0, levels[level][:full]))
		levels = append(levels, above)
	}
	root, err := merkle.NewReader(tb.Context(), db).TreeHash(uint64(n))
	must(err)
	path := filepath.Join(tb.TempDir(), "key")
	key, err := checkpoint.CreateFile(path, "bench.example/waybill")
	must(err)
	keys, err := checkpoint.OpenKeys(path)
	must(err)
	c := checkpoint.Checkpoint{Origin: keys.Origin(), Size: uint64(n), Root: root}
	note, id, err := keys.Sign(c)
	must(err)
	must(db.AppendCheckpoint(tb.Context(), ledger.Checkpoint{Size: c.Size, At: at, Origin: c.Origin, Key: id, Root: root,
		Note: note}))
	return key.Verifier
}

// made is record i. Now and then an endpoint or an event type was changed.
func made(i int, at time.Time) record.Record {
	endpoint := fmt.Sprintf("ep_%026d", i/perEvent%100)
	r := record.Record{ID: fmt.Sprint("rec-", i), Kind: record.Attempt, At: at, Tenant: "acme",
		EventID: fmt.Sprintf("evt_%026d", i/perEvent), EndpointID: endpoint,
		EventType: "order.paid", EndpointRevision: 1, StartedAt: at, DurationUS: 81_000, Status: 200, Outcome: "delivered",
		Class: "delivered", Decision: "delivered",
		URL: "https://hooks.example.com/in", PayloadDigest: fmt.Sprintf("%064x", i), PayloadBytes: 1024,
		SignatureScheme: "standard", KeyIDs: []string{"key_1"},
		ResponseHeaders: map[string]string{"content-type": "application/json"}, ResponseExcerpt: `{"ok":true}`,
		Dispatcher: "host-1/4711", Software: "Waybill/test"}
	switch {
	case i < 100*perEvent && i%perEvent == 0:
		return record.Record{ID: r.ID, Kind: record.EndpointChanged, At: at, Tenant: "acme", EndpointID: endpoint,
			EndpointRevision: 1, Action: "create", URL: r.URL}
	case i == 1:
		return record.Record{ID: r.ID, Kind: record.EventTypeChanged, At: at, Tenant: "acme", EventTypes: []string{"order.*"},
			Action: "set"}
	case i%perEvent == 0:
		r.Kind, r.EndpointID, r.Endpoints, r.EndpointIDs = record.EventAccepted, "", 1, []string{endpoint}
	case i%perEvent == 1:
		r.Kind = record.DeliveryOwed
	default:
		r.Attempt = i%perEvent - 1
	}
	return r
}

func openLedger(tb testing.TB) *ledger.DB {
	tb.Helper()
	db, err := ledger.Open(tb.Context(), testkit.ClickHouse(tb).DSN)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Above two levels of tiles, records at the edges of tiles are proven like any other.
func TestEvidenceIsProvenAcrossTheEdgesOfTiles(t *testing.T) {
	db := openLedger(t)
	const n = 66_400 // 259 tiles, one of the level above, and a part
	key, err := evidence.ParseKey(fill(t, db, n))
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range []int{150, 255 / perEvent, 256/perEvent + 100, 65_532 / perEvent, 65_536 / perEvent,
		n/perEvent - 1} {
		q := control.EvidenceRequest{EventID: fmt.Sprintf("evt_%026d", event), Actor: "alice"}
		b, err := control.GatherEvidence(t.Context(), history.New(db), q)
		if err != nil {
			t.Fatal(err)
		}
		r := evidence.Verify(b, evidence.Options{Keys: []evidence.Key{key}})
		if !r.Proven || len(r.Facts) < perEvent+1 {
			t.Errorf("event %d: %q, %d records", event, r.Problems, len(r.Facts))
		}
	}
}

// BenchmarkEvidence exports events of a ledger of EVIDENCE_RECORDS records
// (default: a million), which EVIDENCE_DIR, if it is set, keeps for the next run.
func BenchmarkEvidence(b *testing.B) {
	n := 1_000_000
	if text := os.Getenv("EVIDENCE_RECORDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	db, public := kept(b, os.Getenv("EVIDENCE_DIR"), n)
	key, err := evidence.ParseKey(public)
	if err != nil {
		b.Fatal(err)
	}
	var file []byte
	i := 0
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			i += 7919
			q := control.EvidenceRequest{EventID: fmt.Sprintf("evt_%026d", 100+i%(n/perEvent-100)), Actor: "alice"}
			if file, err = control.GatherEvidence(b.Context(), history.New(db), q); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			if r := evidence.Verify(file, evidence.Options{Keys: []evidence.Key{key}}); !r.Proven {
				b.Fatal(r.Problems)
			}
		}
	})
}

// kept is a ledger of n records, of an earlier run if dir has one, and its key.
func kept(b *testing.B, dir string, n int) (*ledger.DB, string) {
	b.Helper()
	if dir == "" {
		db := openLedger(b)
		return db, fill(b, db, n)
	}
	keyFile := filepath.Join(dir, fmt.Sprintf("evidence-%d.key", n))
	db, err := ledger.Open(b.Context(), testkit.StartClickHouse(b, dir).DSN("", fmt.Sprintf("evidence_%d", n)))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	public, err := os.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		public = []byte(fill(b, db, n))
		err = os.WriteFile(keyFile, public, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return db, string(public)
}

// ClickHouse reads 256 KiB of a query: an event for many endpoints asks in several.
func TestTheSettingsOfFiftyThousandEndpointsAreFound(t *testing.T) {
	db := openLedger(t)
	fill(t, db, 100*perEvent)
	revisions := map[string][]uint64{}
	for i := range 50_000 {
		revisions[fmt.Sprintf("ep_%026d", i)] = []uint64{1}
	}
	found, err := db.RevisionBodies(t.Context(), revisions)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, f := range found {
		rows += len(f.Rows)
		if f.Query == "" || len(f.Query) > 200_000 {
			t.Errorf("a query of %d bytes", len(f.Query))
		}
	}
	if rows != 100 {
		t.Errorf("%d revisions are found, want 100", rows)
	}
}
