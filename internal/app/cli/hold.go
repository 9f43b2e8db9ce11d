package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/custody"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

func holdCommand(s stdio) *cobra.Command {
	return group("hold", "Keep records from being retired while a legal hold is on",
		"  waybill hold add --event evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --actor ann@example.com --reason 'case 7'\n  waybill "+
			"hold list",
		holdAdd(s), holdList(s), holdShow(s), holdRelease(s))
}

func holdAdd(s stdio) *cobra.Command {
	var f askFlags
	var h custody.Hold
	var from, to string
	c := &cobra.Command{
		Use: "add", Short: "Put a legal hold in force",
		Long: `Put a legal hold in force, by event, subject, tenant, endpoint or period, or several of
them together (then all must fit). Every month that has such a record is kept whole:
ClickHouse drops months, and a record's neighbours cost little. The command returns
once the hold is in ClickHouse: from then on it is in force.`,
		Example: `  waybill hold add --event evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --actor ann@example.com --reason 'case 7'
  waybill hold add --tenant acme --from 2021-01-01 --to 2022-01-01 --actor ann@example.com --reason 'audit'`,
		Args: process.NoArgs,
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&h.Event, "event", "", "this event")
	c.Flags().StringVar(&h.Subject, "subject", "", "events about this resource, TYPE:ID or ID")
	c.Flags().StringVar(&h.Tenant, "tenant", "", "this tenant")
	c.Flags().StringVar(&h.Endpoint, "endpoint", "", "this endpoint")
	c.Flags().StringVar(&from, "from", "", "records from this time on: a day such as 2021-01-01, or RFC 3339")
	c.Flags().StringVar(&to, "to", "", "records before this time")
	c.Flags().StringVar(&h.Actor, "actor", "", "who does this, for the record (required)")
	c.Flags().StringVar(&h.Reason, "reason", "", "why, for the record (required)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var err error
		if h.From, err = holdTime("from", from); err != nil {
			return err
		}
		if h.To, err = holdTime("to", to); err != nil {
			return err
		}
		switch {
		case h.Covers() == "":
			return process.Usagef("nothing to hold; say what with --event, --subject, --tenant, --endpoint, --from or --to")
		case !h.From.IsZero() && !h.To.IsZero() && !h.From.Before(h.To):
			return process.Usagef("--from %s is not before --to %s", from, to)
		}
		if err := firstError(f.out.check(), whoAndWhy(h.Actor, h.Reason)); err != nil {
			return err
		}
		return f.target.withKeeper(c.Context(), roles.Auditor, onRecordPatience,
			func(ctx context.Context, k *custody.Keeper) error {
				added, late, err := k.Add(ctx, h)
				if err != nil {
					return err
				}
				kept, err := k.Kept(ctx, added)
				if err != nil {
					return err
				}
				return printAdded(s, f.out, added, kept, late)
			})
	}
	return c
}

func printAdded(s stdio, out format, h custody.Hold, kept, late []uint32) error {
	for _, m := range slices.Compact(slices.Sorted(slices.Values(late))) {
		if _, err := fmt.Fprintf(s.err, "month %s was put on record as retired before this hold: what is gone of it "+
			"cannot be kept\n", custody.Name(m)); err != nil {
			return err
		}
	}
	if out == "json" {
		return printJSON(s.out, h)
	}
	if _, err := fmt.Fprintf(s.out, "%s  in force since record %d: %s\n", h.ID, h.Idx, printable(h.Covers())); err != nil {
		return err
	}
	if len(kept) == 0 {
		_, err := fmt.Fprintln(s.out, "no record is in its scope now; if there should be some, check what you named")
		return err
	}
	names := make([]string, len(kept))
	for i, m := range kept {
		names[i] = custody.Name(m)
	}
	_, err := fmt.Fprintf(s.out, "it keeps what is on record of %s\n", strings.Join(names, ", "))
	return err
}

func whoAndWhy(actor, reason string) error {
	if strings.TrimSpace(actor) == "" {
		return missing("actor", "ann@example.com")
	}
	if strings.TrimSpace(reason) == "" {
		return missing("reason", "'case 7'")
	}
	return nil
}

