package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"
)

// runs is how often each question is asked; the median is reported.
const runs = 20

// question is one that the ledger must answer.
type question struct {
	name string
	sql  func(c candidate, table string, about subject) string
}

func questions() []question {
	const lastHour = "at >= toDateTime64('2026-10-30 12:00:00', 9, 'UTC') AND at < toDateTime64('2026-10-30 13:00:00', " +
		"9, 'UTC')"
	const month = "at >= toDateTime64('2026-10-01 00:00:00', 9, 'UTC') AND at < toDateTime64('2026-11-01 00:00:00', 9, " +
		"'UTC')"
	return []question{
		{"a: one event's attempts", func(c candidate, table string, about subject) string {
			return fmt.Sprintf("SELECT idx, id, at, endpoint_id, attempt, status, class, duration_us, hex(payload_digest), "+
				"body FROM %s WHERE kind = 'attempt' AND %s ORDER BY idx", table, c.event(about))
		}},
		{"b: one endpoint's last hour", func(_ candidate, table string, about subject) string {
			return fmt.Sprintf("SELECT idx, id, at, event_id, attempt, status, class, duration_us FROM %s WHERE kind = "+
				"'attempt' AND endpoint_id = '%s' AND %s ORDER BY idx", table, about.endpoint, lastHour)
		}},
		{"c: dead letters by reason, a month", func(_ candidate, table string, _ subject) string {
			return fmt.Sprintf("SELECT reason, count() FROM %s WHERE kind = 'delivery.dead_lettered' AND %s GROUP BY reason "+
				"ORDER BY reason", table, month)
		}},
		{"d: attempts by day and outcome", func(_ candidate, table string, _ subject) string {
			return fmt.Sprintf("SELECT toDate(at) AS day, class, count() FROM %s WHERE kind = 'attempt' GROUP BY day, class "+
				"ORDER BY day, class", table)
		}},
		{"e: the sink's position", func(_ candidate, table string, _ subject) string {
			return fmt.Sprintf("SELECT idx, stream_seq FROM %s ORDER BY idx DESC LIMIT 1", table)
		}},
		{"f: a thousand records by index", func(_ candidate, table string, about subject) string {
			return fmt.Sprintf("SELECT idx, body FROM %s WHERE idx >= %[2]d AND idx < %[2]d + 1000 ORDER BY idx", table,
				about.idx)
		}},
	}
}

// result is what was measured of one candidate.
type result struct {
	candidate   candidate
	fill        time.Duration
	parts       uint64
	bytes       uint64
	rows        uint64
	insertRate  float64 // rows per second through the client
	answers     []answer
	biggestCols string
}

// answer is how a question went, medians over the runs. Time depends on what
// else the machine does; processor time and rows read hardly do.
type answer struct {
	took, cpu time.Duration
	rows      uint64
}

// measure fills the candidate from the source and asks the questions. Merges are
// held off meanwhile, so that they do not compete with what is measured.
func (b bench) measure(ctx context.Context, c candidate) (result, error) {
	r := result{candidate: c}
	table := "records_" + strings.ReplaceAll(c.name, "-", "_")
	if err := b.conn.Exec(ctx, strings.Replace(c.ddl(table), "CREATE TABLE", "CREATE TABLE IF NOT EXISTS",
		1)); err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	if !b.keep {
		defer func() { _ = b.conn.Exec(ctx, "DROP TABLE "+table+" SYNC") }()
	}
	if err := b.conn.Exec(ctx, "SYSTEM STOP MERGES "+table); err != nil {
		return r, fmt.Errorf("%s: %w", c.name, err)
	}
	began := time.Now()
	if err := b.fill(ctx, c, table); err != nil {
		return r, fmt.Errorf("%s: fill: %w", c.name, err)
	}
	r.fill = time.Since(began)
	err := b.conn.QueryRow(ctx, "SELECT count(), sum(bytes_on_disk), sum(rows) FROM system.parts WHERE active AND "+
		"database = currentDatabase() AND table = ?", table).
		Scan(&r.parts, &r.bytes, &r.rows)
	if err != nil {
		return r, fmt.Errorf("%s: size: %w", c.name, err)
	}
	err = b.conn.QueryRow(ctx, `SELECT arrayStringConcat(groupArray(concat(name, ' ', toString(round(bytes / ?, 1)))), ', ') FROM (
		SELECT name, data_compressed_bytes AS bytes FROM system.columns WHERE database = currentDatabase() AND table = ? ORDER BY bytes DESC LIMIT 8)`, float64(r.rows), table).
		Scan(&r.biggestCols)
	if err != nil {
		return r, fmt.Errorf("%s: columns: %w", c.name, err)
	}
	for _, q := range questions() {
		a, err := b.ask(ctx, c, q, table)
		if err != nil {
			return r, fmt.Errorf("%s: %s: %w", c.name, q.name, err)
		}
		r.answers = append(r.answers, a)
	}
	if r.insertRate, err = b.insertRate(ctx, c); err != nil {
		return r, fmt.Errorf("%s: insert: %w", c.name, err)
	}
	return r, nil
}

