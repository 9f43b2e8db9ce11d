package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// AppendTiles stores full tiles of one level, from number first on, in one
// insert: hashes are 256 for each tile. As with Append, of all inserts that begin
// at one tile only one can land: read back how many tiles there are (Tiled). So
// whoever begins each insert behind the last stored tile never stores one twice.
func (db *DB) AppendTiles(ctx context.Context, level int, first uint64, hashes []tlog.Hash) error {
	if len(hashes) == 0 || len(hashes)%merkle.TileWidth != 0 {
		return fmt.Errorf("storing tiles: %d hashes, want a multiple of %d", len(hashes), merkle.TileWidth)
	}
	insert := func(token string) (bool, error) {
		return db.appendOnce(ctx, "storing tiles", token, "INSERT INTO tiles (level, tile, hashes)",
			func(add func(...any) error) error {
				for i := range len(hashes) / merkle.TileWidth {
					if err := add(uint8(level), first+uint64(i),
						merkle.Join(hashes[i*merkle.TileWidth:(i+1)*merkle.TileWidth])); err != nil {
						return err
					}
				}
				return nil
			})
	}
	return throughTokens(fmt.Sprintf("tiles-%d-%d", level, first), insert, func() (bool, error) {
		have, err := db.Tiled(ctx)
		return level >= len(have) && first == 0 || level < len(have) && have[level] == first, err
	})
}

// appendOnce inserts rows under a token: of all inserts with it only one lands.
// dropped: the server said that the token is spent.
func (db *DB) appendOnce(ctx context.Context, doing, token, statement string,
	rows func(add func(...any) error) error) (dropped bool, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplicate": 1, "insert_deduplication_token": token, "async_insert": 0,
		"min_insert_block_size_rows": 0, "min_insert_block_size_bytes": 0,
	}), noteDropped(&dropped))
	b, err := db.conn.PrepareBatch(ctx, statement)
	if err != nil {
		return false, db.explain(doing, err)
	}
	if err := rows(b.Append); err != nil {
		return false, errors.Join(fmt.Errorf("%s: %w", doing, err), b.Abort())
	}
	err = db.explain(doing, b.Send())
	return dropped, err
}

// Tiled says how many tiles each level has: tiles 0 to n-1, without a hole. The
// slice ends at the highest level that has one. ErrDamaged: they are not so.
func (db *DB) Tiled(ctx context.Context) ([]uint64, error) {
	rows, err := db.conn.Query(ctx, "SELECT level, max(tile) + 1, uniqExact(tile) FROM tiles GROUP BY level ORDER BY level")
	if err != nil {
		return nil, db.explain("counting the tiles", err)
	}
	defer rows.Close()
	var out []uint64
	for rows.Next() {
		var level uint8
		var end, count uint64
		if err := rows.Scan(&level, &end, &count); err != nil {
			return nil, db.explain("counting the tiles", err)
		}
		if int(level) != len(out) || end != count {
			return nil, fmt.Errorf("%w: tiles of level %d are missing; find what is wrong with: waybill ledger verify",
				ErrDamaged, min(int(level), len(out)))
		}
		out = append(out, end)
	}
	return out, db.explain("counting the tiles", rows.Err())
}

// Tiles returns the hashes of full tiles, in the order of the question; nil for
// those that are not stored.
func (db *DB) Tiles(ctx context.Context, want []merkle.Tile) ([][]tlog.Hash, error) {
	if len(want) == 0 {
		return nil, nil
	}
	var in []string
	at := map[merkle.Tile]int{}
	for i, t := range want {
		in = append(in, fmt.Sprintf("(%d,%d)", t.Level, t.Number))
		at[t] = i
	}
	out := make([][]tlog.Hash, len(want))
	rows, err := db.conn.Query(ctx, "SELECT level, tile, hashes FROM tiles WHERE (level, tile) IN ("+strings.Join(in, ",")+
		")")
	if err != nil {
		return nil, db.explain("reading tiles", err)
	}
	defer rows.Close()
	for rows.Next() {
		var level uint8
		var number uint64
		var b string
		if err := rows.Scan(&level, &number, &b); err != nil {
			return nil, db.explain("reading tiles", err)
		}
		hashes, err := splitTile(int(level), number, b)
		if err != nil {
			return nil, err
		}
		if i, ok := at[merkle.Tile{Level: int(level), Number: number}]; ok {
			out[i] = hashes
		}
	}
	for i, t := range want { // asked for twice: the map knows the last place
		if out[i] == nil {
			out[i] = out[at[t]]
		}
	}
	return out, db.explain("reading tiles", rows.Err())
}

func splitTile(level int, number uint64, b string) ([]tlog.Hash, error) {
	if len(b) != merkle.TileWidth*tlog.HashSize {
		return nil, fmt.Errorf("%w: tile %d of level %d has %d bytes, want %d; find what is wrong with: waybill ledger verify",
			ErrDamaged, number, level, len(b), merkle.TileWidth*tlog.HashSize)
	}
	return merkle.Split([]byte(b)), nil
}

