package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// balanceColumns sum audit_completeness. The buckets are those of audit.Bucket.
const balanceColumns = `toString(toDate(accepted_at, 'UTC')) AS day_, tenant, endpoint_id, countIf(NOT begun_retired AND NOT unsettled_) AS accepted,
	countIf(state = 'delivered' AND NOT begun_retired AND NOT unsettled_) AS delivered,
	countIf(state = 'dead_lettered' AND NOT begun_retired AND NOT unsettled_) AS dead_lettered,
	countIf(state = 'cancelled' AND NOT begun_retired AND NOT unsettled_) AS cancelled, countIf(state = 'pending' AND NOT begun_retired AND NOT unsettled_) AS pending,
	countIf(state = 'not_owed' AND NOT begun_retired AND NOT unsettled_) AS not_owed, countIf(unsettled_ AND NOT begun_retired) AS unsettled, countIf(begun_retired) AS begun_retired_, sum(attempt_count) AS attempts, sum(attempts_unknown) AS attempts_unknown,
	countIf(deliver_by IS NOT NULL) AS with_deadline, countIf(ifNull(succeeded_at <= deliver_by, false)) AS within_deadline, countIf(notEmpty(mismatches) AND NOT unsettled_) AS mismatched,
	sumMapIf([toInt32(floor(log2(greatest(ifNull(latency_us, 1), 1)) * 64))], [toUInt64(1)], latency_us IS NOT NULL) AS histogram,
	histogram.1 AS buckets, histogram.2 AS counts`

// AuditBalances says what became of the deliveries of events that were accepted
// in the period, by day, tenant and endpoint, and names at most limit mismatches.
func (db *DB) AuditBalances(ctx context.Context, f audit.Filter, limit int) (rows []audit.Balance,
	mismatches []audit.Mismatch, more uint64, err error) {
	ctx = sweep(ctx, f)
	windows, err := db.windows(ctx, f)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, w := range windows {
		// An endpoint does not narrow what is read: event.accepted names none.
		from, args, err := scopedView("audit_completeness", w.scope(f, false))
		if err != nil {
			return nil, nil, 0, err
		}
		c := asked(f, "accepted_at", w)
		args = append(args, c.args...)
		var sums []audit.Balance
		if err := db.selectInto(ctx, "balancing", &sums, "SELECT * EXCEPT histogram FROM (SELECT "+balanceColumns+
			" FROM (SELECT *, "+unsettled(f)+" AS unsettled_ FROM "+from+") WHERE "+c.String()+
			" GROUP BY day_, tenant, endpoint_id ORDER BY day_, tenant, endpoint_id)", args...); err != nil {
			return nil, nil, 0, err
		}
		rows = append(rows, sums...)
		if !slices.ContainsFunc(sums, func(b audit.Balance) bool { return b.Mismatched > 0 }) {
			continue
		}
		c.add("NOT " + unsettled(f))
		found, rest, err := db.mismatches(ctx, from, args, c, limit-len(mismatches))
		if err != nil {
			return nil, nil, 0, err
		}
		mismatches, more = append(mismatches, found...), more+rest
	}
	same := func(b audit.Balance) audit.Balance { return b }
	return audit.Fold(rows, same), mismatches, more, nil
}

// unsettled is a condition on a row of audit_completeness: what does not match
// may still be on its way. A time that has not come yet excuses nothing.
func unsettled(f audit.Filter) string {
	if f.Settled.IsZero() {
		return "false"
	}
	return fmt.Sprintf(`(ifNull(accepted_at > fromUnixTimestamp64Nano(%d, 'UTC') AND accepted_at < now64(9, 'UTC') + INTERVAL 1 MINUTE, false)
		AND notEmpty(mismatches) AND arrayAll(m -> m.1 IN ('%s'), mismatches))`, f.Settled.UnixNano(),
		strings.Join(audit.OnTheWay(), "', '"))
}

