package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const policyExample = "waybill policy show ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --type lab_result.critical"

func termsCommand(s stdio) *cobra.Command {
	return group("policy", "See which deadline and schedule hold, and why", "  "+policyExample, termsShow(s))
}

func termsShow(s stdio) *cobra.Command {
	var f askFlags
	var eventType string
	var within time.Duration
	c := &cobra.Command{
		Use: "show ENDPOINT", Short: "Show which rule wins for a delivery, and its schedule",
		Long: `Show what would hold for an event of a type that is owed to an endpoint now:
which rule sets its deadline and its policy, and when its attempts would be made if
each of them failed at once.`,
		Example: "  " + policyExample + "\n  " + policyExample + " --deliver-within 2m -o json",
		Args:    process.OneArg("endpoint id", policyExample),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&eventType, "type", "", "type of the event (required)")
	c.Flags().DurationVar(&within, "deliver-within", 0, "the deadline that the event itself brings, from now; 0s for none")
	c.RunE = func(c *cobra.Command, args []string) error {
		if eventType == "" {
			return missing("type", "lab_result.critical")
		}
		if err := envelope.ValidateType(eventType); err != nil {
			return process.Usagef("--type: %w", err)
		}
		if within < 0 {
			return process.Usagef("--deliver-within %s: want 0s or more", within)
		}
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Terms, error) {
			return ctl.Explain(ctx, args[0], eventType, control.Duration(within))
		}, printTerms)
	}
	return c
}

func printTerms(s stdio, out format, t control.Terms) error {
	if out == "json" {
		return printJSON(s.out, t)
	}
	var f fields
	f.add("endpoint", t.EndpointID)
	f.add("type", t.Type)
	deadline := "none"
	if t.DeliverWithin > 0 {
		deadline = t.DeliverWithin.String() + " after it is owed"
	}
	f.add("deadline", deadline+": "+t.DeadlineFrom.String())
	f.add("policy", asJSON(t.Policy))
	f.add("policy from", t.PolicyFrom.String())
	f.add("attempts end", endText(t))
	if err := f.write(s.out); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	rows := table{header: []string{"ATTEMPT", "EARLIEST", "LATEST", ""}}
	for _, p := range t.Schedule {
		note := " "
		if p.Cut {
			note = "cut: no attempt starts then or later"
		}
		rows.add(strconv.Itoa(p.Attempt), p.Earliest.String(), p.Latest.String(), note)
	}
	if err := rows.show(s, out, "no attempt: the whole time is reserved for telling a human"); err != nil {
		return err
	}
	switch {
	case t.More:
		_, err := fmt.Fprintln(s.out, "further attempts follow for as long as there is time")
		return err
	case t.Dropped > 0:
		_, err := fmt.Fprintf(s.out, "for %d more attempts of the policy there is never time\n", t.Dropped)
		return err
	}
	return nil
}

func endText(t control.Terms) string {
	switch t.EndedBy {
	case "deadline":
		return fmt.Sprintf("%s after it is owed; the %s until the deadline are kept for telling a human", t.AttemptsEnd,
			t.Reserve)
	case "window":
		return fmt.Sprintf("%s after it is owed: the policy's window", t.AttemptsEnd)
	}
	return "with the last attempt of the policy"
}
