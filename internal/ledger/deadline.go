package ledger

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// longestToldOf is the longest time to a deadline that the server is told of. The
// driver makes max_execution_time of a deadline, with five seconds on top; an
// analyst's may be 60 at most, and a query that asks for more is refused.
const longestToldOf = 50 * time.Second

// withoutDeadline is a connection that tells the server of no far deadline. A query
// ends at its deadline all the same: this side cancels it.
type withoutDeadline struct{ driver.Conn }

func (c withoutDeadline) Select(ctx context.Context, dest any, query string, args ...any) error {
	return c.Conn.Select(withoutFarDeadline(ctx), dest, query, args...)
}

func (c withoutDeadline) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	return c.Conn.Query(withoutFarDeadline(ctx), query, args...)
}

func (c withoutDeadline) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	return c.Conn.QueryRow(withoutFarDeadline(ctx), query, args...)
}

func (c withoutDeadline) PrepareBatch(ctx context.Context, query string,
	opts ...driver.PrepareBatchOption) (driver.Batch, error) {
	return c.Conn.PrepareBatch(withoutFarDeadline(ctx), query, opts...)
}

func (c withoutDeadline) Exec(ctx context.Context, query string, args ...any) error {
	return c.Conn.Exec(withoutFarDeadline(ctx), query, args...)
}

// hiddenDeadline is a context that ends at its deadline and does not say when.
type hiddenDeadline struct{ context.Context }

func (hiddenDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func withoutFarDeadline(ctx context.Context) context.Context {
	if at, ok := ctx.Deadline(); ok && time.Until(at) > longestToldOf {
		return hiddenDeadline{ctx}
	}
	return ctx
}
