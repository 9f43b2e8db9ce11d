package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// AuditAttempts answers the first question from audit_attempts: by endpoint and
// number. more are the rows beyond limit.
func (db *DB) AuditAttempts(ctx context.Context, f audit.Filter, limit int) (rows []audit.Attempt, more uint64,
	err error) {
	from, args, err := scopedView("audit_attempts", window{}.scope(f, true))
	if err != nil {
		return nil, 0, err
	}
	c := asked(f, "at", window{f.From, f.To})
	const order = "tenant, endpoint_id, attempt, idx"
	// The view's second half is about missing numbers. Where the first half shows
	// none, it need not be asked, which saves three quarters of the time.
	if known, _, ok := strings.Cut(from, "\nUNION ALL\n"); ok && f.EventID != "" && f.From.IsZero() && f.To.IsZero() {
		rows, more, err = listed[audit.Attempt](ctx, db, "reading attempts", known+")", args[:len(args)/2], c, order, limit)
		if err != nil || more == 0 && !audit.Holes(rows) {
			return rows, more, err
		}
	}
	return listed[audit.Attempt](ctx, db, "reading attempts", from, args, c, order, limit)
}

// asked are a question's conditions on the rows of a view.
func asked(f audit.Filter, time string, w window) conditions {
	var c conditions
	c.equal("event_id", f.EventID)
	c.equal("tenant", f.Tenant)
	c.equal("endpoint_id", f.EndpointID)
	c.between(time, w.from, w.to)
	return c
}

// listed reads at most limit rows, and counts the others if there are any.
func listed[T any](ctx context.Context, db *DB, doing, from string, fromArgs []any, c conditions, order string,
	limit int) (rows []T, more uint64, err error) {
	args := append(append([]any{}, fromArgs...), c.args...)
	if limit > 0 {
		query := fmt.Sprintf("SELECT * FROM %s WHERE %s ORDER BY %s LIMIT %d", from, c.String(), order, limit+1)
		if err := db.selectInto(ctx, doing, &rows, query, args...); err != nil || len(rows) <= limit {
			return rows, 0, err
		}
		rows = rows[:limit]
	}
	var n uint64
	err = db.conn.QueryRow(ctx, "SELECT count() FROM "+from+" WHERE "+c.String(), args...).Scan(&n)
	return rows, n - uint64(len(rows)), db.explain(doing, err)
}

// overWindows asks a view window by window: the totals of each, and rows as long
// as fewer than limit were found.
func overWindows[R, S any](ctx context.Context, db *DB, q windowed, add func(S)) (rows []R, more uint64, err error) {
	ctx = sweep(ctx, q.filter)
	windows, err := db.windows(ctx, q.filter)
	if err != nil {
		return nil, 0, err
	}
	for _, w := range windows {
		from, args, err := scopedView(q.view, w.scope(q.filter, true))
		if err != nil {
			return nil, 0, err
		}
		c := asked(q.filter, q.time, w)
		var sums []S
		if err := db.selectInto(ctx, "summing "+q.view, &sums, "SELECT "+q.totals+" FROM "+from+" WHERE "+c.String(),
			append(append([]any{}, args...), c.args...)...); err != nil {
			return nil, 0, err
		}
		for _, s := range sums {
			add(s)
		}
		if q.only != "" {
			c.add(q.only)
		}
		found, rest, err := listed[R](ctx, db, "reading "+q.view, from, args, c, q.order, q.limit-len(rows))
		if err != nil {
			return nil, 0, err
		}
		rows, more = append(rows, found...), more+rest
	}
	return rows, more, nil
}

// windowed is a question over a view whose rows must be grouped by event.
type windowed struct {
	view   string
	filter audit.Filter
	time   string // the column that the period bounds
	totals string
	only   string // of the rows that are listed
	order  string
	limit  int
}

const repetitionTotals = `count() AS deliveries, sum(requests) AS requests, countIf(may_have_arrived > 1) AS repeated, sum(after_success) AS after_success,
	sum(after_success_by_replay) AS after_success_by_replay, sum(after_success_unexplained) AS unexplained, countIf(NOT with_msg_id) AS without_msg_id,
	countIf(published > 1) AS stored_twice, countIf(data_digests > 1) AS other_data, countIf(conformance_at IS NOT NULL) AS checked`

