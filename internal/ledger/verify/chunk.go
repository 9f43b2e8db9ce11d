package verify

import (
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"golang.org/x/mod/sumdb/tlog"
)

// Row is one row of records, as far as its place in the tree goes.
type Row struct {
	Idx  uint64
	Leaf tlog.Hash // recomputed from the row's stream_epoch, stream_seq and body
}

// Difference is a stored column that does not say what the body says.
type Difference struct {
	Column string `json:"column"`
	Stored string `json:"stored"` // what the column says
	Ledger string `json:"ledger"` // what the record's bytes say
}

// RowDifferences are the differing columns of one row.
type RowDifferences struct {
	Idx     uint64
	ID      string
	Columns []Difference
}

// StoredTile is a row of tiles.
type StoredTile struct {
	Number uint64
	Bytes  []byte
}

// Chunk is what the database holds for the records First <= idx < End. First is
// a multiple of 256, and so is End unless the ledger ends there.
type Chunk struct {
	First, End uint64
	Rows       []Row // by idx
	Tiles      []StoredTile
	Columns    []RowDifferences
}

// oddKind is what is odd about one index.
type oddKind int

const (
	differs oddKind = iota // the row's hash is not the tile's
	missing                // no row
	added                  // a further row with the same idx
)

// odd is one index at which row and tile do not agree.
type odd struct {
	idx  uint64
	kind oddKind
	row  tlog.Hash // the row's; zero when it is missing
	tile tlog.Hash // the tile's; zero when there is no tile
}

// chunkResult is what a Chunk says about the tree, computed apart from the others.
type chunkResult struct {
	first, end uint64
	rows       []tlog.Hash // the leaf of each index by the rows; where there is none, the tile's
	tiled      []tlog.Hash // the leaf of each index by the tiles; where there is none, the row's
	roots      []tlog.Hash // of each full tile, over rows
	odd        []odd
	tiles      []span // tiles of level 0 that are not there, or there twice, or no tiles
	columns    []RowDifferences
	// tiled is the same slice as rows while both agree.
	agree bool
}

// span is a range of numbers, both ends in it.
type span struct {
	From, To uint64
	What     string
}

// inspect compares rows with tiles. It is where most of the time of hashing the
// tree goes, so it runs for several chunks at once.
func inspect(c Chunk, tiledTo uint64) chunkResult {
	out := chunkResult{first: c.First, end: c.End, columns: c.Columns, agree: true}
	n := int(c.End - c.First)
	tiles := out.place(c, tiledTo)
	out.rows = make([]tlog.Hash, n)
	have := make([]bool, n)
	for _, r := range c.Rows {
		i := int(r.Idx - c.First)
		stored, tiled := tileLeaf(tiles, i)
		if have[i] {
			// Of rows with the same idx, the one that the tile knows is the record.
			extra := r.Leaf
			if tiled && r.Leaf == stored && out.rows[i] != stored {
				extra, out.rows[i] = out.rows[i], r.Leaf
			}
			out.odd = append(out.odd, odd{r.Idx, added, extra, stored})
			continue
		}
		have[i], out.rows[i] = true, r.Leaf
	}
	for i := range n {
		stored, tiled := tileLeaf(tiles, i)
		switch {
		case !have[i]:
			out.rows[i] = stored
			out.odd = append(out.odd, odd{c.First + uint64(i), missing, tlog.Hash{}, stored})
		case tiled && out.rows[i] != stored:
			out.agree = false
			out.odd = append(out.odd, odd{c.First + uint64(i), differs, out.rows[i], stored})
		}
	}
	out.tiled = out.rows
	if !out.agree {
		out.tiled = make([]tlog.Hash, n)
		for i := range n {
			if stored, tiled := tileLeaf(tiles, i); tiled {
				out.tiled[i] = stored
			} else {
				out.tiled[i] = out.rows[i]
			}
		}
	}
	for rest := out.rows; len(rest) >= merkle.TileWidth; rest = rest[merkle.TileWidth:] {
		out.roots = append(out.roots, tileRoot(rest[:merkle.TileWidth]))
	}
	return out
}

// place puts the stored tiles of level 0 where they belong; nil where there is none.
func (out *chunkResult) place(c Chunk, tiledTo uint64) [][]byte {
	first := c.First / merkle.TileWidth
	tiles := make([][]byte, (c.End-c.First+merkle.TileWidth-1)/merkle.TileWidth)
	for _, t := range c.Tiles {
		switch i := t.Number - first; {
		case len(t.Bytes) != merkle.TileWidth*tlog.HashSize:
			out.tiles = append(out.tiles, span{t.Number, t.Number, "is no tile: its length is wrong"})
		case tiles[i] != nil:
			out.tiles = append(out.tiles, span{t.Number, t.Number, "is there twice"})
		default:
			tiles[i] = t.Bytes
		}
	}
	for i := range tiles {
		if number := first + uint64(i); tiles[i] == nil && number < tiledTo && (number+1)*merkle.TileWidth <= c.End {
			out.tiles = append(out.tiles, span{number, number, "is missing"})
		}
	}
	return tiles
}

func tileLeaf(tiles [][]byte, i int) (h tlog.Hash, ok bool) {
	t := tiles[i/merkle.TileWidth]
	if t == nil {
		return h, false
	}
	copy(h[:], t[i%merkle.TileWidth*tlog.HashSize:])
	return h, true
}

// tileRoot is the root over 256 hashes, which it leaves as they are.
func tileRoot(hashes []tlog.Hash) tlog.Hash {
	var row [merkle.TileWidth / 2]tlog.Hash
	for i := range row {
		row[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
	}
	for n := len(row) / 2; n > 0; n /= 2 {
		for i := range n {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
	}
	return row[0]
}
