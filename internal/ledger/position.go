package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Position is the last record that ClickHouse has.
type Position struct {
	// Next is the index that the next record gets: the number of records.
	Next uint64
	// The rest is the last record's, and zero when Next is 0.
	StreamSeq   uint64
	StreamEpoch int64
	ID          string
}

// ErrDamaged says that the indices in the ledger are not 0, 1, 2 … without a
// hole or a repetition.
var ErrDamaged = errors.New("the ledger is damaged")

// Position reads where the ledger ends. It is ErrDamaged if the ledger has more
// or fewer rows than its last index says.
func (db *DB) Position(ctx context.Context) (Position, error) {
	for {
		before, err := db.Last(ctx)
		if err != nil {
			return before, err
		}
		var count uint64
		if err := db.explain("counting the records",
			db.conn.QueryRow(ctx, "SELECT count() FROM records").Scan(&count)); err != nil {
			return before, err
		}
		after, err := db.Last(ctx)
		if err != nil {
			return after, err
		}
		if before != after {
			continue // an insert landed between the queries
		}
		if count != after.Next {
			retired, err := db.retiredRows(ctx)
			if err != nil {
				return after, err
			}
			count += retired
		}
		if count != after.Next {
			return after, fmt.Errorf("%w: database %q has %d rows, but the last index is %d; find what is wrong with: "+
				"waybill ledger verify",
				ErrDamaged, db.Database(), count, int64(after.Next)-1)
		}
		return after, nil
	}
}

// Last is Position without the check: cheap enough to read after every insert.
func (db *DB) Last(ctx context.Context) (Position, error) {
	var p Position
	rows, err := db.conn.Query(ctx, "SELECT idx + 1, stream_seq, stream_epoch, id FROM records ORDER BY idx DESC LIMIT 1")
	if err != nil {
		return p, db.explain("reading the position", err)
	}
	defer rows.Close()
	if rows.Next() {
		if err := rows.Scan(&p.Next, &p.StreamSeq, &p.StreamEpoch, &p.ID); err != nil {
			return p, db.explain("reading the position", err)
		}
	}
	return p, db.explain("reading the position", rows.Err())
}

// IDOfSeq returns the id of the last record that came from sequence seq of the
// stream made at epoch; "" if there is none.
func (db *DB) IDOfSeq(ctx context.Context, epoch int64, seq uint64) (string, error) {
	ids, err := db.strings(ctx, "looking up a sequence",
		"SELECT id FROM records WHERE stream_seq = ? AND stream_epoch = ? ORDER BY idx DESC LIMIT 1", seq, epoch)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

// Digest is the first half of an id's SHA-256.
type Digest [16]byte

// IDs calls yield with the digest of every id from index from on, in no order.
func (db *DB) IDs(ctx context.Context, from uint64, yield func(Digest)) error {
	rows, err := db.conn.Query(ctx, "SELECT toFixedString(substring(SHA256(id), 1, 16), 16) FROM records WHERE idx >= ?",
		from)
	if err != nil {
		return db.explain("reading the last ids", err)
	}
	defer rows.Close()
	var d string
	for rows.Next() {
		if err := rows.Scan(&d); err != nil {
			return db.explain("reading the last ids", err)
		}
		yield(Digest([]byte(d)))
	}
	return db.explain("reading the last ids", rows.Err())
}

// Turned says whether, from index from on, the stream's sequence ever fell
// back, or came from another making of the stream than epoch: then records may
// come again under other sequences.
func (db *DB) Turned(ctx context.Context, from uint64, epoch int64) (bool, error) {
	var turned bool
	row := db.conn.QueryRow(ctx, `SELECT countIf(stream_epoch != ? OR stream_seq <= before) > 0 FROM
		(SELECT stream_epoch, stream_seq, lagInFrame(stream_seq) OVER (ORDER BY idx) AS before FROM records WHERE idx >= ?)`,
		epoch, from)
	return turned, db.explain("reading the last sequences", row.Scan(&turned))
}

func (db *DB) strings(ctx context.Context, doing, query string, args ...any) ([]string, error) {
	rows, err := db.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, db.explain(doing, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, db.explain(doing, err)
		}
		out = append(out, s)
	}
	return out, db.explain(doing, rows.Err())
}
