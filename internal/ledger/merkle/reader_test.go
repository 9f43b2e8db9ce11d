package merkle_test

import (
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// memory is a store of so many leaves, of which so many tiles are kept in each level.
type memory struct {
	leaves []tlog.Hash
	tiles  map[merkle.Tile][]tlog.Hash
	read   int // leaves that were read
	asked  int // questions for tiles
}

func leaf(n uint64) tlog.Hash {
	return tlog.RecordHash(binary.BigEndian.AppendUint64(nil, n))
}

// newMemory keeps the full tiles of the first tiled leaves.
func newMemory(size, tiled uint64) *memory {
	m := &memory{tiles: map[merkle.Tile][]tlog.Hash{}}
	for n := range size {
		m.leaves = append(m.leaves, leaf(n))
	}
	row := m.leaves[:tiled]
	for level := 0; len(row) >= merkle.TileWidth; level++ {
		var above []tlog.Hash
		for n := 0; (n+1)*merkle.TileWidth <= len(row); n++ {
			full := row[n*merkle.TileWidth : (n+1)*merkle.TileWidth]
			m.tiles[merkle.Tile{Level: level, Number: uint64(n)}] = full
			above = append(above, merkle.Root(full))
		}
		row = above
	}
	return m
}

func (m *memory) Tiles(_ context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	m.asked++
	var out [][]tlog.Hash
	for _, t := range want {
		out = append(out, m.tiles[t])
	}
	return out, nil
}

func (m *memory) Leaves(_ context.Context, first, end uint64) ([]tlog.Hash, error) {
	m.read += int(end - first)
	return m.leaves[first:end], nil
}

// naive is RFC 6962's definition of the tree's hash, word for word.
func naive(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	return tlog.NodeHash(naive(leaves[:k]), naive(leaves[k:]))
}

func TestRootsAndProofsHoldAtEverySizeAroundTheEdgesOfTiles(t *testing.T) {
	const most = 65536 + 300
	lagging := newMemory(most, 40_000) // the tiles are behind the records
	full := newMemory(most, most)
	for _, m := range []*memory{full, lagging} {
		for _, size := range []uint64{1, 2, 3, 255, 256, 257, 511, 512, 513, 39_999, 65_535, 65_536, 65_537, most} {
			r := merkle.NewReader(context.Background(), m)
			root, err := r.TreeHash(size)
			if err != nil {
				t.Fatal(err)
			}
			if want := naive(m.leaves[:size]); root != want {
				t.Fatalf("size %d: root %s, want %s", size, root, want)
			}
			for _, n := range []uint64{0, size / 2, size - 1, (size - 1) / 256 * 256} {
				p, err := r.ProveRecord(size, n)
				if err != nil {
					t.Fatal(err)
				}
				if err := tlog.CheckRecord(p, int64(size), root, int64(n), leaf(n)); err != nil {
					t.Errorf("record %d of %d: %v", n, size, err)
				}
				if err := tlog.CheckRecord(p, int64(size), root, int64(n), leaf(n+1)); err == nil {
					t.Errorf("record %d of %d: another leaf is accepted", n, size)
				}
				p2, err := r.ProveTree(size, n+1)
				if err != nil {
					t.Fatal(err)
				}
				if err := tlog.CheckTree(p2, int64(size), root, int64(n+1), naive(m.leaves[:n+1])); err != nil {
					t.Errorf("size %d over %d: %v", size, n+1, err)
				}
			}
		}
	}
	full.read = 0
	if _, err := merkle.NewReader(context.Background(), full).ProveRecord(most, 100); err != nil ||
		full.read >= merkle.TileWidth {
		t.Errorf("a proof read %d leaves, want less than a tile's: %v", full.read, err)
	}
}

func TestManyProofsAreThoseOfEachAndReadTheirTilesAtOnce(t *testing.T) {
	const size = 65536 + 300
	m := newMemory(size, 65536+256)
	records := []uint64{0, 1, 257, 12_345, 65_535, 65_536, size - 1}
	m.asked = 0
	got, err := merkle.NewReader(t.Context(), m).ProveRecords(size, records)
	if err != nil {
		t.Fatal(err)
	}
	if m.asked > 2 { // for what the proofs need, and for what is below the tiles that are not full yet
		t.Errorf("%d questions for tiles", m.asked)
	}
	for i, n := range records {
		want, err := merkle.NewReader(t.Context(), m).ProveRecord(size, n)
		if err != nil || !slices.Equal(got[i], want) {
			t.Errorf("the proof of record %d is another one: %v", n, err)
		}
	}
	if _, err := merkle.NewReader(t.Context(), m).ProveRecords(size, []uint64{size}); err == nil {
		t.Error("a record that is not in the tree is proven")
	}
}

func TestAStoreThatHasFewerLeavesThanItSaysIsAnError(t *testing.T) {
	m := newMemory(10, 0)
	short := shortStore{m}
	if _, err := merkle.NewReader(context.Background(), short).TreeHash(10); err == nil {
		t.Error("no error")
	}
}

type shortStore struct{ *memory }

func (s shortStore) Leaves(_ context.Context, first, end uint64) ([]tlog.Hash, error) {
	return s.leaves[first : end-1], nil
}

// BenchmarkLeafHash is what the tree costs for each record of a usual size, but
// for the inner hashes, which are one more of 65 bytes each.
func BenchmarkLeafHash(b *testing.B) {
	body := make([]byte, 900)
	for b.Loop() {
		leaf := merkle.LeafHash(1_790_000_000_000_000_001, 42, body)
		tlog.NodeHash(leaf, leaf)
	}
}
