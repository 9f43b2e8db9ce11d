package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func auditCompleteness(s stdio) *cobra.Command {
	var q question
	var patience time.Duration
	c := &cobra.Command{Use: "completeness", Short: "Show that nothing owed is unaccounted for",
		Long: `Show what became of the deliveries of every event that was accepted in the period:
owed = delivered + dead-lettered + cancelled + pending, and name each delivery that
is not as a whole ledger has it, and what is missing. With --nats-url, also compare
the stream LEDGER with ClickHouse, record for record, as far as LEDGER goes back.
Exit status 1 when something does not match.`,
		Example: "  waybill audit completeness --from 2026-10-01 --to 2026-11-01\n  waybill audit completeness --nats-url " +
			"nats://nats:4222 --clickhouse clickhouse://auditor@ch:9000",
		Args: process.NoArgs}
	q.bind(c.Flags(), "accepted")
	c.Flags().DurationVar(&patience, "sink-wait", 15*time.Second,
		"where NATS is known: how long the sink gets to write what LEDGER holds")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.check(time.Now()); err != nil {
			return err
		}
		if patience < 0 {
			return process.Usagef("--sink-wait %s: want 0s or more", patience)
		}
		return q.ask(c.Context(), func(ctx context.Context, a auditor.Auditor) error {
			answer, err := q.complete(ctx, a, patience)
			if err != nil {
				return err
			}
			if err := q.printCompleteness(s, answer); err != nil {
				return err
			}
			if !answer.Balanced {
				return fmt.Errorf("the ledger is not complete: %s; each is named in the answer",
					text.Count(uint64(len(answer.Mismatches))+answer.More, "mismatch", "mismatches"))
			}
			return nil
		})
	}
	return c
}

// complete asks with NATS where it is known.
func (q *question) complete(ctx context.Context, a auditor.Auditor, patience time.Duration) (none audit.Completeness,
	err error) {
	with, err := q.target.withStreams()
	if err != nil {
		return none, err
	}
	if !with {
		return a.Completeness(ctx, q.filter, q.limit, nil)
	}
	nc, js, err := q.target.connectNATS(ctx)
	if err != nil {
		return none, err
	}
	defer nc.Close()
	return a.Completeness(ctx, q.filter, q.limit, &auditor.Streams{NC: nc, JS: js, Patience: patience})
}

func (q *question) printCompleteness(s stdio, a audit.Completeness) error {
	switch q.out {
	case "json":
		return printJSON(s.out, a)
	case "csv":
		if err := audit.WriteCSV(s.out, a.Rows); err != nil {
			return err
		}
		if len(a.Mismatches) > 0 {
			if err := printGrid(s.err, q.room(s), audit.MismatchGrid(a.Mismatches)); err != nil {
				return err
			}
		}
		return printWorth(s.err, a.Notes, nil, a.More, a.Query, a.Question)
	}
	for _, g := range []audit.Grid{audit.BalanceGrid(a.Rows), audit.MismatchGrid(a.Mismatches)} {
		if len(g.Rows) == 0 {
			continue
		}
		if err := printGrid(s.out, q.room(s), g); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.out); err != nil {
			return err
		}
	}
	return printWorth(s.out, a.Notes, nil, a.More, a.Query, a.Question)
}
