package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

const eventTypeExample = "waybill event-type set 'lab_result.>' --deliver-within 2m"

func eventTypeCommand(s stdio) *cobra.Command {
	return group("event-type", "Set deadlines and policies by event type",
		"  "+eventTypeExample+"\n  waybill event-type list",
		eventTypeSet(s), eventTypeList(s), eventTypeShow(s), eventTypeDelete(s), eventTypeLint(s))
}

func eventTypeSet(s stdio) *cobra.Command {
	var f changeFlags
	var deliverWithin time.Duration
	var description, schedule string
	var tenant string
	c := &cobra.Command{
		Use: "set TYPE_PATTERN", Short: "Set the deadline and policy of event types",
		Long: `Set what holds for a tenant's events of the types that a pattern matches: the
whole of it, so what is not named is no longer set. It takes effect at the next
event (deadline) and at the next attempt (policy). Of several patterns that match,
the one that names the type most closely wins, for each setting by itself.`,
		Example: "  " + eventTypeExample + "\n  waybill event-type set report.monthly --tenant acme --policy " +
			"'{\"delays\":[\"1h\",\"6h\"]}' --reason 'ticket 4711'",
		Args: process.OneArg("pattern of event types", eventTypeExample),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", control.DefaultTenant, "owner of the events")
	c.Flags().DurationVar(&deliverWithin, "deliver-within", 0, "deadline for events that bring none")
	c.Flags().StringVar(&schedule, "policy", "",
		"schedule of attempts where the endpoint has none: standard, urgent, a JSON object, or @FILE")
	c.Flags().StringVar(&description, "description", "", "for people")
	c.RunE = func(c *cobra.Command, args []string) error {
		policy, err := readPolicy(schedule)
		if err == nil {
			err = firstError(checkPattern(args[0]), checkTenant(tenant))
		}
		if err != nil {
			return err
		}
		if deliverWithin < 0 {
			return process.Usagef("--deliver-within %s: want more than 0s", deliverWithin)
		}
		if deliverWithin == 0 && policy == nil {
			return process.Usagef("nothing to set; name --deliver-within or --policy, or delete the event type with: waybill "+
				"event-type delete '%s'", args[0])
		}
		spec := control.EventTypeSpec{Description: description, Policy: policy,
			DeliverWithin: control.Duration(deliverWithin)}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.EventType, error) {
			return ctl.SetEventType(ctx, tenant, args[0], spec, actorOr(f.actor), f.reason)
		}, printEventType)
	}
	return c
}

func eventTypeList(s stdio) *cobra.Command {
	var f askFlags
	var tenant string
	c := &cobra.Command{
		Use: "list", Short: "List what is set for event types",
		Long: "List what is set for event types. Of a tenant's patterns that match, the first one that sets something " +
			"wins.",
		Example: "  waybill event-type list --tenant acme",
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", "", "of this tenant only")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkTenant(tenant); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) ([]control.EventType, error) {
			return ctl.EventTypes(ctx, tenant)
		}, printEventTypes)
	}
	return c
}

func eventTypeShow(s stdio) *cobra.Command {
	var f askFlags
	var tenant string
	c := &cobra.Command{
		Use: "show TYPE_PATTERN", Short: "Show what is set for one pattern",
		Long:    "Show what is set for exactly this pattern. What holds for an event is what waybill policy show says.",
		Example: "  waybill event-type show 'lab_result.>' --tenant acme",
		Args:    process.OneArg("pattern of event types", "waybill event-type show 'lab_result.>'"),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", control.DefaultTenant, "owner of the events")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(checkPattern(args[0]), checkTenant(tenant)); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.EventType, error) {
			return ctl.EventType(ctx, tenant, args[0])
		}, printEventType)
	}
	return c
}

func eventTypeDelete(s stdio) *cobra.Command {
	var f changeFlags
	var tenant string
	c := &cobra.Command{
		Use: "delete TYPE_PATTERN", Short: "End what is set for one pattern",
		Long: "End what is set for one pattern. A deadline that was promised stands; the policy of what is on its way " +
			"changes at its next attempt.",
		Example: "  waybill event-type delete 'lab_result.>' --reason 'moved to the endpoints'",
		Args:    process.OneArg("pattern of event types", "waybill event-type delete 'lab_result.>'"),
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", control.DefaultTenant, "owner of the events")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(checkPattern(args[0]), checkTenant(tenant)); err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.EventType, error) {
			return ctl.DeleteEventType(ctx, tenant, args[0], actorOr(f.actor), f.reason)
		}, printEventType)
	}
	return c
}

func checkPattern(pattern string) error {
	if err := subscription.Validate(pattern); err != nil {
		return process.Usagef("pattern of event types: %w", err)
	}
	return nil
}

func printEventTypes(s stdio, out format, list []control.EventType) error {
	if out == "json" {
		return printJSON(s.out, control.EventTypeList{EventTypes: append([]control.EventType{}, list...)})
	}
	t := table{header: []string{"PATTERN", "TENANT", "DELIVER WITHIN", "POLICY"},
		wide: []string{"TENANT"}, clip: []string{"PATTERN", "POLICY"}}
	for _, e := range list {
		within, policy := "", ""
		if e.DeliverWithin > 0 {
			within = e.DeliverWithin.String()
		}
		if e.Policy != nil {
			policy = asJSON(e.Policy)
			if e.Policy.Name != "" {
				policy = e.Policy.Name
			}
		}
		t.add(e.Pattern, e.Tenant, within, clip(policy, 60))
	}
	return t.show(s, out, "nothing is set for any event type; set something with: "+eventTypeExample)
}

func printEventType(s stdio, out format, e control.EventType) error {
	if out == "json" {
		return printJSON(s.out, e)
	}
	var f fields
	f.add("pattern", e.Pattern)
	f.add("tenant", e.Tenant)
	f.add("description", e.Description)
	if e.DeliverWithin > 0 {
		f.add("deliver within", e.DeliverWithin.String())
	}
	if e.Policy != nil {
		f.add("policy", asJSON(e.Policy))
	}
	f.add("revision", fmt.Sprintf("%d, %s by %s at %s", e.Revision, e.Change, e.UpdatedBy, moment(e.UpdatedAt)))
	f.add("reason", e.Reason)
	return f.write(s.out)
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
