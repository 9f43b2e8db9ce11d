package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/custody"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
)

// onRecordPatience is how long a command waits until what it put on record is in ClickHouse.
const onRecordPatience = time.Minute

// withKeeper runs do against ClickHouse, as one who has a role there, and LEDGER.
func (t *target) withKeeper(ctx context.Context, role string, patience time.Duration,
	do func(context.Context, *custody.Keeper) error) error {
	db, err := t.openAs(role)
	if err != nil {
		return err
	}
	defer db.Close()
	nc, js, err := t.connectNATS(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return do(ctx, &custody.Keeper{DB: db, JS: js, Log: zerolog.Nop(), Now: time.Now})
}

type retireFlags struct {
	target                   target
	out                      format
	olderThan, before        string
	underSix, dryRun, really bool
	actor, reason            string
}

func ledgerRetire(s stdio) *cobra.Command {
	var f retireFlags
	c := &cobra.Command{
		Use: "retire", Short: "Drop whole months of records whose retention is over",
		Long: `Drop whole months of records whose retention is over. Without --confirm nothing is
dropped: it says what would be, and why the rest stays.

A month stays while an active legal hold touches it, while it has settings that were
in force within the retention, and until a checkpoint and stored hashes cover it. What
goes, by whom and why, is on record first; hashes and checkpoints stay, so what remains
can be verified. Interrupted, run it again. docs/custody.md says more.`,
		Example: `  waybill ledger retire
  waybill ledger retire --before 2019-01 --confirm --actor ann@example.com --reason 'yearly retirement'`,
		Args: process.NoArgs,
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.olderThan, "older-than", "7y",
		"months that ended longer ago than this: years (7y) or months (84m)")
	c.Flags().StringVar(&f.before, "before", "", "months before this one instead, such as 2019-01")
	c.Flags().BoolVar(&f.underSix, "allow-under-six-years", false,
		"also what is younger than six years, which required documentation must be kept for")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "drop nothing (the default without --confirm)")
	c.Flags().BoolVar(&f.really, "confirm", false, "really drop them; needs --actor and --reason")
	c.Flags().StringVar(&f.actor, "actor", "", "who does this, for the record")
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), s) }
	return c
}

func (f *retireFlags) run(ctx context.Context, s stdio) error {
	cutoff, err := retireCutoff(f.olderThan, f.before, f.underSix, time.Now())
	if err := firstError(f.out.check(), err); err != nil {
		return err
	}
	switch {
	case f.really && f.dryRun:
		return process.Usagef("--confirm and --dry-run: want one of them")
	case f.really && strings.TrimSpace(f.actor) == "":
		return missing("actor", "ann@example.com")
	case f.really && strings.TrimSpace(f.reason) == "":
		return missing("reason", "'yearly retirement'")
	}
	return f.target.withKeeper(ctx, roles.Custodian, 0, func(ctx context.Context, k *custody.Keeper) error {
		var plan []custody.Candidate
		var err error
		if f.really {
			plan, err = k.Retire(ctx, cutoff, f.actor, f.reason)
		} else {
			plan, err = k.Plan(ctx, cutoff)
		}
		if printed := printPlan(s, f.out, plan, f.really); err == nil {
			err = printed
		}
		return err
	})
}

// retireCutoff is the time before which a month must have ended.
func retireCutoff(olderThan, before string, underSix bool, now time.Time) (time.Time, error) {
	var cutoff time.Time
	if before != "" {
		var err error
		if cutoff, err = time.Parse("2006-01", before); err != nil {
			return cutoff, process.Usagef("--before %q: want a month such as 2019-01", before)
		}
	} else {
		n, err := strconv.Atoi(strings.TrimRight(olderThan, "ym"))
		unit := strings.TrimLeft(olderThan, "0123456789")
		if err != nil || n < 1 || n > 1200 || unit != "y" && unit != "m" {
			return cutoff, process.Usagef("--older-than %q: want years or months, such as 7y or 84m", olderThan)
		}
		if unit == "y" {
			n *= 12
		}
		cutoff = now.UTC().AddDate(0, -n, 0)
	}
	if custody.TooYoung(cutoff, now) && !underSix {
		return cutoff, process.Usagef("records younger than %d years would go, and required documentation must be kept "+
			"that long (45 CFR 164.316); choose an earlier time, or say --allow-under-six-years", custody.LeastYears)
	}
	if cutoff.After(now) {
		return cutoff, process.Usagef("--before %q: want a month that is over", before)
	}
	return cutoff, nil
}

func printPlan(s stdio, out format, plan []custody.Candidate, really bool) error {
	if plan == nil {
		plan = []custody.Candidate{}
	}
	if out == "json" {
		return printJSON(s.out, plan)
	}
	t := table{header: []string{"MONTH", "RECORDS", "WHAT", "WHY"}, flow: true}
	for _, c := range plan {
		what := "would go"
		switch {
		case c.Kept != "":
			what = "stays"
		case c.Retired:
			what = "retired"
		case really:
			what = "NOT DONE"
		}
		t.add(c.Month, strconv.FormatUint(c.Records, 10), what, c.Kept)
	}
	if err := t.show(s, out, "no month is old enough"); err != nil || really || len(plan) == 0 {
		return err
	}
	_, err := fmt.Fprintln(s.out, "nothing was dropped; to do it: --confirm --actor WHO --reason WHY")
	return err
}
