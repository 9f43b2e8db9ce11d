package merkle

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Store has the tree: full tiles as far as they are stored, and the leaves
// behind them.
type Store interface {
	// Tiles returns the hashes of full tiles, in the order of the question; nil
	// for those that are not stored.
	Tiles(ctx context.Context, want []Tile) ([][]tlog.Hash, error)
	// Leaves returns the leaf hashes of records first <= idx < end.
	Leaves(ctx context.Context, first, end uint64) ([]tlog.Hash, error)
}

// Reader reads hashes of the tree from a store, at any size of the tree up to
// the number of records: it is the tlog.HashReader that tlog.TreeHash,
// ProveRecord and ProveTree need. What the stored tiles lack is computed from the
// leaves. It remembers the tiles that it read, so it is for a few questions, and
// not for concurrent use.
type Reader struct {
	ctx   context.Context
	store Store
	tiles map[Tile][]tlog.Hash // nil: not stored
}

// NewReader makes a Reader whose reads end with ctx.
func NewReader(ctx context.Context, store Store) *Reader {
	return &Reader{ctx: ctx, store: store, tiles: map[Tile][]tlog.Hash{}}
}

// ReadHashes implements tlog.HashReader.
func (r *Reader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	if err := r.prefetch(indexes); err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		first, count := uint64(n)<<(level%TileHeight), uint64(1)<<(level%TileHeight)
		hashes, err := r.Hashes(level/TileHeight, first, first+count)
		if err != nil {
			return nil, err
		}
		out[i] = Root(hashes)
	}
	return out, nil
}

// prefetch reads the tiles that hold the hashes in one question.
func (r *Reader) prefetch(indexes []int64) error {
	var want []Tile
	seen := map[Tile]bool{}
	for _, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		t := Tile{level / TileHeight, uint64(n) << (level % TileHeight) / TileWidth}
		if _, known := r.tiles[t]; !known && !seen[t] {
			seen[t] = true
			want = append(want, t)
		}
	}
	return r.load(want)
}

func (r *Reader) load(want []Tile) error {
	if len(want) == 0 {
		return nil
	}
	got, err := r.store.Tiles(r.ctx, want)
	if err != nil {
		return err
	}
	for i, t := range want {
		r.tiles[t] = got[i]
	}
	return nil
}

// Hashes returns hashes first <= n < end of a level of tiles: of leaves at level
// 0, of full tiles of the level below above it.
func (r *Reader) Hashes(level int, first, end uint64) ([]tlog.Hash, error) {
	var missing []Tile
	for n := first / TileWidth; n*TileWidth < end; n++ {
		if _, known := r.tiles[Tile{level, n}]; !known {
			missing = append(missing, Tile{level, n})
		}
	}
	if err := r.load(missing); err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, 0, end-first)
	for n := first / TileWidth; n*TileWidth < end; n++ {
		from, to := max(first, n*TileWidth), min(end, (n+1)*TileWidth)
		if full := r.tiles[Tile{level, n}]; full != nil {
			out = append(out, full[from-n*TileWidth:to-n*TileWidth]...)
			continue
		}
		part, err := r.compute(level, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

// compute makes hashes that no stored tile has.
func (r *Reader) compute(level int, first, end uint64) ([]tlog.Hash, error) {
	if level == 0 {
		leaves, err := r.store.Leaves(r.ctx, first, end)
		if err == nil && uint64(len(leaves)) != end-first {
			err = fmt.Errorf("the tree has %d leaves from %d on, want %d", len(leaves), first, end-first)
		}
		return leaves, err
	}
	below, err := r.Hashes(level-1, first*TileWidth, end*TileWidth)
	if err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, 0, end-first)
	for len(below) > 0 {
		out = append(out, Root(below[:TileWidth]))
		below = below[TileWidth:]
	}
	return out, nil
}

// TreeHash is the root of the tree over the first size records.
func (r *Reader) TreeHash(size uint64) (tlog.Hash, error) { return tlog.TreeHash(int64(size), r) }

// ProveRecord proves that record n is in the tree over size records.
func (r *Reader) ProveRecord(size, n uint64) (tlog.RecordProof, error) {
	return tlog.ProveRecord(int64(size), int64(n), r)
}

// indexes collects which hashes are asked for, and answers with none.
type indexes []int64

func (x *indexes) ReadHashes(asked []int64) ([]tlog.Hash, error) {
	*x = append(*x, asked...)
	return make([]tlog.Hash, len(asked)), nil
}

// ProveRecords proves that records are in the tree over size records, in their
// order. It reads what all the proofs need at once.
func (r *Reader) ProveRecords(size uint64, records []uint64) ([]tlog.RecordProof, error) {
	var needed indexes
	for _, n := range records {
		if _, err := tlog.ProveRecord(int64(size), int64(n), &needed); err != nil {
			return nil, err
		}
	}
	if err := r.prefetch(needed); err != nil {
		return nil, err
	}
	proofs := make([]tlog.RecordProof, len(records))
	for i, n := range records {
		var err error
		if proofs[i], err = r.ProveRecord(size, n); err != nil {
			return nil, err
		}
	}
	return proofs, nil
}

// ProveTree proves that the tree over older records is the beginning of that
// over size records.
func (r *Reader) ProveTree(size, older uint64) (tlog.TreeProof, error) {
	if older == 0 {
		return tlog.TreeProof{}, nil
	}
	return tlog.ProveTree(int64(size), int64(older), r)
}
