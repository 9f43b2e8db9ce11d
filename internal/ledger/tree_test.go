package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// manyRecords stores n small records and returns their rows.
func manyRecords(t testing.TB, db *ledger.DB, n int) []ledger.Row {
	t.Helper()
	var rows []ledger.Row
	for i := range n {
		rows = append(rows, row(t, uint64(i), record.Record{ID: fmt.Sprintf("rec-%d", i), Kind: record.Attempt, At: noon,
			Tenant: "acme"}))
	}
	if err := db.Append(context.Background(), rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestTilesAreStoredOnceAndReadBack(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	ctx := context.Background()
	rows := manyRecords(t, db, 900)
	var leaves []tlog.Hash
	for _, r := range rows {
		leaves = append(leaves, merkle.LeafHash(r.StreamEpoch, r.StreamSeq, r.Body))
	}
	got, err := db.Leaves(ctx, 0, 900)
	if err != nil || !equalHashes(got, leaves) {
		t.Fatalf("leaves: %v", err)
	}
	if _, err := db.Leaves(ctx, 890, 901); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("leaves of a record that is not there: %v", err)
	}
	if tiled, err := db.Tiled(ctx); err != nil || len(tiled) != 0 {
		t.Fatalf("at first: %v, %v", tiled, err)
	}
	// The second insert begins where the first did: it does not land.
	for _, n := range []int{2 * merkle.TileWidth, merkle.TileWidth} {
		if err := db.AppendTiles(ctx, 0, 0, leaves[:n]); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.AppendTiles(ctx, 0, 2, leaves[2*merkle.TileWidth:900]); err == nil {
		t.Error("a tile that is not full was taken")
	}
	if err := db.AppendTiles(ctx, 0, 2, leaves[2*merkle.TileWidth:3*merkle.TileWidth]); err != nil {
		t.Fatal(err)
	}
	if tiled, err := db.Tiled(ctx); err != nil || len(tiled) != 1 || tiled[0] != 3 {
		t.Fatalf("tiled %v, %v", tiled, err)
	}
	tiles, err := db.Tiles(ctx, []merkle.Tile{{Number: 2}, {Number: 3}, {Number: 0}, {Number: 2}, {Level: 1}})
	if err != nil || !equalHashes(tiles[0], leaves[512:768]) || tiles[1] != nil || !equalHashes(tiles[2], leaves[:256]) ||
		!equalHashes(tiles[3], tiles[0]) || tiles[4] != nil {
		t.Errorf("tiles %v, %v", tiles, err)
	}
	part, err := db.StoredLeaves(ctx, 250, 520)
	if err != nil || !equalHashes(part, leaves[250:520]) {
		t.Errorf("stored leaves: %v", err)
	}
	if _, err := db.StoredLeaves(ctx, 760, 770); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("stored leaves behind the last tile: %v", err)
	}
	root, err := merkle.NewReader(ctx, db).TreeHash(900)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := merkle.NewReader(ctx, noTiles{db}).TreeHash(900); err != nil || root != want {
		t.Errorf("root %s, from the records alone %s, %v", root, want, err)
	}
	if err := db.AppendTiles(ctx, 0, 4, leaves[:merkle.TileWidth]); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Tiled(ctx); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("a hole between tiles: %v", err)
	}
	i := 0
	err = db.Bodies(ctx, 100, 200, func(b ledger.Body) error {
		want := rows[100+i]
		if b.Idx != want.Idx || b.StreamSeq != want.StreamSeq || b.StreamEpoch != want.StreamEpoch ||
			!bytes.Equal(b.Body, want.Body) || b.Leaf() != leaves[100+i] {
			t.Errorf("body %d is %+v", 100+i, b)
		}
		i++
		return nil
	})
	if err != nil || i != 100 {
		t.Errorf("%d bodies, %v", i, err)
	}
}

type noTiles struct{ *ledger.DB }

func (noTiles) Tiles(_ context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	return make([][]tlog.Hash, len(want)), nil
}

func equalHashes(a, b []tlog.Hash) bool { return bytes.Equal(merkle.Join(a), merkle.Join(b)) }

func TestCheckpointsAndTheirSignaturesAreKeptOnce(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	ctx := context.Background()
	if _, err := db.CheckpointOver(ctx, 0); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	var all []ledger.Checkpoint
	for i, size := range []uint64{10, 20, 20, 35} {
		c := ledger.Checkpoint{Size: size, At: noon.Add(time.Duration(i) * time.Second), Origin: "o", Key: fmt.Sprint("k", i),
			Root: leaf(size), Note: fmt.Sprint("note ", i)}
		all = append(all, c)
		for range 2 {
			if err := db.AppendCheckpoint(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []ledger.Checkpoint
	collect := func(c ledger.Checkpoint) error { got = append(got, c); return nil }
	if err := db.Checkpoints(ctx, 0, 1000, collect); err != nil {
		t.Fatal(err)
	}
	alike(t, got, all)
	got = nil
	if err := db.Checkpoints(ctx, 11, 20, collect); err != nil {
		t.Fatal(err)
	}
	alike(t, got, all[1:3])
	latest, err := db.LatestCheckpoints(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, latest, []ledger.Checkpoint{all[3], all[2]})
	over, err := db.CheckpointOver(ctx, 11)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, over, all[1])

	s := ledger.CheckpointSignature{Size: 20, At: noon, Kind: ledger.WitnessSignature, Signer: "w+1",
		Signature: "— w abc\n"}
	later := s
	later.At, later.Signer = noon.Add(time.Second), "w+2"
	for _, s := range []ledger.CheckpointSignature{s, s, later} {
		if err := db.AppendCheckpointSignature(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	signatures, err := db.CheckpointSignatures(ctx, 20, 34)
	if err != nil {
		t.Fatal(err)
	}
	alike(t, signatures, []ledger.CheckpointSignature{s, later})
}

func leaf(n uint64) tlog.Hash { return tlog.RecordHash(fmt.Appendf(nil, "%d", n)) }

func alike(t *testing.T, got, want any) {
	t.Helper()
	a, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}
