package sink_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/test/testkit"
)

const logOrigin = "log.example/sink"

// keyFile is the key that this harness's sinks sign checkpoints with.
func (h *harness) keyFile() string {
	h.t.Helper()
	if h.key == "" {
		h.key = filepath.Join(h.t.TempDir(), "checkpoint.key")
		if _, err := checkpoint.CreateFile(h.key, logOrigin); err != nil {
			h.t.Fatal(err)
		}
	}
	return h.key
}

// fromRecords is a store that has no tiles: what it says follows from the records.
type fromRecords struct{ *ledger.DB }

func (fromRecords) Tiles(_ context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	return make([][]tlog.Hash, len(want)), nil
}

// checkLog waits for a checkpoint over every record, and compares all checkpoints
// and tiles with the records.
func (h *harness) checkLog() {
	h.t.Helper()
	ctx, db := context.Background(), h.db()
	keys, err := checkpoint.OpenKeys(h.keyFile())
	if err != nil {
		h.t.Fatal(err)
	}
	known, err := keys.Verifiers()
	if err != nil {
		h.t.Fatal(err)
	}
	size := uint64(0)
	eventually(h.t, "a checkpoint over every record", func() bool {
		at, err := db.Last(ctx)
		if err != nil {
			return false
		}
		c, err := db.LastCheckpoint(ctx, logOrigin)
		size = c.Size
		return err == nil && size == at.Next
	})
	r := merkle.NewReader(ctx, fromRecords{db})
	n := 0
	err = db.Checkpoints(ctx, 0, size, func(row ledger.Checkpoint) error {
		n++
		c, _, err := checkpoint.Open([]byte(row.Note), known)
		if err != nil {
			return err
		}
		root, err := r.TreeHash(c.Size)
		if err == nil && (root != c.Root || c.Root != row.Root || c.Size != row.Size) {
			h.t.Errorf("checkpoint of %d records: root %s, want %s", c.Size, c.Root, root)
		}
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
	tiled, err := db.Tiled(ctx)
	if err != nil || size >= merkle.TileWidth && (len(tiled) == 0 || tiled[0] != size/merkle.TileWidth) {
		h.t.Errorf("tiles %v of %d records: %v", tiled, size, err)
	}
	next := uint64(0)
	err = db.TileHashes(ctx, 0, 0, size, func(number uint64, hashes []tlog.Hash) error {
		want, err := r.Hashes(0, number*merkle.TileWidth, (number+1)*merkle.TileWidth)
		if err == nil && (number != next || string(merkle.Join(want)) != string(merkle.Join(hashes))) {
			h.t.Errorf("tile %d, want %d, or other hashes", number, next)
		}
		next++
		return err
	})
	if err != nil {
		h.t.Error(err)
	}
	h.t.Logf("%d checkpoints over %d records, tiles %v", n, size, tiled)
}

// A LEDGER that still has the tail makes a restored backup whole again.
func TestARestoredBackupReadsItsTailAgainAndSignsOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if err := h.db().Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.publish(700)
	p := h.startProcess(t)
	h.waitRows(t, 700)
	h.checkLog()
	p.end()
	// The backup is older than the last checkpoint, which is on the stream.
	h.restore(400)
	h.publish(50)
	p = h.startProcess(t)
	p.waitFor("ledger_log.signs_nothing")
	p.waitFor("ledger_log.agrees_again")
	h.waitRows(t, 751) // the refusal is a record of its own
	h.checkLog()
}

// restore replaces the ledger by a copy of its first n records, without tiles and
// checkpoints.
func (h *harness) restore(n uint64) {
	h.t.Helper()
	ctx, from := context.Background(), h.db()
	d := testkit.ClickHouse(h.t)
	o, err := clickhouse.ParseDSN(d.DSN)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.conn, err = clickhouse.Open(o); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = h.conn.Close() })
	h.dsn = d.DSN
	to := h.db()
	if err := to.Migrate(ctx); err != nil {
		h.t.Fatal(err)
	}
	var rows []ledger.Row
	err = from.Bodies(ctx, 0, n, func(b ledger.Body) error {
		r, err := record.Decode(b.Body)
		rows = append(rows, ledger.Row{Idx: b.Idx, StreamSeq: b.StreamSeq, StreamEpoch: b.StreamEpoch,
			Body: slices.Clone(b.Body), Record: r})
		return err
	})
	if err == nil {
		err = to.Append(ctx, rows)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}
