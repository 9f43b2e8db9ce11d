// Package verify holds the ledger in ClickHouse against its Merkle tree and its
// signed checkpoints, and says which records are not what was signed. What it
// decides, it decides from what it is given; it reads nothing itself.
package verify

import (
	"context"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// Source is the ledger as the database has it. Nothing that it returns is
// believed; a Source that leaves out, makes up or alters anything is found out.
type Source interface {
	Extent(ctx context.Context) (Extent, error)
	Checkpoints(ctx context.Context) ([]Published, error)
	// Open makes a reader; several read at once.
	Open(ctx context.Context) (ChunkReader, error)
	// Tile returns the 256 hashes of a full tile; nil: it is not stored, or no tile.
	Tile(ctx context.Context, level int, number uint64) ([]tlog.Hash, error)
	// Records returns the rows of these indices, by idx.
	Records(ctx context.Context, idx []uint64) ([]Record, error)
	// Beyond returns rows with idx >= from, at most limit, by idx.
	Beyond(ctx context.Context, from uint64, limit int) ([]Record, error)
	// Actions returns the rows of operator.action with this action, by idx.
	Actions(ctx context.Context, action string) ([]Record, error)
	// BySequence calls yield with the rows that came from first <= sequence <=
	// last of one making of the stream, by sequence.
	BySequence(ctx context.Context, epoch int64, first, last uint64, yield func(Record) error) error
	// Misplaced returns rows behind the first one that came from a sequence >= first
	// of this making of the stream, that say that they came from an earlier sequence
	// or from another making; at most limit, by idx.
	Misplaced(ctx context.Context, epoch int64, first uint64, limit int) ([]Record, error)
	// Known says which of these record ids a row has, and where.
	Known(ctx context.Context, ids []string) (map[string]uint64, error)
}

// ChunkReader reads records in bulk.
type ChunkReader interface {
	// Chunk reads rows and tiles of level 0 for first <= idx < end, recomputes
	// each row's leaf hash, and compares every stored column with the body.
	Chunk(ctx context.Context, first, end uint64) (Chunk, error)
	Close() error
}

// Extent is how far the ledger goes.
type Extent struct {
	Rows  uint64 // how many there are
	End   uint64 // the largest idx + 1
	Tiles uint64 // tiles of level 0 from 0 on without a hole
}

// Record is one row, as far as a person needs it to find it.
type Record struct {
	Idx         uint64
	StreamEpoch int64
	StreamSeq   uint64
	ID          string
	At          time.Time
	Body        []byte
}

// Stream is LEDGER, which still holds the last records as they were published.
type Stream interface {
	Extent(ctx context.Context) (StreamExtent, error)
	// Read calls yield with the messages from first on to the stream's end as
	// Extent said it.
	Read(ctx context.Context, first uint64, yield func(seq uint64, body []byte) error) error
}

// StreamExtent is what LEDGER holds.
type StreamExtent struct {
	Epoch       int64 // when it was made
	First, Last uint64
}

// slack is how many idx may be missing beyond what is known to be there, before
// a row far out counts as a stray instead of as the ledger's end.
const slack = 1 << 20

// end is where the ledger ends: behind it are only strays, if anything. strays
// are the rows that are known to be.
func (e Extent) end(retired, strays uint64) uint64 {
	known := e.known(retired + slack)
	if e.End <= known {
		return max(e.End, e.Tiles*merkle.TileWidth)
	}
	return max(e.Rows-min(e.Rows, strays)+retired, e.Tiles*merkle.TileWidth)
}

func (e Extent) known(more uint64) uint64 { return max(e.Rows, e.Tiles*merkle.TileWidth) + more }
