package ledger

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// farOff is when a deadline is left to this side alone. The driver makes
// max_execution_time of a deadline, with five seconds on top; an analyst's may
// be 60 at most, and a query that asks for more is refused.
const farOff = 50 * time.Second

// patient is a connection whose queries are refused for no deadline. What is
// cancelled ends all the same.
type patient struct{ driver.Conn }

func (p patient) Select(ctx context.Context, dest any, query string, args ...any) error {
	return p.Conn.Select(withoutFarDeadline(ctx), dest, query, args...)
}

func (p patient) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	return p.Conn.Query(withoutFarDeadline(ctx), query, args...)
}

func (p patient) QueryRow(ctx context.Context, query string, args ...any) driver.Row {
	return p.Conn.QueryRow(withoutFarDeadline(ctx), query, args...)
}

func (p patient) PrepareBatch(ctx context.Context, query string, opts ...driver.PrepareBatchOption) (driver.Batch,
	error) {
	return p.Conn.PrepareBatch(withoutFarDeadline(ctx), query, opts...)
}

func (p patient) Exec(ctx context.Context, query string, args ...any) error {
	return p.Conn.Exec(withoutFarDeadline(ctx), query, args...)
}

// unhurried tells of no deadline, and ends at it.
type unhurried struct{ context.Context }

func (unhurried) Deadline() (time.Time, bool) { return time.Time{}, false }

func withoutFarDeadline(ctx context.Context) context.Context {
	if at, ok := ctx.Deadline(); ok && time.Until(at) > farOff {
		return unhurried{ctx}
	}
	return ctx
}
