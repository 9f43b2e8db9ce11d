package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/record"
)

// Event is a row of the view events.
type Event struct {
	EventID, Tenant, EventType, State string
	EventAt, StoredAt, DeliverBy      time.Time // zero: none
	EventSeq                          uint64
	SubjectType, SubjectID            string
	DataDigest                        string
	DataBytes, Endpoints              int64
	Reason, Detail                    string
}

// Event reads the latest that is on record of an event; false when nothing is.
func (db *DB) Event(ctx context.Context, id string) (e Event, ok bool, err error) {
	const query = `SELECT event_id, tenant, event_type, state, event_at, stored_at, deliver_by, event_seq,
		subject_type, subject_id, data_digest, data_bytes, endpoints, reason, detail
		FROM events WHERE event_id = ? ORDER BY idx DESC LIMIT 1`
	rows, err := db.conn.Query(ctx, query, id)
	if err != nil {
		return e, false, db.explain("reading an event", err)
	}
	defer rows.Close()
	if rows.Next() {
		var at, stored, by *time.Time
		if err := rows.Scan(&e.EventID, &e.Tenant, &e.EventType, &e.State, &at, &stored, &by, &e.EventSeq,
			&e.SubjectType, &e.SubjectID, &e.DataDigest, &e.DataBytes, &e.Endpoints, &e.Reason, &e.Detail); err != nil {
			return e, false, db.explain("reading an event", err)
		}
		e.EventAt, e.StoredAt, e.DeliverBy = orZero(at), orZero(stored), orZero(by)
		ok = true
	}
	return e, ok, db.explain("reading an event", rows.Err())
}

// Delivery is a row of the view deliveries, with the replay that it is about.
type Delivery struct {
	EventID, EndpointID, Tenant, EventType, State string
	AttemptCount                                  uint64
	ReplayID                                      string // of what came to be owed last; empty: the first obligation
	OwedAt, DeliverBy, NextAttemptAt              time.Time
	SucceededAt, DeadLetteredAt, CancelledAt      time.Time
	Reason, PayloadDigest                         string
	order                                         time.Time
}

// DeliveryQuery narrows Deliveries. Zero fields do not.
type DeliveryQuery struct {
	Tenant, EventID, EndpointID, EventType, State string
	Since, Until                                  time.Time // owed at or after; before
	After                                         Place     // of the last row of the page before
	Limit                                         int       // required
}

// Place is a delivery's place in the order of Deliveries.
type Place struct {
	OwedAt              time.Time
	EventID, EndpointID string
}

// Place of d.
func (d Delivery) Place() Place { return Place{d.order, d.EventID, d.EndpointID} }

// where builds the condition. Event, endpoint and tenant are the view's keys,
// so that ClickHouse reads only their records.
func (q DeliveryQuery) where() (string, []any) {
	var conditions []string
	var args []any
	add := func(condition string, values ...any) {
		conditions = append(conditions, condition)
		args = append(args, values...)
	}
	for _, c := range [][2]string{{"tenant", q.Tenant}, {"event_id", q.EventID}, {"endpoint_id", q.EndpointID},
		{"event_type", q.EventType}, {"state", q.State}} {
		if c[1] != "" {
			add(c[0]+" = ?", c[1])
		}
	}
	if !q.Since.IsZero() {
		add("place >= fromUnixTimestamp64Nano(?)", q.Since.UnixNano())
	}
	if !q.Until.IsZero() {
		add("place < fromUnixTimestamp64Nano(?)", q.Until.UnixNano())
	}
	if q.After != (Place{}) {
		add("(place, event_id, endpoint_id) < (fromUnixTimestamp64Nano(?), ?, ?)", q.After.OwedAt.UnixNano(), q.After.EventID, q.After.EndpointID)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// Deliveries reads at most q.Limit deliveries, those owed last first.
func (db *DB) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	where, args := q.where()
	query := `SELECT event_id, endpoint_id, tenant, event_type, state, toUInt64(attempt_count), owed_at, deliver_by, next_attempt_at,
		succeeded_at, dead_lettered_at, cancelled_at, reason, payload_digest,
		coalesce(owed_at, last_attempt_at, toDateTime64(0, 9, 'UTC')) AS place
		FROM deliveries` + where + fmt.Sprintf(" ORDER BY place DESC, event_id DESC, endpoint_id DESC LIMIT %d", q.Limit)
	rows, err := db.conn.Query(ctx, query, args...)
	if err != nil {
		return nil, db.explain("listing deliveries", err)
	}
	defer rows.Close()
	out := []Delivery{}
	for rows.Next() {
		var d Delivery
		var owed, by, next, ok, dead, cancelled *time.Time
		if err := rows.Scan(&d.EventID, &d.EndpointID, &d.Tenant, &d.EventType, &d.State, &d.AttemptCount, &owed, &by, &next,
			&ok, &dead, &cancelled, &d.Reason, &d.PayloadDigest, &d.order); err != nil {
			return nil, db.explain("listing deliveries", err)
		}
		d.OwedAt, d.DeliverBy, d.NextAttemptAt = orZero(owed), orZero(by), orZero(next)
		d.SucceededAt, d.DeadLetteredAt, d.CancelledAt = orZero(ok), orZero(dead), orZero(cancelled)
		out = append(out, d)
	}
	if err := rows.Err(); err != nil {
		return nil, db.explain("listing deliveries", err)
	}
	return out, db.addReplays(ctx, out)
}

// addReplays says of which replay each delivery's last obligation is.
func (db *DB) addReplays(ctx context.Context, list []Delivery) error {
	if len(list) == 0 {
		return nil
	}
	at := map[[2]string]int{}
	events := make([]string, 0, len(list))
	for i, d := range list {
		at[[2]string{d.EventID, d.EndpointID}] = i
		events = append(events, d.EventID)
	}
	rows, err := db.conn.Query(ctx, `SELECT event_id, endpoint_id, argMax(replay_id, idx) FROM records
		WHERE kind = 'delivery.owed' AND event_id IN (?) GROUP BY event_id, endpoint_id`, events)
	if err != nil {
		return db.explain("reading replays", err)
	}
	defer rows.Close()
	for rows.Next() {
		var event, endpoint, replay string
		if err := rows.Scan(&event, &endpoint, &replay); err != nil {
			return db.explain("reading replays", err)
		}
		if i, ok := at[[2]string{event, endpoint}]; ok {
			list[i].ReplayID = replay
		}
	}
	return db.explain("reading replays", rows.Err())
}

// Attempts reads a delivery's records of kind attempt, in order.
func (db *DB) Attempts(ctx context.Context, eventID, endpointID string) ([]record.Record, error) {
	bodies, err := db.strings(ctx, "reading attempts",
		"SELECT body FROM records WHERE kind = 'attempt' AND event_id = ? AND endpoint_id = ? ORDER BY attempt, idx", eventID, endpointID)
	if err != nil {
		return nil, err
	}
	out := make([]record.Record, len(bodies))
	for i, b := range bodies {
		if out[i], err = record.Decode([]byte(b)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
