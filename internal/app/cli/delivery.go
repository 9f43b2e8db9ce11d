package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func deliveryCommand(s stdio) *cobra.Command {
	return group("delivery", "Look at deliveries and their attempts",
		"  waybill delivery list --state dead_lettered\n  waybill delivery show evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
		deliveryList(s), deliveryShow(s), deliveryWait(s))
}

type listFlags struct {
	filter       control.DeliveryFilter
	since, until string
	limit        int
}

func deliveryList(s stdio) *cobra.Command {
	var t target
	var out format
	var f listFlags
	c := &cobra.Command{
		Use: "list", Short: "List deliveries and their state",
		Long: "List deliveries, those owed last first. What the ledger knows lags behind by about a second.",
		Example: `  waybill delivery list --state dead_lettered --since 24h
  waybill delivery list --tenant acme --type order.paid -o json`,
	}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().StringVar(&f.filter.Tenant, "tenant", "", "of this tenant only")
	c.Flags().StringVar(&f.filter.EventID, "event", "", "of this event only")
	c.Flags().StringVar(&f.filter.EndpointID, "endpoint", "", "to this endpoint only")
	c.Flags().StringVar(&f.filter.EventType, "type", "", "of events of this type only")
	c.Flags().StringVar(&f.filter.State, "state", "", "pending, delivered, dead_lettered or cancelled")
	c.Flags().StringVar(&f.filter.Reason, "reason", "", "ended for this reason only, such as attempts_exhausted")
	c.Flags().StringVar(&f.since, "since", "", "owed at this time or later: RFC 3339, or so long ago, such as 24h")
	c.Flags().StringVar(&f.until, "until", "", "owed before this time: RFC 3339, or so long ago")
	c.Flags().IntVar(&f.limit, "limit", control.DefaultPage, "at most so many")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := firstError(out.check(), f.check(time.Now())); err != nil {
			return err
		}
		return t.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			page, err := f.collect(ctx, ctl)
			if err != nil {
				return err
			}
			if len(page.Deliveries) == 0 {
				if err := tenantOnRecord(ctx, ctl, f.filter.Tenant); err != nil {
					return err
				}
			}
			if err := printDeliveries(s, out, page); err != nil {
				return err
			}
			if page.Next != "" && out != "json" {
				_, err = fmt.Fprintf(s.err, "there are more; see them with a higher --limit (now %d)\n", f.limit)
			}
			return err
		})
	}
	return c
}

func (f *listFlags) check(now time.Time) (err error) {
	if f.limit < 1 || f.limit > 100_000 {
		return process.Usagef("--limit %d: want 1 to 100000", f.limit)
	}
	if f.filter.EndpointID != "" {
		if err := checkEndpointID(f.filter.EndpointID); err != nil {
			return err
		}
	}
	switch f.filter.State {
	case "", outcome.StatePending, outcome.StateDelivered, outcome.StateDeadLettered, outcome.StateCancelled:
	default:
		return process.Usagef("--state %q: want pending, delivered, dead_lettered or cancelled", f.filter.State)
	}
	if f.filter.EventID != "" {
		if err := checkEventID(f.filter.EventID); err != nil {
			return err
		}
	}
	if f.filter.Since, err = moments("since", f.since, now); err != nil {
		return err
	}
	if f.filter.Until, err = moments("until", f.until, now); err != nil {
		return err
	}
	return checkTenant(f.filter.Tenant)
}

// moments reads a point in time, or how long ago it was.
func moments(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, process.Usagef("--%s %q: want RFC 3339, such as %s, or how long ago, such as 24h", flag, s,
			now.UTC().Format(time.RFC3339))
	}
	return t, nil
}