// AuditDuplicates answers the second question from audit_duplicates. Without an
// event, and unless all is asked for, only deliveries are listed that may have
// reached their receiver more than once, or of which something is not as it should be.
func (db *DB) AuditDuplicates(ctx context.Context, f audit.Filter, all bool, limit int) (rows []audit.Repetition,
	more uint64, totals audit.RepetitionTotals, err error) {
	q := windowed{view: "audit_duplicates", filter: f, time: "first_at", totals: repetitionTotals,
		order: "first_at, event_id, endpoint_id", limit: limit}
	if f.EventID == "" && !all {
		q.only = "(may_have_arrived > 1 OR after_success > 0 OR data_digests > 1)"
	}
	rows, more, err = overWindows[audit.Repetition](ctx, db, q, totals.Add)
	return rows, more, totals, err
}

const signedTotals = `count() AS attempts, countIf(state = 'signed') AS signed, countIf(state = 'unknown') AS unknown, countIf(state = 'not_sent') AS not_sent,
	countIf(digests_of_number > 1 OR data_digests > 1) AS disagree, countIf(data_digests = 0) AS no_data,
	arraySort(groupUniqArrayIf(100)(signature_scheme, signature_scheme != '')) AS schemes, arraySort(groupUniqArrayArray(1000)(key_ids)) AS keys`

// AuditIntegrity answers the fourth question from audit_integrity.
func (db *DB) AuditIntegrity(ctx context.Context, f audit.Filter, limit int) (rows []audit.Signed, more uint64,
	totals audit.SignedTotals, err error) {
	q := windowed{view: "audit_integrity", filter: f, time: "at", totals: signedTotals,
		order: "at, event_id, endpoint_id, attempt, idx", limit: limit}
	rows, more, err = overWindows[audit.Signed](ctx, db, q, totals.Add)
	return rows, more, totals, err
}

// AuditFailures answers the third question from audit_failures.
func (db *DB) AuditFailures(ctx context.Context, f audit.Filter, limit int) (rows []audit.Failure, more uint64,
	totals []audit.FailureTotals, err error) {
	var dead, in conditions
	in.add("kind = 'delivery.dead_lettered'")
	in.equal("tenant", f.Tenant)
	in.equal("endpoint_id", f.EndpointID)
	in.equal("event_id", f.EventID)
	in.between("at", f.From, f.To)
	dead.add("event_id IN (SELECT event_id FROM records WHERE "+in.String()+")", in.args...)
	from, args, err := scopedView("audit_failures", dead)
	if err != nil {
		return nil, 0, nil, err
	}
	c := asked(f, "failed_at", window{f.From, f.To})
	if rows, more, err = listed[audit.Failure](ctx, db, "reading failures", from, args, c, "failed_at, idx",
		limit); err != nil {
		return nil, 0, nil, err
	}
	err = db.selectInto(ctx, "counting failures", &totals, `SELECT what, reason, count() AS count, countIf(escalated_at IS NOT NULL) AS told, countIf(within_5_minutes) AS within, countIf(promise = 'broken') AS broken,
		countIf(escalated_in_time) AS in_time, countIf(acknowledged_by != '') AS acked, countIf(resolution IN ('open', 'replayed')) AS open
		FROM `+from+" WHERE "+c.String()+" GROUP BY what, reason ORDER BY count DESC, what, reason",
		append(append([]any{}, args...), c.args...)...)
	return rows, more, totals, err
}

// AuditAttemptGaps lists the attempts of a period whose outcome is unknown or
// whose number is not on record.
func (db *DB) AuditAttemptGaps(ctx context.Context, f audit.Filter, limit int) (rows []audit.Attempt, more uint64,
	err error) {
	q := windowed{view: "audit_attempts", filter: f, time: "at", totals: "count() AS n",
		order: "at, event_id, endpoint_id, attempt", limit: limit,
		only: "state IN ('unknown', 'missing')"}
	type counted struct {
		N uint64 `ch:"n"`
	}
	return overWindows[audit.Attempt](ctx, db, q, func(counted) {})
}