// TileHashes calls yield with the hashes of each stored tile of a level, first
// <= number < end, in order. A tile that is missing is left out, one that is
// there twice comes twice.
func (db *DB) TileHashes(ctx context.Context, level int, first, end uint64,
	yield func(number uint64, hashes []tlog.Hash) error) error {
	rows, err := db.conn.Query(ctx, "SELECT tile, hashes FROM tiles WHERE level = ? AND tile >= ? AND tile < ? ORDER "+
		"BY tile", uint8(level), first, end)
	if err != nil {
		return db.explain("reading tiles", err)
	}
	defer rows.Close()
	for rows.Next() {
		var number uint64
		var b string
		if err := rows.Scan(&number, &b); err != nil {
			return db.explain("reading tiles", err)
		}
		hashes, err := splitTile(level, number, b)
		if err != nil {
			return err
		}
		if err := yield(number, hashes); err != nil {
			return err
		}
	}
	return db.explain("reading tiles", rows.Err())
}

// StoredLeaves returns the leaf hashes of records first <= idx < end as the
// tiles have them. Every one of them MUST lie in a full tile.
func (db *DB) StoredLeaves(ctx context.Context, first, end uint64) ([]tlog.Hash, error) {
	if first >= end {
		return nil, nil
	}
	out := make([]tlog.Hash, 0, end-first)
	next := first / merkle.TileWidth
	err := db.TileHashes(ctx, 0, next, (end-1)/merkle.TileWidth+1, func(number uint64, hashes []tlog.Hash) error {
		if number < next {
			return nil // there twice
		}
		if number != next {
			return fmt.Errorf("%w: tile %d of level 0 is missing; find what is wrong with: waybill ledger verify", ErrDamaged,
				next)
		}
		next++
		from := max(first, number*merkle.TileWidth) - number*merkle.TileWidth
		to := min(end, (number+1)*merkle.TileWidth) - number*merkle.TileWidth
		out = append(out, hashes[from:to]...)
		return nil
	})
	if err == nil && uint64(len(out)) != end-first {
		err = fmt.Errorf("%w: tile %d of level 0 is missing; find what is wrong with: waybill ledger verify", ErrDamaged,
			next)
	}
	return out, err
}

// Body is a record's exact bytes, with what else its leaf holds.
type Body struct {
	Idx         uint64
	StreamEpoch int64
	StreamSeq   uint64
	Body        []byte // valid until yield returns
}

// Leaf is the record's leaf hash.
func (b *Body) Leaf() tlog.Hash { return merkle.LeafHash(b.StreamEpoch, b.StreamSeq, b.Body) }

// Bodies calls yield with the rows of records, first <= idx < end, in the order
// of idx, whatever is missing or there twice.
func (db *DB) Bodies(ctx context.Context, first, end uint64, yield func(Body) error) error {
	rows, err := db.conn.Query(ctx, "SELECT idx, stream_epoch, stream_seq, body FROM records WHERE idx >= ? AND idx < "+
		"? ORDER BY idx", first, end)
	if err != nil {
		return db.explain("reading records", err)
	}
	defer rows.Close()
	var b Body
	for rows.Next() {
		if err := rows.Scan(&b.Idx, &b.StreamEpoch, &b.StreamSeq, &b.Body); err != nil {
			return db.explain("reading records", err)
		}
		if err := yield(b); err != nil {
			return err
		}
	}
	return db.explain("reading records", rows.Err())
}

// Entries calls yield with the log entry of each record, first <= idx < end, in
// order. ClickHouse hashes the bodies, so they need not travel. ErrDamaged: one
// is missing or there twice.
func (db *DB) Entries(ctx context.Context, first, end uint64, yield func(idx uint64, entry []byte) error) error {
	rows, err := db.conn.Query(ctx, "SELECT idx, stream_epoch, stream_seq, SHA256(body) FROM records WHERE idx >= ? "+
		"AND idx < ? ORDER BY idx", first, end)
	if err != nil {
		return db.explain("reading records", err)
	}
	defer rows.Close()
	next := first
	for ; rows.Next(); next++ {
		var idx, seq uint64
		var epoch int64
		var digest string
		if err := rows.Scan(&idx, &epoch, &seq, &digest); err != nil {
			return db.explain("reading records", err)
		}
		if idx != next {
			return fmt.Errorf("%w: record %d is missing or there twice; find what is wrong with: waybill ledger verify",
				ErrDamaged, min(idx, next))
		}
		if err := yield(idx, merkle.EntryOf(epoch, seq, [sha256.Size]byte([]byte(digest)))); err != nil {
			return err
		}
	}
	if err := db.explain("reading records", rows.Err()); err != nil {
		return err
	}
	if next < end {
		return fmt.Errorf("%w: record %d is missing; find what is wrong with: waybill ledger verify", ErrDamaged, next)
	}
	return nil
}

