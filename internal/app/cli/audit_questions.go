package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

func auditAttempts(s stdio) *cobra.Command {
	var q question
	c := &cobra.Command{Use: "attempts EVENT", Short: "Show every attempt for an event, with times and responses",
		Long: `Show every attempt for an event, with times and responses, by endpoint and number.
A gap is shown as a gap: an attempt whose outcome is unknown because a process died
during it, and a number that is not on record.`,
		Example: "  waybill audit attempts " + anEvent + "\n  waybill audit attempts " + anEvent + " -o csv > attempts.csv",
		Args:    process.OneArg("event id", "waybill audit attempts "+anEvent)}
	q.bind(c.Flags(), "attempted")
	c.RunE = func(c *cobra.Command, args []string) error {
		q.filter.EventID = args[0]
		if err := firstError(checkEventID(args[0]), q.check(time.Now())); err != nil {
			return err
		}
		return q.ask(c.Context(), func(ctx context.Context, ask auditor.Auditor) error {
			a, err := ask.Attempts(ctx, q.filter, q.limit)
			if err != nil {
				return err
			}
			return show(s, q.out, a, a, func(w io.Writer) error { return printGrid(w, q.room(s), audit.AttemptGrid(a.Rows)) })
		})
	}
	return c
}

func auditDuplicates(s stdio) *cobra.Command {
	var q question
	var all bool
	c := &cobra.Command{Use: "duplicates", Short: "Show that duplicates could not cause duplicate action",
		Long: `Show which deliveries may have reached their receiver more than once, and why each
request after the first was made: the outcome before it, or a replay with who asked
for it and why. The totals are over every delivery. Exit status 1 when different
events stand under one id.`,
		Example: "  waybill audit duplicates --from 2026-10-01 --to 2026-11-01\n  waybill audit duplicates --event " +
			anEvent}
	q.bind(c.Flags(), "first attempted")
	c.Flags().StringVar(&q.filter.EventID, "event", "", "of this event only")
	c.Flags().BoolVar(&all, "all", false, "list also deliveries with one request")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.check(time.Now()); err != nil {
			return err
		}
		return q.ask(c.Context(), func(ctx context.Context, ask auditor.Auditor) error {
			a, err := ask.Duplicates(ctx, q.filter, all, q.limit)
			if err != nil {
				return err
			}
			grid := func(w io.Writer) error { return printGrid(w, q.room(s), audit.RepetitionGrid(a.Rows)) }
			if err := show(s, q.out, a.Answer, a, grid); err != nil {
				return err
			}
			if a.Totals.OtherData > 0 {
				return audit.ErrTwoContents
			}
			return nil
		})
	}
	return c
}

func auditFailures(s stdio) *cobra.Command {
	var q question
	c := &cobra.Command{Use: "failures", Short: "Show what happened when delivery failed",
		Long: `Show each dead letter and rejected event: why, how long it took until a channel took
the message for a human, whether that was within 5 minutes and before the deadline,
and who took it on.`,
		Example: "  waybill audit failures --from 24h\n  waybill audit failures --endpoint " + exampleEndpoint +
			" -o csv > failures.csv"}
	q.bind(c.Flags(), "failed")
	c.Flags().StringVar(&q.filter.EventID, "event", "", "of this event only")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.check(time.Now()); err != nil {
			return err
		}
		return q.ask(c.Context(), func(ctx context.Context, ask auditor.Auditor) error {
			a, err := ask.Failures(ctx, q.filter, q.limit)
			if err != nil {
				return err
			}
			return show(s, q.out, a.Answer, a, func(w io.Writer) error {
				if err := printGrid(w, q.room(s), audit.FailureTotalGrid(a.Totals)); err != nil {
					return err
				}
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
				return printGrid(w, q.room(s), audit.FailureGrid(a.Rows, time.Now()))
			})
		})
	}
	return c
}

const exampleEndpoint = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"

// errAltered is the exit of a comparison that did not hold.
var errAltered = errors.New("what was compared is not what is on record")

