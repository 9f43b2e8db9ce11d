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
	roots map[Tile]tlog.Hash   // of full tiles, those that were computed
}

// NewReader makes a Reader whose reads end with ctx.
func NewReader(ctx context.Context, store Store) *Reader {
	return &Reader{ctx: ctx, store: store, tiles: map[Tile][]tlog.Hash{}, roots: map[Tile]tlog.Hash{}}
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

// span are hashes first <= n < end of a level of tiles.
type span struct {
	level      int
	first, end uint64
}

// each calls yield with the tiles that the span touches and its part in each.
func (s span) each(yield func(t Tile, part span)) {
	for n := s.first / TileWidth; n*TileWidth < s.end; n++ {
		yield(Tile{s.level, n}, span{s.level, max(s.first, n*TileWidth), min(s.end, (n+1)*TileWidth)})
	}
}

// prefetch reads the tiles that hold the hashes, all in one question, then the
// tiles below those that are not stored in a second one, and so on.
func (r *Reader) prefetch(indexes []int64) error {
	var spans []span
	for _, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		first, count := uint64(n)<<(level%TileHeight), uint64(1)<<(level%TileHeight)
		spans = append(spans, span{level / TileHeight, first, first + count})
	}
	for len(spans) > 0 {
		var want []Tile
		for _, s := range spans {
			s.each(func(t Tile, _ span) { want = append(want, t) })
		}
		if err := r.load(want); err != nil {
			return err
		}
		var below []span
		for _, s := range spans {
			s.each(func(t Tile, part span) {
				if r.tiles[t] == nil && t.Level > 0 {
					below = append(below, span{t.Level - 1, part.first * TileWidth, part.end * TileWidth})
				}
			})
		}
		spans = below
	}
	return nil
}

// load reads those of the tiles that it has not read yet, in one question.
func (r *Reader) load(want []Tile) error {
	var missing []Tile
	asked := map[Tile]bool{}
	for _, t := range want {
		if _, known := r.tiles[t]; !known && !asked[t] {
			asked[t] = true
			missing = append(missing, t)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	got, err := r.store.Tiles(r.ctx, missing)
	if err != nil {
		return err
	}
	for i, t := range missing {
		r.tiles[t] = got[i]
	}
	return nil
}

// Hashes returns hashes first <= n < end of a level of tiles: of leaves at level
// 0, of full tiles of the level below above it.
func (r *Reader) Hashes(level int, first, end uint64) ([]tlog.Hash, error) {
	s := span{level, first, end}
	var want []Tile
	s.each(func(t Tile, _ span) { want = append(want, t) })
	if err := r.load(want); err != nil {
		return nil, err
	}
	out := make([]tlog.Hash, 0, end-first)
	for _, t := range want {
		from, to := max(first, t.Number*TileWidth), min(end, (t.Number+1)*TileWidth)
		if full := r.tiles[t]; full != nil {
			out = append(out, full[from-t.Number*TileWidth:to-t.Number*TileWidth]...)
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
	var below []Tile
	for n := first; n < end; n++ {
		if t := (Tile{level - 1, n}); r.roots[t] == (tlog.Hash{}) {
			below = append(below, t)
		}
	}
	if err := r.load(below); err != nil {
		return nil, err
	}
	for _, t := range below {
		hashes, err := r.Hashes(t.Level, t.Number*TileWidth, (t.Number+1)*TileWidth)
		if err != nil {
			return nil, err
		}
		r.roots[t] = Root(hashes)
	}
	out := make([]tlog.Hash, 0, end-first)
	for n := first; n < end; n++ {
		out = append(out, r.roots[Tile{level - 1, n}])
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
