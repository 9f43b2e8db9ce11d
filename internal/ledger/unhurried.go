package ledger

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// unhurried keeps a deadline from the driver, which would make it the question's
// max_execution_time, and ClickHouse refuses a question that asks for more than
// its user may have. When the deadline has passed the question is cancelled all
// the same; until then, what the user may have is the server's business.
type unhurried struct{ context.Context }

func (unhurried) Deadline() (time.Time, bool) { return time.Time{}, false }

// unhurriedConn asks everything so.
type unhurriedConn struct{ driver.Conn }

func (c unhurriedConn) Select(ctx context.Context, dest any, query string, args ...any) error {
	return c.Conn.Select(unhurried{ctx}, dest, query, args...)
}

func (c unhurriedConn) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	return c.Conn.Query(unhurried{ctx}, query, args...)
}

func (c unhurriedConn) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	return c.Conn.QueryRow(unhurried{ctx}, query, args...)
}
