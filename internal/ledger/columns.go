package ledger

import (
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// KindInvalid is the kind of a row whose body is no record: something published
// to LEDGER that this version cannot read. It is kept as it came.
const KindInvalid record.Kind = "invalid"

// Row is one record at its place in the ledger.
type Row struct {
	Idx         uint64
	StreamSeq   uint64
	StreamEpoch int64
	// Body are the exact bytes; Record is what they say. Of an invalid body
	// Record holds what the row needs all the same: ID, Kind, At and Tenant.
	Body   []byte
	Record record.Record
}

// DateTime64(9) counts nanoseconds in 64 bits. A producer's date outside of
// that is stored as the nearest that fits; body keeps what was said.
var (
	earliest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)
)

func clampTime(t time.Time) time.Time {
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t.UTC()
}

// column is one stored column: how its values are taken from rows, for an insert
// and to be compared with what the database has.
type column struct {
	name   string
	append func(c driver.BatchColumn, rows []Row) error
	reader func() columnReader
}

// stored are the columns that an insert fills. Every other column of records
// is an ALIAS that ClickHouse derives from body.
func stored() []column {
	return []column{
		of("idx", func(r *Row) uint64 { return r.Idx }),
		of("stream_seq", func(r *Row) uint64 { return r.StreamSeq }),
		of("stream_epoch", func(r *Row) int64 { return r.StreamEpoch }),
		of("body", func(r *Row) []byte { return r.Body }),

		of("id", func(r *Row) string { return r.Record.ID }),
		of("kind", func(r *Row) string { return string(r.Record.Kind) }),
		of("at", func(r *Row) time.Time { return clampTime(r.Record.At) }),
		of("tenant", func(r *Row) string { return r.Record.Tenant }),
		of("event_id", func(r *Row) string { return r.Record.EventID }),
		of("endpoint_id", func(r *Row) string { return r.Record.EndpointID }),

		of("event_type", func(r *Row) string { return r.Record.EventType }),
		ofTime("event_at", func(r *Row) time.Time { return r.Record.EventAt }),
		of("event_seq", func(r *Row) uint64 { return r.Record.EventSeq }),
		ofTime("stored_at", func(r *Row) time.Time { return r.Record.StoredAt }),
		of("subject_type", func(r *Row) string { return r.Record.SubjectType }),
		of("subject_id", func(r *Row) string { return r.Record.SubjectID }),
		ofTime("deliver_by", func(r *Row) time.Time { return r.Record.DeliverBy }),
		of("endpoints", func(r *Row) int64 { return int64(r.Record.Endpoints) }),
		of("reason", func(r *Row) string { return r.Record.Reason }),

		of("attempt", func(r *Row) int64 { return int64(r.Record.Attempt) }),
		of("replay_id", func(r *Row) string { return r.Record.ReplayID }),
		ofTime("started_at", func(r *Row) time.Time { return r.Record.StartedAt }),
		of("duration_us", func(r *Row) int64 { return r.Record.DurationUS }),
		of("status", func(r *Row) int64 { return int64(r.Record.Status) }),
		of("outcome", func(r *Row) string { return r.Record.Outcome }),
		of("class", func(r *Row) string { return r.Record.Class }),
		of("decision", func(r *Row) string { return r.Record.Decision }),
		ofTime("next_attempt_at", func(r *Row) time.Time { return r.Record.NextAttemptAt }),
		of("url", func(r *Row) string { return r.Record.URL }),
		of("payload_digest", func(r *Row) string { return r.Record.PayloadDigest }),
		of("attempts", func(r *Row) int64 { return int64(r.Record.Attempts) }),
		of("actor", func(r *Row) string { return r.Record.Actor }),
		of("action", func(r *Row) string { return r.Record.Action }),
		of("endpoint_revision", func(r *Row) uint64 { return r.Record.EndpointRevision }),
	}
}

func of[T any](name string, value func(*Row) T) column {
	return column{name, func(c driver.BatchColumn, rows []Row) error {
		values := make([]T, len(rows))
		for i := range rows {
			values[i] = value(&rows[i])
		}
		return c.Append(values)
	}, func() columnReader { return readerOf(value) }}
}

func readerOf(value any) columnReader {
	switch value := value.(type) {
	case func(*Row) uint64:
		return newNumbers(value)
	case func(*Row) int64:
		return newNumbers(value)
	case func(*Row) string:
		return newTexts(func(r *Row) []byte { return []byte(value(r)) })
	case func(*Row) []byte:
		return newTexts(value)
	case func(*Row) time.Time:
		return newInstants(value, false)
	}
	panic("a column of a type that nobody can read")
}

// ofTime is a column of times that may be absent: NULL.
func ofTime(name string, value func(*Row) time.Time) column {
	return column{name, func(c driver.BatchColumn, rows []Row) error {
		values, pointers := make([]time.Time, len(rows)), make([]*time.Time, len(rows))
		for i := range rows {
			if t := value(&rows[i]); !t.IsZero() {
				values[i] = clampTime(t)
				pointers[i] = &values[i]
			}
		}
		return c.Append(pointers)
	}, func() columnReader { return newInstants(value, true) }}
}

// insertStatement names the columns, so that a column that is added later does
// not disturb a program that does not know it yet.
func insertStatement(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return fmt.Sprintf("INSERT INTO records (%s)", strings.Join(names, ", "))
}
