package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
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
		return q.ask(c.Context(), func(ctx context.Context, a auditor.Auditor) error {
			r, err := a.Report(ctx, q.filter, q.limit, time.Now())
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
