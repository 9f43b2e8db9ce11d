package ledger

import (
	"context"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// dayCounts are the columns of audit_controls that are counts.
const dayCounts = `records, events_accepted, events_unmatched, events_rejected, owed, attempts, delivered, attempts_unknown, dead_lettered, cancelled,
	people_told, people_not_told, acknowledged, replays_requested, changes, conformance_checks, escalation_tests, alarms_raised, alarms_cleared,
	not_told_in_time, watchdog_handed_over, ledger_gaps, checkpoints`

// AuditDays answers the fifth question from audit_controls, one row for each UTC
// day that the period touches. What belongs to the whole deployment (checkpoints,
// alarms, channels, gaps) is counted whatever the tenant or endpoint.
func (db *DB) AuditDays(ctx context.Context, f audit.Filter) ([]audit.Day, error) {
	var c, whole conditions
	c.equal("tenant", f.Tenant)
	c.equal("endpoint_id", f.EndpointID)
	whole.add("(tenant IN ('', 'all', 'waybill') OR checkpoints > 0 OR ledger_gaps > 0)")
	terms := "(" + c.String() + ") OR " + whole.String()
	var sums []string
	for name := range strings.SplitSeq(dayCounts, ",") {
		name = strings.TrimSpace(name)
		sums = append(sums, "sum(b."+name+") AS "+name)
	}
	var days conditions
	if !f.From.IsZero() {
		days.add("day >= toDate(?)", f.From.UTC().Format(time.DateOnly))
	}
	if !f.To.IsZero() {
		days.add("day <= toDate(?)", f.To.Add(-time.Nanosecond).UTC().Format(time.DateOnly))
	}
	var out []audit.Day
	return out, db.selectInto(ctx, "reading the controls", &out,
		"SELECT toString(b.day) AS day_, "+strings.Join(sums, ", ")+
			" FROM (SELECT * FROM audit_controls WHERE "+days.String()+" AND ("+terms+")) AS b GROUP BY b.day ORDER BY day_",
		append(append([]any{}, days.args...), c.args...)...)
}

// AuditChanges lists changes of the configuration, from audit_changes. Changes
// of the whole deployment are listed whatever the tenant.
func (db *DB) AuditChanges(ctx context.Context, f audit.Filter, limit int) (rows []audit.Change, more uint64,
	err error) {
	var c conditions
	if f.Tenant != "" {
		c.add("(tenant IN (?, '', 'all') OR match(action, '^(hold|ledger)[.]'))", f.Tenant)
	}
	if f.EndpointID != "" {
		c.add("endpoint_id IN (?, '')", f.EndpointID)
	}
	c.between("at", f.From, f.To)
	return listed[audit.Change](ctx, db, "reading changes", "audit_changes", nil, c, "at, idx", limit)
}

// AuditReplays lists replays that were asked for in the period.
func (db *DB) AuditReplays(ctx context.Context, f audit.Filter, limit int) (rows []audit.Replay, more uint64,
	err error) {
	c := asked(f, "requested_at", window{f.From, f.To})
	var in conditions
	in.add("kind = 'replay.requested'")
	in.between("at", f.From, f.To)
	c.add("replay_id IN (SELECT replay_id FROM records WHERE "+in.String()+")", in.args...)
	return listed[audit.Replay](ctx, db, "reading replays", "(SELECT * EXCEPT (detail, owed_at) FROM replays)", nil, c,
		"requested_at, replay_id, endpoint_id", limit)
}

// AuditEvents counts the period's events. An endpoint does not narrow: an event
// that matched nobody belongs to none.
func (db *DB) AuditEvents(ctx context.Context, f audit.Filter) (audit.Events, error) {
	var c conditions
	c.add("kind IN ('event.accepted', 'event.unmatched', 'event.rejected')")
	c.equal("event_id", f.EventID)
	c.equal("tenant", f.Tenant)
	c.between("at", f.From, f.To)
	var out []audit.Events
	err := db.selectInto(ctx, "counting events", &out, `SELECT countIf(kind = 'event.accepted') AS accepted, countIf(kind = 'event.unmatched') AS unmatched,
		countIf(kind = 'event.rejected') AS rejected FROM records WHERE `+c.String(), c.args...)
	if err != nil {
		return audit.Events{}, err
	}
	return out[0], nil
}

// AuditCheckpoints says which checkpoints were signed in the period, and which
// one covers all of its records.
func (db *DB) AuditCheckpoints(ctx context.Context, f audit.Filter) (audit.Checkpoints, error) {
	var out audit.Checkpoints
	var c conditions
	c.between("at", f.From, f.To)
	var n uint64
	if err := db.conn.QueryRow(ctx, "SELECT count(), max(idx) FROM records WHERE "+c.String(), c.args...).Scan(&n,
		&out.LastIdx); err != nil {
		return out, db.explain("reading the period's last record", err)
	}
	out.Records = n > 0
	if err := db.conn.QueryRow(ctx, `SELECT count(), countIf(size IN (SELECT size FROM checkpoint_signatures)) FROM checkpoints WHERE `+c.String(), c.args...).
		Scan(&out.Count, &out.Witnessed); err != nil {
		return out, db.explain("counting checkpoints", err)
	}
	one := func(into **audit.Checkpoint, where, order string, args ...any) error {
		var rows []audit.Checkpoint
		err := db.selectInto(ctx, "reading checkpoints", &rows,
			"SELECT size, at, origin, key, root FROM checkpoints WHERE "+where+" ORDER BY "+order+" LIMIT 1", args...)
		if len(rows) > 0 {
			*into = &rows[0]
		}
		return err
	}
	if err := one(&out.First, c.String(), "size, at", c.args...); err != nil {
		return out, err
	}
	if err := one(&out.Last, c.String(), "size DESC, at DESC", c.args...); err != nil || !out.Records {
		return out, err
	}
	return out, one(&out.Covering, "size > ?", "size, at", out.LastIdx)
}
