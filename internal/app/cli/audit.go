package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
)

func auditCommand(s stdio) *cobra.Command {
	return group("audit", "Answer an auditor's questions from the ledger",
		"  waybill audit attempts "+anEvent+"\n  waybill audit completeness --from 2026-10-01 --to 2026-11-01\n  waybill "+
			"audit report --from 2026-10-01 --to 2026-11-01 --out october.html",
		auditAttempts(s), auditDuplicates(s), auditFailures(s), auditIntegrity(s), auditControls(s), auditCompleteness(s),
		auditReport(s))
}

// question holds the flags that every question takes.
type question struct {
	target   target
	filter   audit.Filter
	from, to string
	out      string
	limit    int
	outputs  string // what -o may be
}

const (
	defaultAuditRows = 200
	maxAuditRows     = 100_000
)

// bind adds the flags. What the period bounds differs from question to question.
func (q *question) bind(f *pflag.FlagSet, bounds string) {
	q.target.bind(f)
	f.StringVar(&q.from, "from", "", bounds+" at this time or later: a date (UTC), RFC 3339, or how long ago, such as 24h")
	f.StringVar(&q.to, "to", "", bounds+" before this time: a date (UTC), RFC 3339, or how long ago")
	f.StringVar(&q.filter.Tenant, "tenant", "", "of this tenant only")
	f.StringVar(&q.filter.EndpointID, "endpoint", "", "to this endpoint only")
	f.IntVar(&q.limit, "limit", defaultAuditRows, "list at most so many rows; totals are over all")
	if q.outputs == "" {
		q.outputs = "table, wide, json or csv"
		f.StringVarP(&q.out, "output", "o", "table", q.outputs)
	}
}

// check reads the flags; nothing was connected yet.
func (q *question) check(now time.Time) (err error) {
	if q.filter.From, err = periodTime("from", q.from, now); err != nil {
		return err
	}
	if q.filter.To, err = periodTime("to", q.to, now); err != nil {
		return err
	}
	if f := q.filter; !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return process.Usagef("--from %s is not before --to %s; exchange them, or give a later --to", q.from, q.to)
	}
	if q.filter.EndpointID != "" {
		if err := checkEndpointID(q.filter.EndpointID); err != nil {
			return err
		}
	}
	if q.filter.EventID != "" {
		if err := checkEventID(q.filter.EventID); err != nil {
			return err
		}
	}
	if q.limit < 1 || q.limit > maxAuditRows {
		return process.Usagef("--limit %d: want 1 to %d", q.limit, maxAuditRows)
	}
	switch q.out {
	case "table", "wide", "json", "csv":
	default:
		return process.Usagef("--output %q: want %s", q.out, q.outputs)
	}
	return checkTenant(q.filter.Tenant)
}

func (q *question) room(s stdio) int { return s.room(format(q.out)) }

// periodTime reads the end of a period.
func periodTime(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		if t, err = moments(flag, s, now); err != nil {
			return t, process.Usagef("--%s %q: want a date such as %s, RFC 3339 such as %s, or how long ago, such as 24h",
				flag, s, now.UTC().Format(time.DateOnly), now.UTC().Format(time.RFC3339))
		}
	}
	// Outside of this, the ledger's times cannot be.
	if y := t.Year(); y < 1970 || y > 2261 {
		return t, process.Usagef("--%s %q: want a year from 1970 to 2261", flag, s)
	}
	return t.UTC(), nil
}

// ask opens the ledger, makes sure that what was asked about is known, and asks.
func (q *question) ask(ctx context.Context, do func(context.Context, auditor.Auditor) error) error {
	at, err := q.target.find()
	if err != nil {
		return err
	}
	if at.clickhouse == "" {
		return fmt.Errorf("no ClickHouse server is known; say where it is with --clickhouse")
	}
	// A long period takes longer than whoever asks without a password may.
	db, err := q.target.openAs(roles.Auditor)
	if err != nil {
		db, err = ledger.New(at.clickhouse)
	}
	if err != nil {
		return process.Usagef("--clickhouse: %w", err)
	}
	defer func() { _ = db.Close() }()
	a := auditor.New(db)
	if err := a.Check(ctx, q.filter); err != nil {
		return err
	}
	return do(ctx, a)
}

// show prints an answer: a table with what it is worth after it, JSON whole, or
// CSV with what it is worth on standard error.
func show[T any](s stdio, out string, a *audit.Answer[T], whole any, print func(io.Writer) error) error {
	switch out {
	case "json":
		return printJSON(s.out, whole)
	case "csv":
		if err := audit.WriteCSV(s.out, a.Rows); err != nil {
			return err
		}
		return printWorth(s.err, a.Notes, a.Warnings, a.More, a.Query, a.Question)
	}
	if len(a.Rows) > 0 {
		if err := print(s.out); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.out); err != nil {
			return err
		}
	}
	return printWorth(s.out, a.Notes, a.Warnings, a.More, a.Query, a.Question)
}

// printGrid prints a table for people.
func printGrid(w io.Writer, room int, g audit.Grid) error {
	t := table{header: g.Header, room: room, wide: g.Wide, clip: g.Clip}
	for i, r := range g.Rows {
		cells := make([]string, len(r))
		for n, c := range r {
			if cells[n] = c; slices.Contains(g.Clip, g.Header[n]) {
				cells[n] = clip(c, 64)
			}
		}
		t.add(cells...)
		t.note(clip(g.Notes[i], 400))
	}
	return t.write(w, "")
}

// printWorth says what the rows amount to, and what they are worth.
func printWorth(w io.Writer, notes, warnings []string, more uint64, query string, q audit.Question) error {
	p := &printer{w: w}
	for _, n := range notes {
		p.line("%s", n)
	}
	for _, n := range warnings {
		p.line("! %s", n)
	}
	if more > 0 {
		p.line("%d more are not shown; see them with a higher --limit, or in ClickHouse: %s", more, query)
	}
	p.line("")
	p.line("Proves:")
	for _, l := range q.Proves {
		p.line("  - %s", l)
	}
	p.line("Cannot prove:")
	for _, l := range q.CannotProve {
		p.line("  - %s", l)
	}
	return p.err
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err != nil {
		return
	}
	for i, a := range args {
		if s, ok := a.(string); ok && s != "" {
			args[i] = printable(s)
		}
	}
	_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
}
