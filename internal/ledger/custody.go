package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// Action is one such record.
type Action struct {
	Idx      uint64            `ch:"idx"`
	At       time.Time         `ch:"at"`
	Action   string            `ch:"action"`
	Actor    string            `ch:"actor"`
	Reason   string            `ch:"reason"`
	Settings map[string]string `ch:"settings"`
}

// Actions returns all of them, in the ledger's order.
func (db *DB) Actions(ctx context.Context) ([]Action, error) {
	var out []Action
	err := db.selectInto(ctx, "reading holds and retirements", &out, `SELECT idx, at, action, actor, reason, settings FROM records
		WHERE kind = 'operator.action' AND action IN (?, ?, ?, ?) ORDER BY idx`, record.ActionHoldAdded,
		record.ActionHoldReleased, record.ActionRetired, record.ActionKept)
	return out, err
}

// Retired is a retirement, and who put it on record.
type Retired struct {
	Action
	record.Retirement
}

// RetiredOf are the retirements that nobody took back.
func RetiredOf(actions []Action) ([]Retired, error) {
	kept := map[string]bool{}
	for _, a := range actions {
		if a.Action == record.ActionKept {
			kept[record.TakenBack(a.Settings)] = true
		}
	}
	var out []Retired
	for _, a := range actions {
		if a.Action != record.ActionRetired || kept[record.TakenBack(a.Settings)] {
			continue
		}
		r, err := record.ReadRetirement(a.Settings)
		if err != nil {
			return nil, fmt.Errorf("record %d: %w", a.Idx, err)
		}
		out = append(out, Retired{a, r})
	}
	return out, nil
}

// Retired reads the retirements that nobody took back.
func (db *DB) Retired(ctx context.Context) ([]Retired, error) {
	actions, err := db.Actions(ctx)
	if err != nil {
		return nil, err
	}
	return RetiredOf(actions)
}

// RetiredText says for people what is gone: "": nothing. A question about an
// event whose records went with a month finds nothing, or only its later ones.
func (db *DB) RetiredText(ctx context.Context) (string, error) {
	all, err := db.Retired(ctx)
	if err != nil || len(all) == 0 {
		return "", err
	}
	var months, who []string
	last := all[0].At
	for _, r := range all {
		months = append(months, fmt.Sprintf("%04d-%02d", r.Month/100, r.Month%100))
		who = append(who, r.Actor)
		if r.At.After(last) {
			last = r.At
		}
	}
	slices.Sort(months)
	months, who = slices.Compact(months), slices.Compact(who)
	when := strings.Join(months, " and ")
	if n := len(months); n > 2 {
		when = fmt.Sprintf("%d months from %s to %s", n, months[0], months[n-1])
	}
	slices.Sort(who)
	return fmt.Sprintf("%s retired by %s on %s, because the retention was over: only hashes are left",
		text.Count(record.RangesCount(rangesOf(all)), "record of "+when+" was", "records of "+when+" were"),
		strings.Join(slices.Compact(who), " and "), last.UTC().Format(time.DateOnly)), nil
}

// rangesOf are the indices of all of them, without an overlap.
func rangesOf(all []Retired) []record.IdxRange {
	var out []record.IdxRange
	for _, r := range all {
		out = append(out, r.Ranges...)
	}
	return union(out)
}

// retiredRows is how many records are gone that may be: in ranges on record as
// retired. One that is on record and still there, because the drop was
// interrupted, is not counted.
func (db *DB) retiredRows(ctx context.Context) (uint64, error) {
	retired, err := db.Retired(ctx)
	if err != nil {
		return 0, err
	}
	gone := uint64(0)
	for _, r := range rangesOf(retired) {
		n, err := db.count(ctx, "idx BETWEEN ? AND ?", r.First, r.Last)
		if err != nil {
			return 0, err
		}
		gone += r.Last - r.First + 1 - n
	}
	return gone, nil
}

