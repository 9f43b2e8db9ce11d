package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/ledger/verify"
)

// Verified is the ledger as it is read to be verified. It implements verify.Source.
type Verified struct{ *DB }

// StoredColumns is how many columns of a row are compared with its body.
func (s *Verified) StoredColumns() int { return len(s.columns) }

// Extent implements verify.Source.
func (s *Verified) Extent(ctx context.Context) (verify.Extent, error) {
	var e verify.Extent
	// The largest first: what lands between the questions only adds rows.
	err := s.conn.QueryRow(ctx, "SELECT if(count() = 0, 0, max(idx) + 1) FROM records").Scan(&e.End)
	if err == nil {
		err = s.conn.QueryRow(ctx, "SELECT count() FROM records").Scan(&e.Rows)
	}
	if err == nil {
		// Tiles 0 to n - 1 are there when the n-th smallest number is n - 1.
		err = s.conn.QueryRow(ctx, `SELECT countIf(tile = place) FROM
			(SELECT tile, toUInt64(row_number() OVER (ORDER BY tile)) - 1 AS place FROM (SELECT DISTINCT tile FROM tiles WHERE level = 0))`).Scan(&e.Tiles)
	}
	return e, s.explain("reading how far the ledger goes", err)
}

// Checkpoints implements verify.Source.
func (s *Verified) Checkpoints(ctx context.Context) ([]verify.Published, error) {
	signatures, err := s.CheckpointSignatures(ctx, 0, ^uint64(0))
	if err != nil {
		return nil, err
	}
	lines := map[uint64][]string{}
	for _, x := range signatures {
		if x.Kind == WitnessSignature {
			lines[x.Size] = append(lines[x.Size], x.Signature)
		}
	}
	var out []verify.Published
	err = s.DB.Checkpoints(ctx, 0, ^uint64(0), func(c Checkpoint) error {
		out = append(out, verify.Published{Source: verify.FromTable, Note: c.Note, At: c.At, Cosignatures: lines[c.Size],
			Row: &verify.CheckpointRow{Size: c.Size, Origin: c.Origin, Key: c.Key, Root: c.Root}})
		return nil
	})
	return out, err
}

// Tile implements verify.Source.
func (s *Verified) Tile(ctx context.Context, level int, number uint64) ([]tlog.Hash, error) {
	rows, err := s.strings(ctx, "reading tiles", "SELECT hashes FROM tiles WHERE level = ? AND tile = ? LIMIT 1",
		uint8(level), number)
	if err != nil || len(rows) == 0 || len(rows[0]) != merkle.TileWidth*tlog.HashSize {
		return nil, err
	}
	return merkle.Split([]byte(rows[0])), nil
}

const verifiedColumns = "SELECT idx, stream_epoch, stream_seq, id, toUnixTimestamp64Nano(at), body FROM records "

func (s *Verified) each(ctx context.Context, yield func(verify.Record) error, which string, args ...any) error {
	rows, err := s.conn.Query(ctx, verifiedColumns+which, args...)
	if err != nil {
		return s.explain("reading records", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r verify.Record
		var at int64
		if err := rows.Scan(&r.Idx, &r.StreamEpoch, &r.StreamSeq, &r.ID, &at, &r.Body); err != nil {
			return s.explain("reading records", err)
		}
		r.At = time.Unix(0, at).UTC()
		if err := yield(r); err != nil {
			return err
		}
	}
	return s.explain("reading records", rows.Err())
}

func (s *Verified) all(ctx context.Context, which string, args ...any) ([]verify.Record, error) {
	var out []verify.Record
	err := s.each(ctx, func(r verify.Record) error {
		out = append(out, r)
		return nil
	}, which, args...)
	return out, err
}

// Records implements verify.Source.
func (s *Verified) Records(ctx context.Context, idx []uint64) ([]verify.Record, error) {
	if len(idx) == 0 {
		return nil, nil
	}
	in := make([]string, len(idx))
	for i, n := range idx {
		in[i] = fmt.Sprint(n)
	}
	return s.all(ctx, "WHERE idx IN ("+strings.Join(in, ",")+") ORDER BY idx LIMIT 1000")
}

// Beyond implements verify.Source.
func (s *Verified) Beyond(ctx context.Context, from uint64, limit int) ([]verify.Record, error) {
	return s.all(ctx, "WHERE idx >= ? ORDER BY idx LIMIT ?", from, limit)
}

// Actions implements verify.Source.
func (s *Verified) Actions(ctx context.Context, action string) ([]verify.Record, error) {
	return s.all(ctx, "WHERE kind = ? AND action = ? ORDER BY idx", string(record.OperatorAction), action)
}

// BySequence implements verify.Source.
func (s *Verified) BySequence(ctx context.Context, epoch int64, first, last uint64,
	yield func(verify.Record) error) error {
	return s.each(ctx, yield, "WHERE stream_epoch = ? AND stream_seq >= ? AND stream_seq <= ? ORDER BY stream_seq, idx",
		epoch, first, last)
}

// Misplaced implements verify.Source.
func (s *Verified) Misplaced(ctx context.Context, epoch int64, first uint64, limit int) ([]verify.Record, error) {
	return s.all(ctx, `WHERE idx > (SELECT if(count() = 0, 18446744073709551615, min(idx)) FROM records WHERE stream_epoch = ? AND stream_seq >= ?)
		AND (stream_epoch != ? OR stream_seq < ?) ORDER BY idx LIMIT ?`, epoch, first, epoch, first, limit)
}

// Known implements verify.Source.
func (s *Verified) Known(ctx context.Context, ids []string) (map[string]uint64, error) {
	out := map[string]uint64{}
	rows, err := s.conn.Query(ctx, "SELECT id, min(idx) FROM records WHERE id IN (?) GROUP BY id", ids)
	if err != nil {
		return nil, s.explain("looking up ids", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var idx uint64
		if err := rows.Scan(&id, &idx); err != nil {
			return nil, s.explain("looking up ids", err)
		}
		out[id] = idx
	}
	return out, s.explain("looking up ids", rows.Err())
}