func auditIntegrity(s stdio) *cobra.Command {
	var q question
	var payload, data string
	c := &cobra.Command{Use: "integrity", Short: "Show that payloads were not altered",
		Long: `Show the digest of the exact bytes that were signed and sent, attempt by attempt, and
the digest of the event's data. With --payload or --data, compare a file from an
archive or a receiver, byte for byte. Exit status 1 when it is not what was sent, or
when digests on record do not agree.`,
		Example: "  waybill audit integrity --event " + anEvent +
			" --payload archived-body.json\n  waybill audit integrity --from 24h -o csv > digests.csv"}
	q.bind(c.Flags(), "attempted")
	c.Flags().StringVar(&q.filter.EventID, "event", "", "of this event only; needed to compare")
	c.Flags().StringVar(&payload, "payload", "", "file with a request's body, to compare with what was sent")
	bindPayload(c.Flags(), &data, "file with an event's data, to compare with what was accepted and sent")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.check(time.Now()); err != nil {
			return err
		}
		flag, path := "payload", payload
		switch {
		case payload != "" && data != "":
			return process.Usagef("--payload and --data: give one of them")
		case data != "":
			flag, path = "data", data
		}
		var content []byte
		if path != "" {
			if q.filter.EventID == "" {
				return process.Usagef("--%s needs --event: of which event is it?", flag)
			}
			var err error
			if content, err = readArchived(flag, path); err != nil {
				return err
			}
		}
		return q.ask(c.Context(), func(ctx context.Context, ask auditor.Auditor) error {
			a, err := ask.Integrity(ctx, q.filter, q.limit)
			if err != nil {
				return err
			}
			if err := compareFile(&a, flag, path, content); err != nil {
				return err
			}
			grid := func(w io.Writer) error { return printGrid(w, q.room(s), audit.SignedGrid(a.Rows)) }
			if err := show(s, q.out, a.Answer, a, grid); err != nil {
				return err
			}
			switch {
			case a.Altered:
				return errAltered
			case a.Totals.Disagree > 0:
				return audit.ErrDisagrees
			}
			return nil
		})
	}
	return c
}

// compareFile puts its verdict first: it is what was asked.
func compareFile(a *audit.Integrity, flag, path string, content []byte) error {
	if path == "" {
		return nil
	}
	compare := a.ComparePayload
	if flag == "data" {
		compare = a.CompareData
	}
	if err := compare(content); err != nil {
		return fmt.Errorf("--%s: %w of event %s; see: waybill audit attempts %s", flag, err, a.Filter.EventID,
			a.Filter.EventID)
	}
	a.Notes = append([]string{a.Verdict}, a.Notes...)
	return nil
}

// readArchived reads a payload; it is never printed or kept.
func readArchived(flag, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, process.Usagef("--%s: %w; name a file that can be read", flag, err)
	}
	defer f.Close()
	const most = 16 * envelope.MaxEventBytes
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, process.Usagef("--%s: %w; name a file that can be read", flag, err)
	}
	if len(b) > most {
		return nil, process.Usagef("--%s %s: more than %d bytes; no payload is that large", flag, path, most)
	}
	return b, nil
}

func auditControls(s stdio) *cobra.Command {
	var q question
	c := &cobra.Command{Use: "controls", Short: "Show that the controls were operating, day by day",
		Long: `Show, for each day, what ran: events, deliveries, people told, conformance checks,
tests of channels, alarms, checkpoints, gaps; then each change of the configuration
with who made it and why.`,
		Example: "  waybill audit controls --from 2026-10-01 --to 2026-11-01\n  waybill audit controls --from 2026-10-01 " +
			"-o csv > controls.csv"}
	q.bind(c.Flags(), "on days")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := q.check(time.Now()); err != nil {
			return err
		}
		return q.ask(c.Context(), func(ctx context.Context, ask auditor.Auditor) error {
			a, err := ask.Controls(ctx, q.filter, q.limit)
			if err != nil {
				return err
			}
			return show(s, q.out, a.Answer, a, func(w io.Writer) error {
				if err := printGrid(w, q.room(s), audit.DayGrid(a.Rows)); err != nil || len(a.Changes) == 0 {
					return err
				}
				if _, err := fmt.Fprintln(w); err != nil {
					return err
				}
				return printGrid(w, q.room(s), audit.ChangeGrid(a.Changes))
			})
		})
	}
	return c
}