// AuditSettled is up to when the ledger can be asked by whoever sees nothing but
// ClickHouse: a grace before the newest of its last records.
func (db *DB) AuditSettled(ctx context.Context) (time.Time, error) {
	var newest time.Time
	err := db.conn.QueryRow(ctx, `SELECT ifNull(max(at), toDateTime64(0, 9, 'UTC')) FROM (SELECT at FROM records ORDER BY idx DESC LIMIT 1000)
		WHERE at < now64(9, 'UTC') + INTERVAL 1 MINUTE`).Scan(&newest)
	return newest.Add(-audit.SettleGrace).UTC(), db.explain("reading the newest records", err)
}

type mismatchRow struct {
	Tenant     string    `ch:"tenant"`
	EventID    string    `ch:"event_id"`
	EndpointID string    `ch:"endpoint_id"`
	AcceptedAt time.Time `ch:"accepted_at"`
	What       string    `ch:"what"`
	Detail     string    `ch:"detail"`
}

func (db *DB) mismatches(ctx context.Context, from string, args []any, c conditions, limit int) (out []audit.Mismatch,
	more uint64, err error) {
	all := fmt.Sprintf("(SELECT tenant, event_id, endpoint_id, assumeNotNull(accepted_at) AS accepted_at, "+
		"arrayJoin(mismatches) AS m, m.1 AS what, m.2 AS detail FROM %s WHERE %s)", from, c.String())
	var rows []mismatchRow
	if limit > 0 {
		query := fmt.Sprintf("SELECT * EXCEPT m FROM %s ORDER BY accepted_at, event_id, endpoint_id, what, detail LIMIT %d",
			all, limit+1)
		if err := db.selectInto(ctx, "naming mismatches", &rows, query, args...); err != nil {
			return nil, 0, err
		}
	}
	if limit <= 0 || len(rows) > limit {
		rows = rows[:max(min(limit, len(rows)), 0)]
		if err := db.conn.QueryRow(ctx, "SELECT count() FROM "+all, args...).Scan(&more); err != nil {
			return nil, 0, db.explain("counting mismatches", err)
		}
		more -= uint64(len(rows))
	}
	for _, r := range rows {
		out = append(out, audit.Mismatch{Tenant: r.Tenant, EventID: r.EventID, EndpointID: r.EndpointID,
			At: r.AcceptedAt.UTC(), What: r.What, Detail: r.Detail})
	}
	return out, more, nil
}

// AuditGaps names the gaps in LEDGER that the sink put on record in the period.
func (db *DB) AuditGaps(ctx context.Context, f audit.Filter) ([]audit.Mismatch, error) {
	var c conditions
	c.add("kind = 'ledger.gap'")
	c.between("at", f.From, f.To)
	var rows []struct {
		At   time.Time `ch:"at"`
		Idx  uint64    `ch:"idx"`
		From uint64    `ch:"gap_from"`
		To   uint64    `ch:"gap_to"`
	}
	if err := db.selectInto(ctx, "reading gaps", &rows, fmt.Sprintf("SELECT at, idx, gap_from, gap_to FROM records "+
		"WHERE %s ORDER BY idx LIMIT %d", c.String(), MaxLimit), c.args...); err != nil {
		return nil, err
	}
	var out []audit.Mismatch
	for _, r := range rows {
		out = append(out, audit.Mismatch{At: r.At.UTC(), What: audit.LedgerGap,
			Detail: fmt.Sprintf("LEDGER lost messages %d to %d before they reached ClickHouse (record at index %d)", r.From,
				r.To, r.Idx)})
	}
	return out, nil
}

// indexBlock is how many indices one step of AuditIndices counts.
const indexBlock = 1 << 16

