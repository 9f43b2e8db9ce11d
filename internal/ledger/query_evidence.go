package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// MaxEvidence bounds the records of one event that are read at once.
const MaxEvidence = 50_000

// ErrTooMuch says that an event has more than MaxEvidence records.
var ErrTooMuch = errors.New("too many records at once")

// Found are the rows that one query found, and the query itself, for whoever
// wants to ask it again.
type Found struct {
	Query string
	Rows  []Body
}

// EventBodies finds the records that name an event: all, or with an endpoint
// those of its delivery and of the event itself. An empty tenant matches any.
func (db *DB) EventBodies(ctx context.Context, tenant, eventID, endpointID string) (Found, error) {
	where := "event_id = " + quote(eventID)
	if tenant != "" {
		where += " AND tenant = " + quote(tenant)
	}
	if endpointID != "" {
		where += " AND endpoint_id IN ('', " + quote(endpointID) + ")"
	}
	return db.find(ctx, "reading an event's records", where)
}

// revisionsAtOnce bounds one query: ClickHouse reads 256 KiB of it, and one
// revision takes some 75 bytes.
const revisionsAtOnce = 1000

// RevisionBodies finds endpoints' settings at the revisions that are named: of an
// event for many endpoints in several queries, each of which can be asked again.
func (db *DB) RevisionBodies(ctx context.Context, revisions map[string][]uint64) ([]Found, error) {
	type revision struct {
		endpoint string
		number   uint64
	}
	var all []revision
	for _, id := range slices.Sorted(maps.Keys(revisions)) {
		for _, n := range slices.Sorted(slices.Values(revisions[id])) {
			all = append(all, revision{id, n})
		}
	}
	var out []Found
	for some := range slices.Chunk(all, revisionsAtOnce) {
		var ids, pairs []string
		for _, r := range some {
			ids = append(ids, quote(r.endpoint))
			pairs = append(pairs, fmt.Sprintf("(%s, %d)", quote(r.endpoint), r.number))
		}
		f, err := db.find(ctx, "reading endpoints' revisions",
			fmt.Sprintf("kind = %s AND endpoint_id IN (%s) AND (endpoint_id, endpoint_revision) IN (%s)",
				quote(string(record.EndpointChanged)), strings.Join(slices.Compact(ids), ", "), strings.Join(pairs, ", ")))
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// RuleBodies finds every change of what a tenant has set for event types.
func (db *DB) RuleBodies(ctx context.Context, tenant string) (Found, error) {
	return db.find(ctx, "reading changes of event types",
		fmt.Sprintf("kind = %s AND tenant = %s", quote(string(record.EventTypeChanged)), quote(tenant)))
}

// PolicyBodies finds every change of escalation policies and channels.
func (db *DB) PolicyBodies(ctx context.Context, policies, channels []string) (Found, error) {
	var ids []string
	starts := func(bucket string, names []string) {
		for _, name := range names {
			ids = append(ids, "startsWith(id, "+quote(record.RevisionPrefix(bucket, name))+")")
		}
	}
	starts(streams.EscalationPoliciesBucket, policies)
	starts(streams.ChannelsBucket, channels)
	if len(ids) == 0 {
		return Found{}, nil
	}
	return db.find(ctx, "reading changes of escalation policies",
		fmt.Sprintf("kind = %s AND (%s)", quote(string(record.OperatorAction)),
			strings.Join(slices.Sorted(slices.Values(ids)), " OR ")))
}

// find runs the query as it will be quoted, without arguments besides.
func (db *DB) find(ctx context.Context, doing, where string) (Found, error) {
	f := Found{Query: "SELECT idx, stream_epoch, stream_seq, body FROM records WHERE " + where + " ORDER BY idx"}
	rows, err := db.conn.Query(ctx, fmt.Sprintf("%s LIMIT %d", f.Query, MaxEvidence+1))
	if err != nil {
		return f, db.explain(doing, err)
	}
	defer rows.Close()
	for rows.Next() {
		var b Body
		if err := rows.Scan(&b.Idx, &b.StreamEpoch, &b.StreamSeq, &b.Body); err != nil {
			return f, db.explain(doing, err)
		}
		f.Rows = append(f.Rows, b)
	}
	if len(f.Rows) > MaxEvidence {
		return f, fmt.Errorf("%s: %w: more than %d", doing, ErrTooMuch, MaxEvidence)
	}
	return f, db.explain(doing, rows.Err())
}

// FirstSigned returns the smallest size of a checkpoint of at least size
// records that another has signed too; 0 if there is none.
func (db *DB) FirstSigned(ctx context.Context, size uint64) (uint64, error) {
	var first uint64
	err := db.conn.QueryRow(ctx, "SELECT min(size) FROM checkpoint_signatures WHERE size >= ?", size).Scan(&first)
	return first, db.explain("reading signatures", err)
}

// quote writes a string literal of ClickHouse.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
