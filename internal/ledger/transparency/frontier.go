package transparency

import (
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// frontier is the right edge of the growing tree: in each level the hashes
// behind the last tile that is stored. It is all that it takes to grow the tree
// and to know its root, and at most a few hundred hashes a level once its full
// tiles are stored.
type frontier struct {
	size   uint64
	levels []edge
}

// edge is one level's.
type edge struct {
	stored uint64      // tiles 0 to stored-1 are stored
	hashes []tlog.Hash // those behind them
}

// add appends a leaf.
func (f *frontier) add(leaf tlog.Hash) {
	f.size++
	for level := 0; ; level++ {
		if level == len(f.levels) {
			f.levels = append(f.levels, edge{})
		}
		e := &f.levels[level]
		e.hashes = append(e.hashes, leaf)
		if len(e.hashes)%merkle.TileWidth != 0 {
			return
		}
		leaf = merkle.Root(e.hashes[len(e.hashes)-merkle.TileWidth:])
	}
}

// full are the hashes of a level's full tiles that are not stored yet.
func (f *frontier) full(level int) []tlog.Hash {
	h := f.levels[level].hashes
	return h[:len(h)/merkle.TileWidth*merkle.TileWidth]
}

// fullTiles counts the tiles of all levels that are not stored yet.
func (f *frontier) fullTiles() int {
	n := 0
	for _, e := range f.levels {
		n += len(e.hashes) / merkle.TileWidth
	}
	return n
}

// stored forgets the first n tiles of those that full gave.
func (f *frontier) stored(level, n int) {
	e := &f.levels[level]
	e.stored += uint64(n)
	e.hashes = append([]tlog.Hash(nil), e.hashes[n*merkle.TileWidth:]...)
}

// root of the tree over everything that was added: the full subtrees at its
// right edge, joined from the smallest on.
func (f *frontier) root() tlog.Hash {
	if f.size == 0 {
		return emptyRoot()
	}
	var root tlog.Hash
	have := false
	for _, e := range f.levels {
		part := e.hashes[len(e.hashes)/merkle.TileWidth*merkle.TileWidth:]
		for len(part) > 0 {
			width := 1 << bits.TrailingZeros(uint(len(part)))
			peak := merkle.Root(part[len(part)-width:])
			part = part[:len(part)-width]
			if have {
				peak = tlog.NodeHash(peak, root)
			}
			root, have = peak, true
		}
	}
	return root
}

func emptyRoot() tlog.Hash {
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		return tlog.Hash{}
	}
	return root
}

// restorable says how many tiles of each level a frontier over at most records
// can begin from, when so many are stored: tiles over records that the ledger
// does not have, and those whose lower level is missing, do not count.
func restorable(tiled []uint64, records uint64) []uint64 {
	var out []uint64
	below := records
	for _, n := range tiled {
		if n = min(n, below/merkle.TileWidth); n == 0 {
			break
		}
		out = append(out, n)
		below = n
	}
	return out
}