func holdTime(flag, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, process.Usagef("--%s %q: want a day such as 2021-01-01, or RFC 3339", flag, value)
}

func holdList(s stdio) *cobra.Command {
	var f askFlags
	var all bool
	c := &cobra.Command{Use: "list", Short: "List the legal holds in force",
		Long:    "List the legal holds in force, as the ledger has them; with --all also those that were released.",
		Args:    process.NoArgs,
		Example: "  waybill hold list\n  waybill hold list --all -o json"}
	f.bind(c.Flags())
	c.Flags().BoolVar(&all, "all", false, "also those that were released")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		return f.target.withKeeper(c.Context(), roles.Auditor, onRecordPatience,
			func(ctx context.Context, k *custody.Keeper) error {
				st, err := k.State(ctx)
				if err != nil {
					return err
				}
				list := st.Active()
				if all {
					list = st.Holds
				}
				return printHolds(s, f.out, list)
			})
	}
	return c
}

func printHolds(s stdio, out format, list []custody.Hold) error {
	if out == "json" {
		return printJSON(s.out, append([]custody.Hold{}, list...))
	}
	t := table{header: []string{"HOLD", "COVERS", "SINCE", "BY", "REASON", "RELEASED"},
		wide: []string{"RELEASED", "BY", "SINCE", "REASON"}, clip: []string{"REASON"}}
	for _, h := range list {
		t.add(h.ID, h.Covers(), moment(h.AddedAt), h.Actor, h.Reason, moment(h.Released))
	}
	return t.show(s, out, "no legal hold")
}

const aHold = "hold_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"

func holdShow(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "show HOLD", Short: "Show a legal hold",
		Long:    "Show a legal hold: what it covers, who put it in force and why, and who released it.",
		Example: "  waybill hold show " + aHold, Args: process.OneArg("hold id", "waybill hold show "+aHold)}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		return f.target.withKeeper(c.Context(), roles.Auditor, onRecordPatience,
			func(ctx context.Context, k *custody.Keeper) error {
				st, err := k.State(ctx)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(st.Holds, func(h custody.Hold) bool { return h.ID == args[0] })
				if i < 0 {
					return fmt.Errorf("there is no hold %.64q; see: waybill hold list --all", args[0])
				}
				return printHold(s, f.out, st.Holds[i])
			})
	}
	return c
}

func printHold(s stdio, out format, h custody.Hold) error {
	if out == "json" {
		return printJSON(s.out, h)
	}
	f := fields{{"hold", h.ID}, {"covers", h.Covers()}, {"record", fmt.Sprint(h.Idx)}, {"since", moment(h.AddedAt)},
		{"by", h.Actor},
		{"reason", h.Reason}, {"released", moment(h.Released)}, {"released by", h.By}, {"because", h.Why}}
	return f.write(s.out)
}

func holdRelease(s stdio) *cobra.Command {
	var f askFlags
	var actor, reason string
	c := &cobra.Command{Use: "release HOLD", Short: "End a legal hold",
		Long: "End a legal hold, in the name of a person and for a reason. Nothing is dropped by it: waybill ledger " +
			"retire does that.",
		Example: "  waybill hold release " + aHold + " --actor ann@example.com --reason 'case closed'",
		Args:    process.OneArg("hold id", "waybill hold release "+aHold+" --actor ann@example.com --reason 'case closed'")}
	f.bind(c.Flags())
	c.Flags().StringVar(&actor, "actor", "", "who does this, for the record (required)")
	c.Flags().StringVar(&reason, "reason", "", "why, for the record (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(f.out.check(), whoAndWhy(actor, reason)); err != nil {
			return err
		}
		return f.target.withKeeper(c.Context(), roles.Auditor, onRecordPatience,
			func(ctx context.Context, k *custody.Keeper) error {
				h, err := k.Release(ctx, args[0], actor, reason)
				if err != nil {
					return err
				}
				return printHold(s, f.out, h)
			})
	}
	return c
}
