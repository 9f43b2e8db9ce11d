package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/health"
	"github.com/waybill-dev/waybill/internal/ledger/roles"
	"github.com/waybill-dev/waybill/internal/operator/doctor"
	"github.com/waybill-dev/waybill/internal/pipeline/watchdog"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

type doctorFlags struct {
	target     target
	out        format
	partitions int
	monitor    string
	readFor    time.Duration
}

func doctorCommand(s stdio) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use: "doctor", Short: "Look at a running deployment and say what is wrong",
		Long: `Look at a running deployment and say what is wrong, and what to do about it:
streams, registry, stages, lags, gaps, overdue deliveries, dead letters that nobody
was told of, whom to tell, clocks, durability, and, where ClickHouse can be asked as
the auditor, whether records could be changed. It changes nothing, and needs NATS
alone. Exit status 1 when something is wrong; a warning is not.
docs/watchdog.md explains each code.`,
		Example: `  waybill doctor
  waybill doctor --nats-url nats://nats.internal:4222 --nats-monitor http://nats.internal:8222 -o json`,
		Args: process.NoArgs,
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().IntVar(&f.partitions, "partitions", 0,
		"partitions of DELIVERIES and RETRY (default: as many as the server has, or 1)")
	c.Flags().StringVar(&f.monitor, "nats-monitor", "",
		"address of the NATS server's monitoring, to see how it syncs (default: as waybill up says)")
	c.Flags().DurationVar(&f.readFor, "read-for", time.Minute, "longest time to read LEDGER for what is owed")
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c.Context(), s) }
	return c
}

func (f *doctorFlags) run(ctx context.Context, s stdio) error {
	if err := f.check(); err != nil {
		return err
	}
	checks, err := f.examine(ctx)
	if err != nil {
		return err
	}
	if f.out == "json" {
		err = printJSON(s.out, checks)
	} else {
		err = printChecks(s, f.out, checks)
	}
	if err != nil {
		return err
	}
	wrong := 0
	for _, c := range checks {
		if c.State == health.Wrong {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %s wrong; what to do stands beside each", wrong,
			text.Count(len(checks), "check is", "checks are"))
	}
	return nil
}

func (f *doctorFlags) check() error {
	if f.partitions < 0 || f.partitions > 100 {
		return process.Usagef("--partitions %d: want 1 to 100", f.partitions)
	}
	if f.readFor <= 0 {
		return process.Usagef("--read-for %s: want more than 0s", f.readFor)
	}
	if u, err := url.Parse(f.monitor); f.monitor != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return process.Usagef("--nats-monitor %q: want an address such as http://127.0.0.1:8222", f.monitor)
	}
	return f.out.check()
}

// examine asks everything that is known of the deployment.
func (f *doctorFlags) examine(ctx context.Context) ([]health.Check, error) {
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	d := doctor.Doctor{JS: js, Partitions: f.partitions, Monitor: f.monitor, ReadFor: f.readFor}
	d.Stages = func(ctx context.Context, partitions int, sync string) []health.Check {
		return watchdog.Examine(ctx, watchdog.ExamineOptions{JS: js, Partitions: partitions, Sync: sync, ReadFor: f.readFor})
	}
	if a, _, err := f.target.read(); err == nil && f.target.natsURL == "" { // started by waybill up
		d.Sync, d.HTTP = a.Sync, a.HTTP
	}
	if db, err := f.target.openAs(roles.Auditor); err == nil {
		defer db.Close()
		d.Ledger = db
	}
	return d.Examine(ctx), nil
}

func printChecks(s stdio, out format, checks []health.Check) error {
	t := table{header: []string{"CHECK", "STATE", "DETAIL"}, flow: true}
	for _, c := range checks {
		t.add(c.Name, string(c.State), c.Detail)
		if c.State != health.OK {
			t.note(strings.TrimSpace(c.Code + " → " + c.Next))
		}
	}
	return t.show(s, out, "nothing was looked at")
}
