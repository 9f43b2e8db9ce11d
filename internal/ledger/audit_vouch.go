package ledger

import (
	"context"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// AuditEventRecords implements outside.Records, window by window of the period.
func (db *DB) AuditEventRecords(ctx context.Context, f audit.Filter, before uint64,
	yield func([]audit.EventRecord) error) error {
	windows, err := db.windows(ctx, f)
	if err != nil {
		return err
	}
	for _, w := range windows {
		var c conditions
		c.add("kind IN ('event.accepted', 'event.unmatched', 'event.rejected')")
		c.add("idx < ?", before)
		c.equal("event_id", f.EventID)
		c.equal("tenant", f.Tenant)
		c.between("at", w.from, w.to)
		var rows []audit.EventRecord
		err := db.selectInto(ctx, "reading the records of events", &rows, `SELECT idx, id, kind, at, tenant, event_id, event_seq,
			ifNull(stored_at, toDateTime64(0, 9, 'UTC')) AS stored, data_digest AS digest, stream_epoch AS epoch FROM records WHERE `+c.String()+" ORDER BY event_seq, idx", c.args...)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue
		}
		if err := yield(rows); err != nil {
			return err
		}
	}
	return nil
}

// AuditAttemptRecords implements outside.Records.
func (db *DB) AuditAttemptRecords(ctx context.Context, f audit.Filter, before uint64,
	yield func(audit.AttemptRecord) error) error {
	var c conditions
	c.add("kind = 'attempt'")
	c.add("idx < ?", before)
	c.equal("event_id", f.EventID)
	c.equal("tenant", f.Tenant)
	c.equal("endpoint_id", f.EndpointID)
	c.between("at", f.From, f.To)
	rows, err := db.conn.Query(ctx, `SELECT idx, id, at, tenant, event_id, endpoint_id, attempt, outcome, ifNull(started_at, at) AS started, stream_epoch AS epoch
		FROM records WHERE `+c.String(), c.args...)
	if err != nil {
		return db.explain("reading attempts", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r audit.AttemptRecord
		if err := rows.ScanStruct(&r); err != nil {
			return db.explain("reading attempts", err)
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return db.explain("reading attempts", rows.Err())
}
