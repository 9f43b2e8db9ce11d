// Command schemabench compares layouts of the ledger's records table on a real
// ClickHouse engine: bytes per delivery, insert rate, and the time of the
// questions the ledger must answer. Its result is docs/schema-measurements.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

const (
	insertBlock = 10_000
	insertRows  = 200_000
)

// bench holds what every candidate is measured with.
type bench struct {
	conn     driver.Conn
	subjects []subject
	sample   [][]any
	keep     bool // filled tables stay for the next run
}

// subject is what a question is about: an attempt somewhere in the ledger.
type subject struct {
	idx                     uint64
	tenant, event, endpoint string
}

func main() {
	rows := flag.Int("rows", 10_000_000, "ledger `records` to make")
	only := flag.String("only", "", "comma-separated `names` of candidates; default all")
	dir := flag.String("dir", "", "engine `directory`, kept with its tables for the next run; default a temporary one, "+
		"removed at the end")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *rows, *only, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "schemabench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rows int, only, dir string) (err error) {
	keep := dir != ""
	if !keep {
		if dir, err = os.MkdirTemp("", "schemabench-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	e, err := engine.Start(ctx, engine.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer e.Stop(context.Background())
	b, err := prepare(ctx, e, rows)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	b.keep = keep
	printHeader()
	for _, c := range candidates() {
		if only != "" && !slices.Contains(strings.Split(only, ","), c.name) {
			continue
		}
		r, err := b.measure(ctx, c)
		if err != nil {
			return err
		}
		printResult(r)
	}
	return nil
}

// prepare makes the source, unless the directory holds one of an earlier run.
func prepare(ctx context.Context, e *engine.Engine, rows int) (b bench, err error) {
	if b.conn, err = open(ctx, e); err != nil {
		return b, err
	}
	var tables uint64
	if err := b.conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = 'bench' AND name = 'source'").Scan(&tables); err != nil {
		return b, err
	}
	if tables == 0 {
		began := time.Now()
		if err := makeSource(ctx, b.conn, rows); err != nil {
			return b, err
		}
		fmt.Fprintf(os.Stderr, "schemabench: source made in %v\n", time.Since(began).Round(time.Second))
	}
	if b.subjects, err = chooseSubjects(ctx, b.conn); err != nil {
		return b, fmt.Errorf("choose subjects: %w", err)
	}
	if b.sample, err = loadSample(ctx, b.conn, insertRows, rows/2); err != nil {
		return b, fmt.Errorf("load the sample: %w", err)
	}
	return b, nil
}

// chooseSubjects takes attempts from all over the ledger, the same each time.
func chooseSubjects(ctx context.Context, conn driver.Conn) (chosen []subject, err error) {
	rows, err := conn.Query(ctx, "SELECT idx, tenant, event_id, endpoint_id FROM source WHERE kind = 'attempt' ORDER "+
		"BY cityHash64(idx) LIMIT ?", runs)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s subject
		if err := rows.Scan(&s.idx, &s.tenant, &s.event, &s.endpoint); err != nil {
			return nil, err
		}
		chosen = append(chosen, s)
	}
	return chosen, rows.Err()
}

func open(ctx context.Context, e *engine.Engine) (driver.Conn, error) {
	options, err := clickhouse.ParseDSN(e.DSN("", "bench"))
	if err != nil {
		return nil, err
	}
	options.ReadTimeout = time.Hour
	options.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	setup := *options
	setup.Auth.Database = "system"
	first, err := clickhouse.Open(&setup)
	if err != nil {
		return nil, err
	}
	defer first.Close()
	if err := first.Exec(ctx, "CREATE DATABASE IF NOT EXISTS bench"); err != nil {
		return nil, err
	}
	return clickhouse.Open(options)
}

// newRow makes a pointer for each column, which Append takes as well as a value.
func newRow(types []driver.ColumnType) []any {
	row := make([]any, len(types))
	for i, t := range types {
		row[i] = reflect.New(t.ScanType()).Interface()
	}
	return row
}

func printHeader() {
	fmt.Print("| Candidate | B/record | B/delivery | Insert, rows/s |")
	for _, q := range questions() {
		fmt.Printf(" %s |", q.name)
	}
	fmt.Print(" Parts | Fill |\n| --- | --- | --- | --- |", strings.Repeat(" --- |", len(questions())+2), "\n")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// printResult shows, for each question, elapsed and processor time and rows read.
func printResult(r result) {
	perRow := float64(r.bytes) / float64(r.rows)
	fmt.Printf("| `%s` | %.0f | %.0f | %.0f |", r.candidate.name, perRow, perRow*rowsPerDelivery, r.insertRate)
	for _, a := range r.answers {
		fmt.Printf(" %.1f / %.1f ms, %d |", milliseconds(a.took), milliseconds(a.cpu), a.rows)
	}
	fmt.Printf(" %d | %.0f s |\n", r.parts, r.fill.Seconds())
	fmt.Fprintf(os.Stderr, "schemabench: %s: %s; %d rows; largest columns, B/record: %s\n", r.candidate.name,
		r.candidate.why, r.rows, r.biggestCols)
}