// AuditIndices names the indices, of the whole ledger, that no row has or that
// several have. What was retired, and is on record as such, is not missing.
func (db *DB) AuditIndices(ctx context.Context) ([]audit.Mismatch, error) {
	var blocks []struct {
		Block uint64 `ch:"block"`
		Count uint64 `ch:"n"`
		Low   uint64 `ch:"low"`
		High  uint64 `ch:"high"`
		Sum   uint64 `ch:"total"`
		Twice uint64 `ch:"twice"`
	}
	// A block is whole when it counts as many rows as its span, none of them twice.
	err := db.selectInto(ctx, "counting indices", &blocks, fmt.Sprintf(`SELECT block, count() AS n, min(idx) AS low, max(idx) AS high, sum(idx) AS total, toUInt64(n - uniqExact(idx)) AS twice
		FROM (SELECT idx, intDiv(idx, %d) AS block FROM records) GROUP BY block ORDER BY block`, indexBlock))
	if err != nil {
		return nil, err
	}
	all, err := db.Retired(ctx)
	if err != nil {
		return nil, err
	}
	retired := rangesOf(all)
	var out []audit.Mismatch
	next := uint64(0)
	for _, b := range blocks {
		out = append(out, missingIndices(next, b.Low, retired)...)
		next = b.High + 1
		if b.Count == b.High-b.Low+1 && b.Twice == 0 {
			continue
		}
		found, err := db.indicesOf(ctx, b.Block, retired)
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > MaxLimit {
			break
		}
	}
	return out, nil
}

// indicesOf looks at one block that is not whole.
func (db *DB) indicesOf(ctx context.Context, block uint64, retired []record.IdxRange) ([]audit.Mismatch, error) {
	var rows []struct {
		Idx   uint64 `ch:"idx"`
		Count uint64 `ch:"n"`
	}
	err := db.selectInto(ctx, "counting indices", &rows,
		"SELECT idx, count() AS n FROM records WHERE idx >= ? AND idx < ? GROUP BY idx ORDER BY idx",
		block*indexBlock, (block+1)*indexBlock)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var out []audit.Mismatch
	next := rows[0].Idx
	for _, r := range rows {
		out = append(out, missingIndices(next, r.Idx, retired)...)
		next = r.Idx + 1
		if r.Count > 1 {
			out = append(out, audit.Mismatch{What: audit.IndexTwice,
				Detail: fmt.Sprintf("%d rows have index %d", r.Count, r.Idx)})
		}
	}
	return out, nil
}

// missingIndices names from to to-1, but for what was retired.
func missingIndices(from, to uint64, retired []record.IdxRange) (out []audit.Mismatch) {
	missing := func(first, end uint64) {
		detail := fmt.Sprintf("no row has the indices %d to %d", first, end-1)
		if first+1 == end {
			detail = fmt.Sprintf("no row has index %d", first)
		}
		if first < end {
			out = append(out, audit.Mismatch{What: audit.IndexMissing, Detail: detail})
		}
	}
	for _, r := range retired {
		if from >= to || r.First >= to {
			break
		}
		if r.Last < from {
			continue
		}
		missing(from, max(from, r.First))
		from = r.Last + 1
	}
	missing(from, to)
	return out
}

// AuditStored returns the rows that claim the sequences from to to of LEDGER, as
// it was made at epoch, in the order of their indices.
func (db *DB) AuditStored(ctx context.Context, epoch int64, from, to uint64) ([]audit.Stored, error) {
	var out []audit.Stored
	return out, db.selectInto(ctx, "reading what ClickHouse holds of LEDGER", &out, `SELECT idx, stream_seq, id, lower(hex(SHA256(body))) AS digest, tenant, event_id, endpoint_id, kind
		FROM records WHERE stream_epoch = ? AND stream_seq >= ? AND stream_seq <= ? ORDER BY idx`, epoch, from, to)
}

// AuditHolds says which of these record ids the ledger holds, whatever their place.
func (db *DB) AuditHolds(ctx context.Context, ids []string) (map[string]string, error) {
	out := map[string]string{}
	for chunk := range slices.Chunk(ids, 5000) {
		var rows []struct {
			ID     string `ch:"id"`
			Digest string `ch:"digest"`
		}
		if err := db.selectInto(ctx, "looking for records", &rows,
			"SELECT id, lower(hex(SHA256(body))) AS digest FROM records WHERE id IN (?)", chunk); err != nil {
			return nil, err
		}
		for _, r := range rows {
			out[r.ID] = r.Digest
		}
	}
	return out, nil
}