// union merges ranges that overlap or follow each other, without a hole between: a month can be on
// record as retired twice,
// when the first time was interrupted.
func union(ranges []record.IdxRange) []record.IdxRange {
	sorted := slices.SortedFunc(slices.Values(ranges),
		func(a, b record.IdxRange) int { return cmp.Compare(a.First, b.First) })
	var out []record.IdxRange
	for _, r := range sorted {
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (db *DB) count(ctx context.Context, where string, args ...any) (n uint64, err error) {
	return n, db.explain("counting records", db.conn.QueryRow(ctx, "SELECT count() FROM records WHERE "+where,
		args...).Scan(&n))
}

// Month is a month of records, as a number such as 201501.
type Month struct {
	Month uint32 `ch:"month"`
	Rows  uint64 `ch:"n"`
	Last  uint64 `ch:"last"` // its highest index
}

// Months lists those that hold records.
func (db *DB) Months(ctx context.Context) ([]Month, error) {
	var out []Month
	err := db.selectInto(ctx, "listing months", &out, "SELECT toYYYYMM(at) AS month, count() AS n, max(idx) AS last "+
		"FROM records GROUP BY month ORDER BY month")
	return out, err
}

// MonthRanges are the indices of a month's records.
func (db *DB) MonthRanges(ctx context.Context, month uint32) ([]record.IdxRange, error) {
	var out []record.IdxRange
	err := db.selectInto(ctx, "reading a month's indices", &out, `SELECT min(idx) AS first, max(idx) AS last FROM
		(SELECT idx, idx - row_number() OVER (ORDER BY idx) AS island FROM records WHERE toYYYYMM(at) = ?) GROUP BY island ORDER BY first`, month)
	return out, err
}

// Scope is what a legal hold covers. Fields that are set narrow it together.
type Scope struct {
	EventID, SubjectType, SubjectID, Tenant, EndpointID string
	From, To                                            time.Time
}

// Touches says whether a month has a record in the scope. What an event's
// subject is stands on one of its records only, so a subject is its events.
func (db *DB) Touches(ctx context.Context, month uint32, s Scope) (bool, error) {
	c := conditions{}
	c.add("toYYYYMM(at) = ?", month)
	c.equal("event_id", s.EventID)
	c.equal("tenant", s.Tenant)
	c.equal("endpoint_id", s.EndpointID)
	c.between("at", s.From, s.To)
	if s.SubjectID != "" {
		sub := conditions{}
		sub.equal("subject_id", s.SubjectID)
		sub.equal("subject_type", s.SubjectType)
		c.add("event_id IN (SELECT event_id FROM records WHERE "+sub.String()+")", sub.args...)
	}
	n, err := db.count(ctx, c.String(), c.args...)
	return n > 0, err
}

// Covered says whether a checkpoint covers record idx, and whether the hashes up
// to it are stored as full tiles: without them what is dropped could not be
// proven to have been there.
func (db *DB) Covered(ctx context.Context, idx uint64) (checkpoint, tiles bool, err error) {
	var size, full uint64
	err = db.explain("reading checkpoints", db.conn.QueryRow(ctx, "SELECT max(size) FROM checkpoints").Scan(&size))
	if err == nil {
		err = db.explain("reading tiles", db.conn.QueryRow(ctx, "SELECT uniqExact(tile) FROM tiles WHERE level = 0 AND "+
			"tile <= ? AND length(hashes) = 8192", idx/256).Scan(&full))
	}
	return size > idx, full == idx/256+1, err
}

// InForce is an endpoint or event type whose settings, as a month has them on
// record, were in force at a time or later; "": none.
func (db *DB) InForce(ctx context.Context, month uint32, since time.Time) (string, error) {
	names, err := db.strings(ctx, "looking for settings in force", `SELECT concat(kind, ' ', name) FROM
		(SELECT kind, at, action, if(kind = 'endpoint.changed', endpoint_id, concat(tenant, '/', arrayStringConcat(event_types, ','))) AS name,
			leadInFrame(toNullable(at)) OVER (PARTITION BY kind, tenant, name ORDER BY idx ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS until
		FROM records WHERE kind IN ('endpoint.changed', 'event_type.changed'))
		WHERE toYYYYMM(at) = ? AND action != 'deleted' AND (until IS NULL OR until >= fromUnixTimestamp64Nano(?, 'UTC')) LIMIT 1`, month, since.UnixNano())
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[0], nil
}

// IdxOf is the index of the record with that id, at or behind from.
func (db *DB) IdxOf(ctx context.Context, from uint64, id string) (idx uint64, found bool, err error) {
	rows, err := db.conn.Query(ctx, "SELECT idx FROM records WHERE idx >= ? AND id = ?", from, id)
	if err != nil {
		return 0, false, db.explain("looking for a record", err)
	}
	defer rows.Close()
	for rows.Next() {
		found = true
		if err := rows.Scan(&idx); err != nil {
			return 0, false, db.explain("looking for a record", err)
		}
	}
	return idx, found, db.explain("looking for a record", rows.Err())
}

// DropMonth drops the parts of a month, each only if every record in it is in
// ranges: not the partition, into which a record may have come since they were
// read. A part's name stands for what is in it: one that was merged meanwhile is
// not found, and the next look sees what it became.
func (db *DB) DropMonth(ctx context.Context, month uint32, ranges []record.IdxRange) error {
	inside := make([]string, 0, len(ranges))
	for _, r := range ranges {
		inside = append(inside, fmt.Sprintf("idx BETWEEN %d AND %d", r.First, r.Last))
	}
	if len(inside) == 0 {
		return nil
	}
	const looks = 10 // merges of a month that is years old soon end
	for range looks {
		parts, err := db.strings(ctx, "reading a month's parts", "SELECT _part FROM records WHERE toYYYYMM(at) = ? GROUP "+
			"BY _part HAVING countIf(NOT ("+strings.Join(inside, " OR ")+")) = 0", month)
		if err != nil || len(parts) == 0 {
			return err
		}
		for _, p := range parts {
			if err := db.exec(ctx, "dropping part "+p, "ALTER TABLE records DROP PART '"+p+"'"); err != nil &&
				!strings.Contains(err.Error(), "NO_SUCH_DATA_PART") && !strings.Contains(err.Error(), "No part ") {
				return err
			}
		}
	}
	return fmt.Errorf("month %d: its parts keep changing; run this again", month)
}

// MonthOf is the month in which record idx is stored; it may be retired.
func (db *DB) MonthOf(ctx context.Context, idx uint64) (month uint32, found bool, err error) {
	var months []struct {
		Month uint32 `ch:"month"`
	}
	err = db.selectInto(ctx, "looking up a record's month", &months,
		"SELECT toYYYYMM(at) AS month FROM records WHERE idx = ?", idx)
	if err != nil || len(months) == 0 {
		return 0, false, err
	}
	return months[0].Month, true, nil
}

// RowsIn is how many records are there of those in ranges.
func (db *DB) RowsIn(ctx context.Context, ranges []record.IdxRange) (rows uint64, err error) {
	for _, r := range union(ranges) {
		n, err := db.count(ctx, "idx BETWEEN ? AND ?", r.First, r.Last)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}
