package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/ch-go/proto"
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
//
// A token is spent for ever, also if somebody deleted the rows that it brought
// in. Then, and only then, the next one is used: after ClickHouse said that it
// dropped this very insert for its token, and the ledger ends before it. Every
// sender goes through the same tokens in the same order, and leaves one behind
// only once it is spent and its rows are gone: an insert under it that is still
// on its way, of a dead session or of a second sink, is dropped as well. So
// still no two inserts that begin at one index are there together.
func (db *DB) Append(ctx context.Context, rows []Row) error {
	if len(rows) == 0 {
		return nil
	}
	first := rows[0].Idx
	return throughTokens(fmt.Sprintf("records-%d", first), func(token string) (bool, error) {
		return db.appendUnder(ctx, rows, token)
	}, func() (bool, error) {
		at, err := db.Last(ctx)
		return at.Next == first, err
	})
}

// maxTokens bounds how often the rows behind one index may be deleted within
// the table's deduplication window, and how often rows land that a row policy
// hides from the sink.
const maxTokens = 8

// throughTokens inserts under the token, and under the next one only if the
// server dropped the insert for its token and what came under it is gone. It
// gives up silently: what landed is read back anyway.
func throughTokens(token string, insert func(token string) (dropped bool, err error), gone func() (bool, error)) error {
	next := token
	for try := 1; try <= maxTokens; try++ {
		dropped, err := insert(next)
		if err != nil || !dropped {
			return err
		}
		if gone, err := gone(); err != nil || !gone {
			return err
		}
		next = fmt.Sprintf("%s-%d", token, try)
	}
	return nil
}

// noteDropped makes the server say whether it drops an insert for its token.
func noteDropped(dropped *bool) clickhouse.QueryOption {
	return clickhouse.WithProfileEvents(func(events []clickhouse.ProfileEvent) {
		for _, e := range events {
			*dropped = *dropped || e.Name == "DuplicatedInsertedBlocks" && e.Value > 0
		}
	})
}

// appendUnder inserts under a token. dropped: the server said that the token is
// spent.
func (db *DB) appendUnder(ctx context.Context, rows []Row, token string) (dropped bool, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"insert_deduplicate":          1,
		"insert_deduplication_token":  token,
		"async_insert":                0,
		"min_insert_block_size_rows":  0, // one block as sent, one part
		"min_insert_block_size_bytes": 0,
	}), noteDropped(&dropped))
	b, err := db.conn.PrepareBatch(ctx, db.insert)
	if err != nil {
		return false, db.explainAppend(rows, err)
	}
	for i, c := range db.columns {
		if err := c.append(b.Column(i), rows); err != nil {
			return false, errors.Join(fmt.Errorf("column %s: %w", c.name, err), b.Abort())
		}
	}
	err = db.explainAppend(rows, b.Send())
	return dropped, err
}

func (db *DB) explainAppend(rows []Row, err error) error {
	err = db.explain(fmt.Sprintf("inserting records %d to %d", rows[0].Idx, rows[len(rows)-1].Idx), err)
	switch codeOf(err) {
	case proto.ErrMemoryLimitExceeded, proto.ErrTooManyBytes, proto.ErrTooManyRows, proto.ErrTooManyRowsOrBytes:
		return fmt.Errorf("%w: %w", ErrOverlong, err)
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