// Leaves returns the leaf hashes of records first <= idx < end, computed from
// the records. With Tiles it makes DB a merkle.Store.
func (db *DB) Leaves(ctx context.Context, first, end uint64) ([]tlog.Hash, error) {
	if first >= end {
		return nil, nil
	}
	out := make([]tlog.Hash, 0, end-first)
	err := db.Entries(ctx, first, end, func(_ uint64, entry []byte) error {
		out = append(out, tlog.RecordHash(entry))
		return nil
	})
	return out, err
}

// Checkpoint is a row of checkpoints: a signed statement of size and root.
type Checkpoint struct {
	Size   uint64    `json:"size"`
	At     time.Time `json:"at"`
	Origin string    `json:"origin"`
	Key    string    `json:"key"` // name+hash of the key that signed
	Root   tlog.Hash `json:"root"`
	Note   string    `json:"note"`
}

// AppendCheckpoint stores a checkpoint; the same note twice is stored once.
func (db *DB) AppendCheckpoint(ctx context.Context, c Checkpoint) error {
	sum := sha256.Sum256([]byte(c.Note))
	insert := func(token string) (bool, error) {
		return db.appendOnce(ctx, "storing a checkpoint", token,
			"INSERT INTO checkpoints (size, at, origin, key, root, note)", func(add func(...any) error) error {
				return add(c.Size, c.At.UTC(), c.Origin, c.Key, hex.EncodeToString(c.Root[:]), c.Note)
			})
	}
	return throughTokens("checkpoint-"+hex.EncodeToString(sum[:]), insert, func() (bool, error) {
		n := 0
		err := db.eachCheckpoint(ctx, "WHERE size = ? AND note = ?", func(Checkpoint) error { n++; return nil }, c.Size,
			c.Note)
		return n == 0, err
	})
}

// Checkpoints calls yield with the checkpoints of first <= size <= last, by size
// and time.
func (db *DB) Checkpoints(ctx context.Context, first, last uint64, yield func(Checkpoint) error) error {
	return db.eachCheckpoint(ctx, "WHERE size >= ? AND size <= ? ORDER BY size, at", yield, first, last)
}

// LatestCheckpoints returns the last n checkpoints, the largest first.
func (db *DB) LatestCheckpoints(ctx context.Context, n int) ([]Checkpoint, error) {
	var out []Checkpoint
	err := db.eachCheckpoint(ctx, "ORDER BY size DESC, at DESC LIMIT ?", func(c Checkpoint) error {
		out = append(out, c)
		return nil
	}, uint64(max(n, 0)))
	return out, err
}

// LastCheckpoint returns the largest checkpoint of an origin, or ErrNotFound.
func (db *DB) LastCheckpoint(ctx context.Context, origin string) (Checkpoint, error) {
	return db.oneCheckpoint(ctx, "checkpoint of "+origin, "WHERE origin = ? ORDER BY size DESC, at DESC LIMIT 1", origin)
}

// CheckpointOver returns the smallest checkpoint with at least size records, or
// ErrNotFound.
func (db *DB) CheckpointOver(ctx context.Context, size uint64) (Checkpoint, error) {
	return db.oneCheckpoint(ctx, fmt.Sprintf("checkpoint over %d records", size),
		"WHERE size >= ? ORDER BY size, at LIMIT 1", size)
}

func (db *DB) oneCheckpoint(ctx context.Context, what, which string, args ...any) (Checkpoint, error) {
	var out []Checkpoint
	err := db.eachCheckpoint(ctx, which, func(c Checkpoint) error {
		out = append(out, c)
		return nil
	}, args...)
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	if err != nil {
		return Checkpoint{}, err
	}
	return out[0], nil
}

func (db *DB) eachCheckpoint(ctx context.Context, which string, yield func(Checkpoint) error, args ...any) error {
	rows, err := db.conn.Query(ctx, "SELECT size, at, origin, key, root, note FROM checkpoints "+which, args...)
	if err != nil {
		return db.explain("reading checkpoints", err)
	}
	defer rows.Close()
	for rows.Next() {
		var c Checkpoint
		var root string
		if err := rows.Scan(&c.Size, &c.At, &c.Origin, &c.Key, &root, &c.Note); err != nil {
			return db.explain("reading checkpoints", err)
		}
		// Not checked here: the note is what counts, and who verifies compares them.
		if b, err := hex.DecodeString(root); err == nil && len(b) == tlog.HashSize {
			c.Root = tlog.Hash(b)
		}
		if err := yield(c); err != nil {
			return err
		}
	}
	return db.explain("reading checkpoints", rows.Err())
}
