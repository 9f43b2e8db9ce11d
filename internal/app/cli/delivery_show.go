package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func deliveryShow(s stdio) *cobra.Command {
	var f askFlags
	var endpoint string
	c := &cobra.Command{
		Use: "show EVENT", Short: "Show every attempt made for an event",
		Long: "Show the deliveries of an event, each with all attempts on record. As JSON: {\"deliveries\":[…]}, or " +
			"with --endpoint that one delivery.",
		Example: "  waybill delivery show evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K\n  waybill delivery show order-17 --endpoint " +
			"ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K -o json",
		Args: process.OneArg("event id", "waybill delivery show evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&endpoint, "endpoint", "", "the delivery to this endpoint only")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(f.out.check(), checkEventID(args[0])); err != nil {
			return err
		}
		if endpoint != "" {
			if err := checkEndpointID(endpoint); err != nil {
				return err
			}
		}
		return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			if endpoint != "" {
				d, err := ctl.Delivery(ctx, args[0], endpoint)
				if err != nil {
					return err
				}
				if f.out == "json" {
					return printJSON(s.out, d)
				}
				return printDelivery(s.out, s.room(f.out), d, time.Now())
			}
			return showAll(ctx, ctl, s, f.out, args[0])
		})
	}
	return c
}

// maxShown keeps one command from reading the attempts of thousands of endpoints.
const maxShown = 200

func showAll(ctx context.Context, ctl *control.Control, s stdio, out format, event string) error {
	f := listFlags{filter: control.DeliveryFilter{EventID: event}, limit: maxShown}
	page, err := f.collect(ctx, ctl)
	if err != nil {
		return err
	}
	list := page.Deliveries
	if page.Next != "" {
		return process.Usagef("event %s has more than %d deliveries; name one with --endpoint, or see: waybill delivery "+
			"list --event %s", event, maxShown, event)
	}
	if len(list) == 0 { // says whether it is unknown or was owed to nobody
		e, err := ctl.Event(ctx, "", event, false)
		if err != nil {
			return err
		}
		if e.Endpoints == 0 && out == "json" {
			return printJSON(s.out, control.DeliveryDetailList{Deliveries: []control.DeliveryDetails{}})
		}
		if e.Endpoints > 0 {
			return fmt.Errorf("event %s is owed to %s, and that is not in the ledger yet; try again in a moment", event,
				text.Count(e.Endpoints, "endpoint", "endpoints"))
		}
		return fmt.Errorf("event %s has no deliveries: it is on record as %s %s; see: waybill event show %s", event, e.State,
			e.Reason, event)
	}
	all := make([]control.DeliveryDetails, 0, len(list))
	for _, d := range list {
		details, err := ctl.Delivery(ctx, event, d.EndpointID)
		if err != nil {
			return err
		}
		all = append(all, details)
	}
	if out == "json" {
		return printJSON(s.out, control.DeliveryDetailList{Deliveries: all})
	}
	for i, d := range all {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := printDelivery(s.out, s.room(out), d, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// printDelivery fits 100 columns: what does not fit a column of the table
// follows its row.
func printDelivery(w io.Writer, room int, d control.DeliveryDetails, now time.Time) error {
	var f fields
	f.add("event", spaced(d.EventID, d.EventType))
	f.add("endpoint", d.EndpointID)
	f.add("state", stateText(d.Delivery))
	f.addTime("owed", d.OwedAt)
	f.addTime("deliver by", d.DeliverBy)
	f.addTime("next attempt", d.NextAttemptAt)
	f.add("put off", putOffText(d.Delivery, now))
	f.add("digest", d.PayloadDigest)
	if err := f.write(w); err != nil {
		return err
	}
	if len(d.History) == 0 {
		none := "\nno attempts are on record yet"
		if d.State != outcome.StatePending {
			none = "\nit ended without an attempt"
		}
		_, err := fmt.Fprintln(w, none)
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := attemptTable(d.History)
	t.room = room
	return t.write(w, "")
}

func stateText(d control.Delivery) string {
	switch d.State {
	case outcome.StateDelivered:
		return d.State + " at " + moment(d.SucceededAt)
	case outcome.StateDeadLettered:
		return fmt.Sprintf("%s at %s: %s", d.State, moment(d.DeadLetteredAt), d.Reason)
	case outcome.StateCancelled:
		return fmt.Sprintf("%s at %s: %s", d.State, moment(d.CancelledAt), d.Reason)
	}
	return d.State
}

// overdue is how late an attempt may be before there is a reason other than
// that the ledger lags behind.
const overdue = 10 * time.Second

// putOffText says that an attempt is due and is not made. What holds it (a breaker, a
// limit, an order, a key, a clock) only the dispatcher knows that has it in hand.
func putOffText(d control.Delivery, now time.Time) string {
	due := d.NextAttemptAt
	if due.IsZero() {
		due = d.OwedAt
	}
	if d.State != outcome.StatePending || d.Attempts > 0 && d.NextAttemptAt.IsZero() || now.Sub(due) < overdue {
		return ""
	}
	return now.Sub(due).Truncate(time.Second).String() + " past due; what holds it is not on record: see waybill doctor"
}

func attemptTable(attempts []record.Record) *table {
	t := &table{header: []string{"#", "STARTED (UTC)", "TOOK", "STATUS", "OUTCOME", "DECISION", "NEXT"},
		wide: []string{"TOOK"}}
	last := 0
	for _, a := range attempts {
		for n := last + 1; n < a.Attempt; n++ {
			t.add(strconv.Itoa(n), "", "", "", string(outcome.Unknown), "", "")
			t.note("not on record: a process died during it, and it may have reached the receiver")
		}
		last = max(last, a.Attempt)
		status := ""
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		duration := took(a.DurationUS)
		if a.Outcome == string(outcome.Unknown) {
			duration = "" // nobody was there to see its end
		}
		t.add(strconv.Itoa(a.Attempt), moment(a.StartedAt), duration, status, a.Outcome, a.Decision, nextText(a))
		t.note(attemptNote(a))
		t.note(cameBack("error", a.Error))
		t.note(cameBack("proxy", a.Proxy))
		t.note(cameBack("answer", a.ResponseExcerpt))
	}
	return t
}

// nextText is how long after the attempt's end the next one is due.
func nextText(a record.Record) string {
	if a.NextAttemptAt.IsZero() {
		return ""
	}
	from := a.StartedAt.Add(time.Duration(a.DurationUS) * time.Microsecond)
	d := a.NextAttemptAt.Sub(from)
	switch {
	case d < time.Minute:
		return "in " + d.Round(10*time.Millisecond).String()
	case d < time.Hour:
		return "in " + strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	}
	return "in " + strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// noteWidth is what fits behind the indent of a line under a row.
const noteWidth = 94

func cameBack(label, text string) string {
	if text == "" {
		return ""
	}
	return clip(printable(label+": "+text), noteWidth)
}

func attemptNote(a record.Record) string {
	var parts []string
	if a.ReplayID != "" {
		parts = append(parts, "replay "+a.ReplayID)
	}
	if a.Reason != "" && a.Reason != a.Outcome {
		parts = append(parts, a.Reason)
	}
	if a.Detail != "" {
		parts = append(parts, a.Detail)
	}
	return clip(printable(strings.Join(parts, ": ")), noteWidth)
}