// collect reads pages until there are as many as --limit says; Next of what it
// returns is where more begin.
func (f *listFlags) collect(ctx context.Context, ctl *control.Control) (control.DeliveryPage, error) {
	out := control.DeliveryPage{Deliveries: []control.Delivery{}}
	for {
		page, err := ctl.Deliveries(ctx, f.filter, out.Next, min(f.limit-len(out.Deliveries), control.MaxPage))
		if err != nil {
			return out, err
		}
		out.Deliveries, out.Next = append(out.Deliveries, page.Deliveries...), page.Next
		if out.Next == "" || len(out.Deliveries) >= f.limit {
			return out, nil
		}
	}
}

func printDeliveries(s stdio, out format, page control.DeliveryPage) error {
	if out == "json" {
		return printJSON(s.out, page)
	}
	t := table{header: []string{"EVENT", "ENDPOINT", "TYPE", "STATE", "ATTEMPTS", "OWED AT", "REASON"},
		wide: []string{"OWED AT", "TYPE", "ATTEMPTS", "REASON"}, clip: []string{"TYPE", "REASON"}}
	for _, d := range page.Deliveries {
		t.add(d.EventID, d.EndpointID, clip(d.EventType, 30), d.State, strconv.Itoa(d.Attempts), moment(d.OwedAt), d.Reason)
	}
	return t.show(s, out, "no deliveries match")
}

const (
	// waitPoll is how often the ledger is asked: it lags by about a second, so
	// asking more often would tell nothing sooner.
	waitPoll = 250 * time.Millisecond
)

func deliveryWait(s stdio) *cobra.Command {
	var f askFlags
	var timeout time.Duration
	c := &cobra.Command{
		Use: "wait EVENT", Short: "Wait until every delivery of an event has ended",
		Long: `Wait until every delivery of an event has ended, delivered or not, and list them.
Exit status 1 when that takes longer than --timeout.`,
		Example: "  waybill delivery wait evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --timeout 30s -o json",
		Args:    process.OneArg("event id", "waybill delivery wait evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(f.out.check(), checkEventID(args[0])); err != nil {
			return err
		}
		if timeout <= 0 {
			return process.Usagef("--timeout %s: want more than 0s", timeout)
		}
		return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			list, err := waitEnded(ctx, ctl, args[0])
			if err != nil {
				return err
			}
			return printDeliveries(s, f.out, control.DeliveryPage{Deliveries: list})
		})
	}
	return c
}

// waitEnded returns the deliveries of an event once none is pending.
func waitEnded(ctx context.Context, ctl *control.Control, event string) ([]control.Delivery, error) {
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		list, why, err := ended(ctx, ctl, event)
		if err == nil && why == "" {
			return list, nil
		}
		if err != nil && ctx.Err() == nil {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("event %s: %s; wait longer with --timeout, or see: waybill delivery show %s", event,
				first(why, "the ledger did not answer in time"), event)
		}
	}
}

// ended lists an event's deliveries, with what is still to wait for.
func ended(ctx context.Context, ctl *control.Control, event string) (list []control.Delivery, why string, err error) {
	e, err := ctl.Event(ctx, "", event, false)
	var known *control.Error
	if errors.As(err, &known) && known.Code == control.CodeNotFound {
		return nil, "it is not in the ledger yet", nil
	}
	if err != nil {
		return nil, "", err
	}
	f := listFlags{filter: control.DeliveryFilter{EventID: event}, limit: 100_000}
	page, err := f.collect(ctx, ctl)
	if err != nil {
		return nil, "", err
	}
	list = page.Deliveries
	pending := 0
	for _, d := range list {
		if d.State == outcome.StatePending {
			pending++
		}
	}
	switch {
	case len(list) < e.Endpoints:
		return nil, fmt.Sprintf("%d of %s not in the ledger yet", e.Endpoints-len(list),
			text.Count(e.Endpoints, "delivery is", "deliveries are")), nil
	case pending > 0:
		return nil, fmt.Sprintf("%d of %s still pending", pending, text.Count(len(list), "delivery is", "deliveries are")),
			nil
	}
	return list, "", nil
}
