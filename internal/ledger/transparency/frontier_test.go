package transparency

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

func numbered(n uint64) tlog.Hash { return tlog.RecordHash(binary.BigEndian.AppendUint64(nil, n)) }

// roots keeps every hash of the tree, as tlog's own code makes them.
type roots struct{ hashes []tlog.Hash }

func (r *roots) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, r.hashes[i])
	}
	return out, nil
}

func TestTheFrontiersRootIsThatOfTheTreeAtEverySize(t *testing.T) {
	var f frontier
	var all roots
	stored := map[merkle.Tile][]tlog.Hash{}
	for n := range int64(65_536 + 513) {
		hashes, err := tlog.StoredHashesForRecordHash(n, numbered(uint64(n)), &all)
		if err != nil {
			t.Fatal(err)
		}
		all.hashes = append(all.hashes, hashes...)
		f.add(numbered(uint64(n)))
		if n%1000 == 0 { // tiles are stored now and then
			for level := range f.levels {
				for full := f.full(level); len(full) > 0; full = full[merkle.TileWidth:] {
					stored[merkle.Tile{Level: level, Number: f.levels[level].stored}] = full[:merkle.TileWidth]
					f.stored(level, 1)
				}
			}
		}
		size := n + 1
		edge := size%256 < 2 || size%256 == 255
		if size > 1030 && !edge {
			continue
		}
		want, err := tlog.TreeHash(size, &all)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.root(); got != want {
			t.Fatalf("size %d: root %s, want %s", size, got, want)
		}
	}
	for tile, hashes := range stored {
		for i, h := range hashes {
			want := all.hashes[tlog.StoredHashIndex(8*tile.Level, int64(tile.Number)*256+int64(i))]
			if h != want {
				t.Fatalf("tile %+v, hash %d", tile, i)
			}
		}
	}
	if empty := new(frontier).root(); fmt.Sprintf("%x", empty[:4]) != "e3b0c442" { // SHA-256 of nothing
		t.Errorf("root of nothing: %x", empty)
	}
}

// tilesOnly is a store of a tree whose levels have only so many tiles.
type tilesOnly struct {
	Store
	leaves uint64
	tiled  []uint64
}

func (s tilesOnly) Tiled(context.Context) ([]uint64, error) { return s.tiled, nil }

func (s tilesOnly) TileHashes(_ context.Context, level int, first, end uint64,
	yield func(uint64, []tlog.Hash) error) error {
	for n := first; n < end; n++ {
		hashes := make([]tlog.Hash, merkle.TileWidth)
		for i := range hashes {
			hashes[i] = s.hash(level, n*merkle.TileWidth+uint64(i))
		}
		if err := yield(n, hashes); err != nil {
			return err
		}
	}
	return nil
}

func (s tilesOnly) hash(level int, n uint64) tlog.Hash {
	if level == 0 {
		return numbered(n)
	}
	below := make([]tlog.Hash, merkle.TileWidth)
	for i := range below {
		below[i] = s.hash(level-1, n*merkle.TileWidth+uint64(i))
	}
	return merkle.Root(below)
}

// Whatever was stored last when a process died, the next one goes on from there.
func TestAFrontierIsRestoredFromWhateverTilesAreStored(t *testing.T) {
	const records = 65_536 + 700
	var whole frontier
	for n := range uint64(records) {
		whole.add(numbered(n))
	}
	for _, tiled := range [][]uint64{nil, {1}, {255}, {256}, {257}, {258}, {256, 1}, {258, 1}, {257, 0}, {300, 2, 1},
		{200, 1}} {
		l := &Log{o: Options{Store: tilesOnly{leaves: records, tiled: tiled}}}
		l.landed.Store(records)
		g, err := l.restore(context.Background())
		if err != nil {
			t.Fatalf("%v: %v", tiled, err)
		}
		for n := g.size; n < records; n++ {
			g.add(numbered(n))
		}
		if g.root() != whole.root() || g.size != records {
			t.Errorf("%v: root %s of %d, want %s", tiled, g.root(), g.size, whole.root())
		}
		for level := range whole.levels {
			if got, want := g.levels[level].stored+uint64(len(g.full(level))/merkle.TileWidth),
				uint64(len(whole.full(level))/merkle.TileWidth); got != want {
				t.Errorf("%v: %d tiles in level %d, want %d", tiled, got, level, want)
			}
		}
	}
}

func TestACheckpointIsDueInTimeAndNeverForNothing(t *testing.T) {
	start := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	const every, quiet = 5 * time.Second, 2 * time.Second
	var g growing
	signed, at := uint64(0), []time.Duration{}
	sizes := func(d time.Duration) uint64 { // records come for 20 s, then none; one more after a minute
		switch {
		case d < 20*time.Second:
			return uint64(d / (100 * time.Millisecond))
		case d < time.Minute:
			return 200
		}
		return 201
	}
	for d := time.Duration(0); d < 2*time.Minute; d += 100 * time.Millisecond {
		now := start.Add(d)
		g.look(sizes(d), signed, now)
		if g.due(now, every, quiet) {
			signed, g.signedAt, g.unsignedAt = sizes(d), now, time.Time{}
			at = append(at, d)
		}
	}
	if signed != 201 {
		t.Errorf("%d records are signed", signed)
	}
	for i, d := range at {
		if i > 0 && d < 22*time.Second && d-at[i-1] > every+200*time.Millisecond {
			t.Errorf("a pause of %s under load: %v", d-at[i-1], at)
		}
	}
	if n := len(at); n < 5 || n > 7 || at[n-2] > 23*time.Second || at[n-1] > time.Minute+3*time.Second {
		t.Errorf("signed at %v", at)
	}
}