// fill copies the source, unless an earlier run in the same directory did.
func (b bench) fill(ctx context.Context, c candidate, table string) error {
	var have, want uint64
	if err := b.conn.QueryRow(ctx, "SELECT (SELECT count() FROM "+table+"), (SELECT count() FROM source)").Scan(&have,
		&want); err != nil {
		return err
	}
	if have == want {
		return nil
	}
	if err := b.conn.Exec(ctx, "TRUNCATE TABLE "+table); err != nil {
		return err
	}
	list := strings.Join(c.stored(), ", ")
	return b.conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM source ORDER BY idx SETTINGS max_threads = "+
		"2, max_insert_threads = 1", table, list, list))
}

// ask runs the question about another event, endpoint and place each time.
func (b bench) ask(ctx context.Context, c candidate, q question, table string) (a answer, err error) {
	var took []time.Duration
	n, mark := 0, uuid.NewString()
	marked := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"log_comment": mark}))
	for _, about := range b.subjects {
		sql := q.sql(c, table, about)
		began := time.Now()
		rows, err := b.conn.Query(marked, sql)
		if err != nil {
			return a, err
		}
		for rows.Next() {
			n++
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return a, err
		}
		took = append(took, time.Since(began))
	}
	if n == 0 { // an answer that found nothing measures nothing
		return a, errors.New("no rows in any run")
	}
	slices.Sort(took)
	a.took = took[len(took)/2]
	if err := b.conn.Exec(ctx, "SYSTEM FLUSH LOGS query_log"); err != nil {
		return a, err
	}
	var cpu, read float64
	err = b.conn.QueryRow(ctx, `SELECT medianExact(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds'])::Float64, medianExact(read_rows)::Float64
		FROM system.query_log WHERE log_comment = ? AND type = 'QueryFinish'`, mark).Scan(&cpu, &read)
	a.cpu, a.rows = time.Duration(cpu)*time.Microsecond, uint64(read)
	return a, err
}

// insertRate sends ready blocks of 10,000 rows through the client, as the sink does.
func (b bench) insertRate(ctx context.Context, c candidate) (float64, error) {
	const table = "insert_rate"
	if err := b.conn.Exec(ctx, c.ddl(table)); err != nil {
		return 0, err
	}
	defer func() { _ = b.conn.Exec(ctx, "DROP TABLE "+table+" SYNC") }()
	stored := c.stored()
	positions := make([]int, 0, len(stored))
	for i, column := range columns() {
		if slices.Contains(stored, column.name) {
			positions = append(positions, i)
		}
	}
	began, sent := time.Now(), 0
	for block := range slices.Chunk(b.sample, insertBlock) {
		if err := b.send(ctx, table, stored, positions, block); err != nil {
			return 0, err
		}
		sent += len(block)
	}
	return float64(sent) / time.Since(began).Seconds(), nil
}

func (b bench) send(ctx context.Context, table string, stored []string, positions []int, block [][]any) error {
	batch, err := b.conn.PrepareBatch(ctx, fmt.Sprintf("INSERT INTO %s (%s)", table, strings.Join(stored, ", ")))
	if err != nil {
		return err
	}
	row := make([]any, len(positions))
	for _, values := range block {
		for i, position := range positions {
			row[i] = values[position]
		}
		if err := batch.Append(row...); err != nil {
			return err
		}
	}
	return batch.Send()
}

// loadSample reads rows from the middle of the source, to insert them again.
func loadSample(ctx context.Context, conn driver.Conn, rows, from int) ([][]any, error) {
	var names []string
	for _, column := range columns() {
		names = append(names, column.name)
	}
	result, err := conn.Query(ctx, fmt.Sprintf("SELECT %s FROM source WHERE idx >= %d AND idx < %d ORDER BY idx",
		strings.Join(names, ", "), from, from+rows))
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var sample [][]any
	for result.Next() {
		values := newRow(result.ColumnTypes())
		if err := result.Scan(values...); err != nil {
			return nil, err
		}
		sample = append(sample, values)
	}
	return sample, result.Err()
}
