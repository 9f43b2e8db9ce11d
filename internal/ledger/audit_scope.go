package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// windowRecords is about how many records one step of an audit looks at, so that
// a question about years needs no more memory than one about a day.
const windowRecords = 400_000

// window is a stretch of time; zero ends do not bound.
type window struct{ from, to time.Time }

// windows cut the period of a question into stretches of about windowRecords. A
// question about one event is one window, whenever it was.
func (db *DB) windows(ctx context.Context, f audit.Filter) ([]window, error) {
	if f.EventID != "" {
		return []window{{f.From, f.To}}, nil
	}
	var c conditions
	c.between("at", f.From, f.To)
	var hours []struct {
		Hour    time.Time `ch:"hour"`
		Records uint64    `ch:"records"`
	}
	if err := db.selectInto(ctx, "measuring the period", &hours,
		"SELECT toStartOfHour(at) AS hour, count() AS records FROM records WHERE "+c.String()+" GROUP BY hour ORDER BY hour",
		c.args...); err != nil {
		return nil, err
	}
	var out []window
	held := uint64(0)
	for _, h := range hours {
		parts := int(h.Records/uint64(db.windowRecords)) + 1
		step := time.Hour / time.Duration(parts)
		for i := range parts {
			from, to := h.Hour.Add(time.Duration(i)*step), h.Hour.Add(time.Duration(i+1)*step)
			if i == parts-1 {
				to = h.Hour.Add(time.Hour)
			}
			if n := len(out); n > 0 && parts == 1 && held+h.Records <= uint64(db.windowRecords) {
				out[n-1].to, held = to, held+h.Records
				continue
			}
			out, held = append(out, window{from, to}), h.Records/uint64(parts)
		}
	}
	for i := range out { // a period may begin and end within an hour
		if !f.From.IsZero() && out[i].from.Before(f.From) {
			out[i].from = f.From
		}
		if !f.To.IsZero() && out[i].to.After(f.To) {
			out[i].to = f.To
		}
	}
	return out, nil
}

// scope is the condition on records that finds whatever belongs to the events
// that the question is about: those with a record in the window.
func (w window) scope(f audit.Filter, endpoint bool) conditions {
	var c conditions
	c.equal("tenant", f.Tenant)
	if f.EventID != "" {
		c.add("event_id = ?", f.EventID)
		return c
	}
	var in conditions
	in.add("event_id != ''")
	in.equal("tenant", f.Tenant)
	if endpoint {
		in.equal("endpoint_id", f.EndpointID)
	}
	in.between("at", w.from, w.to)
	c.add("event_id IN (SELECT event_id FROM records WHERE "+in.String()+")", in.args...)
	return c
}

// scopedView is the definition of a view over the records that scope leaves,
// with the arguments that it needs.
func scopedView(name string, scope conditions) (string, []any, error) {
	definition, err := viewDefinition(name)
	if err != nil {
		return "", nil, err
	}
	if strings.Contains(definition, "FROM dead_letters\n") {
		inner, err := viewDefinition("dead_letters")
		if err != nil {
			return "", nil, err
		}
		definition = strings.Replace(definition, "FROM dead_letters\n", "FROM ("+inner+")\n", 1)
	}
	n := strings.Count(definition, scopeMarker)
	if n == 0 {
		return "", nil, fmt.Errorf("view %s has no place for a scope", name)
	}
	var args []any
	for range n {
		args = append(args, scope.args...)
	}
	return "(" + strings.ReplaceAll(definition, scopeMarker, "AND "+scope.String()) + ")", args, nil
}

// sweep prepares a query over many events: which blocks hold one of thousands of
// events is not worth asking of the bloom filter, and grouping may use the disk.
func sweep(ctx context.Context, f audit.Filter) context.Context {
	settings := clickhouse.Settings{"max_bytes_before_external_group_by": 2 << 30}
	if f.EventID == "" {
		settings["ignore_data_skipping_indices"] = "by_event"
	}
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings))
}

// Known says what of a filter's names the ledger has no record of; "" means that
// it has records of all of them, and of the event and the endpoint as the tenant's.
func (db *DB) Known(ctx context.Context, f audit.Filter) (unknown string, err error) {
	for _, q := range []struct{ what, column, value, tenant string }{
		{"event", "event_id", f.EventID, ""}, {"tenant", "tenant", f.Tenant, ""},
		{"endpoint", "endpoint_id", f.EndpointID, ""},
		{"event", "event_id", f.EventID, f.Tenant}, {"endpoint", "endpoint_id", f.EndpointID, f.Tenant},
	} {
		if q.value == "" {
			continue
		}
		var c conditions
		c.equal(q.column, q.value)
		c.equal("tenant", q.tenant)
		var n uint64
		err := db.conn.QueryRow(ctx, "SELECT count() FROM (SELECT 1 FROM records WHERE "+c.String()+" LIMIT 1)",
			c.args...).Scan(&n)
		if err != nil {
			return "", db.explain("looking for a "+q.what, err)
		}
		switch {
		case n > 0:
		case q.tenant != "":
			return q.what + " " + q.value + " of tenant " + q.tenant, nil
		default:
			return q.what + " " + q.value, nil
		}
	}
	return "", nil
}
