package merkle

import (
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// TileHeight is the height of a tile in C2SP tlog-tiles.
	TileHeight = 8
	// TileWidth is how many hashes a full tile has.
	TileWidth = 1 << TileHeight
)

// Tile names a full tile. The hashes of level 0 are those of leaves; a hash of a
// level above is the root over a full tile of the level below.
type Tile struct {
	Level  int
	Number uint64
}

// Join puts hashes behind each other, as a tile's bytes have them.
func Join(hashes []tlog.Hash) []byte {
	b := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}

// Split is Join undone.
func Split(b []byte) []tlog.Hash {
	hashes := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range hashes {
		copy(hashes[i][:], b[i*tlog.HashSize:])
	}
	return hashes
}

// Root is the root over 1, 2, 4 … hashes of one level: a full subtree.
func Root(hashes []tlog.Hash) tlog.Hash {
	row := append([]tlog.Hash(nil), hashes...)
	for len(row) > 1 {
		for i := range len(row) / 2 {
			row[i] = tlog.NodeHash(row[2*i], row[2*i+1])
		}
		row = row[:len(row)/2]
	}
	return row[0]
}
