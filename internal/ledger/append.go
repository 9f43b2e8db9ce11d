package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// ErrOverlong says that the server will not take an insert of this size: send less at once.
var ErrOverlong = errors.New("too much for one insert")

// Append inserts rows in one atomic insert. rows MUST have consecutive Idx and
// lie in one month (see SameMonth): an insert that spans two partitions is two
// commits, and a crash between them would leave a hole.
//
// The insert's token follows from the first Idx, so of all inserts that begin
// there only one can land, whoever sends them and however often. Therefore
// neither nil nor an error says which rows are there now: read it back.
func (db *DB) Append(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplicate":          1,
		"insert_deduplication_token":  fmt.Sprintf("records-%d", rows[0].Idx),
		"async_insert":                0,
		"min_insert_block_size_rows":  0, // one block as sent, one part
		"min_insert_block_size_bytes": 0,
	}))
	b, err := db.conn.PrepareBatch(ctx, db.insert)
	if err != nil {
		return db.explainAppend(rows, err)
	}
	for i, c := range db.columns {
		if err := c.append(b.Column(i), rows); err != nil {
			return errors.Join(fmt.Errorf("column %s: %w", c.name, err), b.Abort())
		}
	}
	return db.explainAppend(rows, b.Send())
}

func (db *DB) explainAppend(rows []Row, err error) error {
	err = db.explain(fmt.Sprintf("inserting records %d to %d", rows[0].Idx, rows[len(rows)-1].Idx), err)
	var e *clickhouse.Exception
	if errors.As(err, &e) {
		switch e.Code {
		case 241, 307, 158, 396: // memory limit, too many bytes, too many rows
			return fmt.Errorf("%w: %w", ErrOverlong, err)
		}
	}
	return err
}

// SameMonth says how many of rows, from the first, lie in the first one's
// partition.
func SameMonth(rows []Row) int {
	for i := range rows {
		if y, m, _ := clampTime(rows[i].Record.At).Date(); i > 0 {
			if y0, m0, _ := clampTime(rows[0].Record.At).Date(); y != y0 || m != m0 {
				return i
			}
		}
	}
	return len(rows)
}
