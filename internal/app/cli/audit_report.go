package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/platform/version"
)

func auditReport(s stdio) *cobra.Command {
	q := question{outputs: "html or json"}
	var out string
	c := &cobra.Command{Use: "report", Short: "Write one document about a period, for people",
		Long: `Write one HTML document about a period: the five questions, completeness, service
levels, changes of the configuration, replays with names and reasons, dead letters,
checkpoints, and what is not proven. It needs nothing else: no network, no script.
Print it, or keep it. Long lists are cut, with the query that gives the rest.`,
		Example: "  waybill audit report --from 2026-10-01 --to 2026-11-01 --out october.html\n  waybill audit report " +
			"--from 2026-10-01 --to 2026-11-01 --tenant acme -o json",
		Args: process.NoArgs}
	q.bind(c.Flags(), "what happened")
	c.Flags().StringVarP(&q.out, "output", "o", "html", q.outputs)
	c.Flags().StringVar(&out, "out", "", "file to write, for its owner alone; - for standard output (default)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		format := q.out
		if format == "html" {
			q.out = "json" // both are whole documents
		}
		if q.out != "json" {
			return process.Usagef("--output %q: want %s", q.out, q.outputs)
		}
		if q.from == "" {
			return missing("from", "2026-10-01")
		}
		if q.to == "" {
			return missing("to", "2026-11-01")
		}
		if err := q.check(time.Now()); err != nil {
			return err
		}
		return q.ask(c.Context(), func(ctx context.Context, db *ledger.DB) error {
			r, err := q.report(ctx, db, time.Now())
			if err != nil {
				return err
			}
			write := func(w io.Writer) error {
				if format == "json" {
					return printJSON(w, r)
				}
				return audit.WriteHTML(w, r)
			}
			var b bytes.Buffer
			if err := write(&b); err != nil {
				return err
			}
			if wrote, err := writeFile(s.out, "out", out, b.Bytes()); err != nil || !wrote {
				return err
			}
			_, err = fmt.Fprintf(s.out, "written: %s\n", out)
			return err
		})
	}
	return c
}

// report asks every question about the period.
func (q *question) report(ctx context.Context, db *ledger.DB, now time.Time) (r audit.Report, err error) {
	f := q.filter
	r = audit.Report{Made: now.UTC(), Software: version.Software, Filter: f}
	if f.Settled, err = db.AuditSettled(ctx); err != nil {
		return r, err
	}
	events, err := db.AuditEvents(ctx, f)
	if err != nil {
		return r, err
	}
	rows, mismatches, more, err := db.AuditBalances(ctx, f, q.limit)
	if err != nil {
		return r, err
	}
	if f.Tenant == "" && f.EndpointID == "" {
		gaps, err := db.AuditGaps(ctx, f)
		if err != nil {
			return r, err
		}
		mismatches = append(mismatches, gaps...)
	}
	r.Days, r.Endpoints = audit.Fold(rows, audit.ByDay), audit.Fold(rows, audit.ByEndpoint)
	r.Completeness = audit.NewCompleteness(f, events, rows, mismatches, more, nil)
	if err := noteRetired(ctx, db, &r.Completeness); err != nil {
		return r, err
	}
	r.Completeness.Rows = []audit.Balance{} // by day and by endpoint instead
	if r.MoreEndpoints = uint64(max(0, len(r.Endpoints)-q.limit)); r.MoreEndpoints > 0 {
		r.Endpoints = audit.Worst(r.Endpoints, q.limit)
	}
	failures, moreFailures, totals, err := db.AuditFailures(ctx, f, q.limit)
	if err != nil {
		return r, err
	}
	r.Failures, r.Service = audit.OfFailures(f, failures, moreFailures, totals), audit.ServiceOf(rows, totals)
	gaps, moreGaps, err := db.AuditAttemptGaps(ctx, f, q.limit)
	if err != nil {
		return r, err
	}
	r.Gaps = audit.OfAttempts(f, gaps, moreGaps)
	repeated, moreRepeated, repetitions, err := db.AuditDuplicates(ctx, f, false, q.limit)
	if err != nil {
		return r, err
	}
	r.Duplicates = audit.OfDuplicates(f, repeated, moreRepeated, repetitions)
	signed, moreSigned, sums, err := db.AuditIntegrity(ctx, f, min(q.limit, integritySample))
	if err != nil {
		return r, err
	}
	r.Integrity = audit.OfIntegrity(f, signed, moreSigned, sums)
	return r, q.reportPeople(ctx, db, &r)
}

// integritySample is how many digests a report shows: nobody reads more of them.
const integritySample = 25

// reportPeople adds what people did, and what was signed.
func (q *question) reportPeople(ctx context.Context, db *ledger.DB, r *audit.Report) error {
	days, err := db.AuditDays(ctx, q.filter)
	if err != nil {
		return err
	}
	changes, more, err := db.AuditChanges(ctx, q.filter, q.limit)
	if err != nil {
		return err
	}
	r.Controls = audit.OfControls(q.filter, days, changes, more)
	if r.Replays, r.MoreReplays, err = db.AuditReplays(ctx, q.filter, q.limit); err != nil {
		return err
	}
	if r.Replays == nil {
		r.Replays = []audit.Replay{}
	}
	r.Checkpoints, err = db.AuditCheckpoints(ctx, q.filter)
	return err
}
