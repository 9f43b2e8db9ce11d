package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func escalationPolicyCommand(s stdio) *cobra.Command {
	return group("escalation-policy", "Say who is told of which dead letters, and when",
		"  waybill escalation-policy create oncall --step 0s:oncall-chat,pager --step 10m:lead\n  waybill "+
			"escalation-policy list",
		policyCreate(s), policyList(s), policyShow(s), policyUpdate(s), policyDelete(s))
}

// policySettings are the flags that create and update share.
type policySettings struct {
	steps, tenants, types, reasons []string
	description                    string
	priority                       int
	repeat, longest, window        time.Duration
}

func (p *policySettings) bind(f *pflag.FlagSet) {
	f.StringArrayVar(&p.steps, "step", nil, "AFTER:CHANNEL[,CHANNEL…]; repeatable, the first after 0s")
	f.StringSliceVar(&p.tenants, "tenant", nil, "for dead letters of these tenants only")
	f.StringSliceVar(&p.types, "types", nil, "for these event types only: exact, a.* for one more token, a.> for any more")
	f.StringSliceVar(&p.reasons, "reasons", nil, "for these reason codes only, such as endpoint_unreachable")
	f.StringVar(&p.description, "description", "", "for people")
	f.IntVar(&p.priority, "priority", escalation.DefaultPriority, "the lowest that matches counts")
	f.DurationVar(&p.repeat, "repeat", escalation.DefaultRepeat,
		"start the steps anew so long after the incident began, and again; 0s for never")
	f.DurationVar(&p.longest, "max-duration", escalation.DefaultMaxDuration,
		"the incident ends after that also when nobody acknowledged")
	f.DurationVar(&p.window, "window", escalation.DefaultWindow, "group what follows the first dead letter by so much")
}

func (p *policySettings) parseSteps() (out []control.EscalationStep, err error) {
	for _, text := range p.steps {
		step, err := parseStep(text)
		if err != nil {
			return nil, err
		}
		out = append(out, step)
	}
	return out, nil
}

// patch holds what the command line or the environment named.
func (p *policySettings) patch(f *pflag.FlagSet) (out control.EscalationPolicyPatch, err error) {
	named := map[string]func(){
		"description":  func() { out.Description = &p.description },
		"priority":     func() { out.Priority = &p.priority },
		"tenant":       func() { out.Tenants = &p.tenants },
		"types":        func() { out.Types = &p.types },
		"reasons":      func() { out.Reasons = &p.reasons },
		"repeat":       func() { out.Repeat = (*control.Duration)(&p.repeat) },
		"max-duration": func() { out.MaxDuration = (*control.Duration)(&p.longest) },
		"window":       func() { out.Window = (*control.Duration)(&p.window) },
	}
	for name, set := range named {
		if f.Changed(name) {
			set()
		}
	}
	if f.Changed("step") {
		steps, err := p.parseSteps()
		if err != nil {
			return out, err
		}
		out.Steps = &steps
	}
	if out == (control.EscalationPolicyPatch{}) {
		return out, process.Usagef("nothing to change; name at least one setting, such as --step 0s:oncall-chat")
	}
	return out, nil
}

func policyCreate(s stdio) *cobra.Command {
	var f changeFlags
	var set policySettings
	c := &cobra.Command{Use: "create NAME", Short: "Create an escalation policy",
		Long: `Create an escalation policy: who is told how long after a dead letter, until a named
person acknowledges. Of the policies that match a dead letter's tenant, event type
and reason, the one with the lowest --priority counts; of equals, the first by name.

A step whose channels all fail starts the next one at once while nobody has been
told. What follows the first dead letter is grouped: one message per channel in
each --window.`,
		Example: `  waybill escalation-policy create oncall --step 0s:oncall-chat,pager --step 10m:lead
  waybill escalation-policy create labs --types 'lab_result.>' --priority 10 --step 0s:pager --step 2m:ann --repeat 5m
  waybill escalation-policy create quiet --tenant test --reasons permanently_rejected --step 0s:oncall-chat --repeat 0s`,
		Args: process.OneArg("name", "waybill escalation-policy create oncall --step 0s:oncall-chat")}
	f.bind(c.Flags())
	set.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(set.steps) == 0 {
			return missing("step", "0s:oncall-chat")
		}
		if err := checkName(args[0]); err != nil {
			return err
		}
		steps, err := set.parseSteps()
		if err != nil {
			return err
		}
		spec := control.EscalationPolicySpec{Name: args[0], Description: set.description, Priority: set.priority,
			Tenants: set.tenants, Types: set.types, Reasons: set.reasons,
			Steps: steps, Repeat: (*control.Duration)(&set.repeat), MaxDuration: control.Duration(set.longest),
			Window: control.Duration(set.window), Reason: f.reason}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.EscalationPolicy, error) {
			return ctl.CreateEscalationPolicy(ctx, spec, actorOr(f.actor))
		}, printPolicy, warnUncovered)
	}
	return c
}

func policyUpdate(s stdio) *cobra.Command {
	var f changeFlags
	var set policySettings
	c := &cobra.Command{Use: "update NAME", Short: "Change settings of an escalation policy",
		Long: `Change the settings that are named; the others stay. --step replaces all steps; an
empty list, such as --types '', is for every one. It counts from the next dead
letter on; incidents that began under it go on as they began.`,
		Example: `  waybill escalation-policy update oncall --step 0s:pager --step 5m:lead --reason 'the chat is read too late'
  waybill escalation-policy update labs --types '' --repeat 0s`,
		Args: process.OneArg("name", "waybill escalation-policy update oncall --step 0s:pager")}
	f.bind(c.Flags())
	set.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		patch, err := set.patch(c.Flags())
		if err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.EscalationPolicy, error) {
			return ctl.UpdateEscalationPolicy(ctx, args[0], patch, actorOr(f.actor), f.reason)
		}, printPolicy, warnUncovered)
	}
	return c
}

// parseStep reads "2m:lead,pager".
func parseStep(text string) (control.EscalationStep, error) {
	after, list, ok := strings.Cut(text, ":")
	d, err := time.ParseDuration(strings.TrimSpace(after))
	if !ok || err != nil || d < 0 {
		return control.EscalationStep{}, process.Usagef("--step %q: want AFTER:CHANNEL[,CHANNEL…], such as "+
			"0s:oncall-chat,pager", text)
	}
	step := control.EscalationStep{After: control.Duration(d)}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			step.Channels = append(step.Channels, name)
		}
	}
	if len(step.Channels) == 0 {
		return step, process.Usagef("--step %q names no channel; see: waybill channel list", text)
	}
	return step, nil
}

func policyList(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "list", Short: "List the escalation policies, and for whom there is none",
		Long:    "List the escalation policies, by name. A warning says so where nobody would be told of a dead letter.",
		Example: "  waybill escalation-policy list"}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) ([]control.EscalationPolicy, error) {
			return ctl.EscalationPolicies(ctx)
		}, printPolicies, warnUncovered)
	}
	return c
}

func policyShow(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "show NAME", Short: "Show an escalation policy", Long: "Show an escalation policy.",
		Example: "  waybill escalation-policy show oncall -o json",
		Args:    process.OneArg("name", "waybill escalation-policy show oncall")}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.EscalationPolicy, error) {
			return ctl.EscalationPolicy(ctx, args[0])
		}, printPolicy)
	}
	return c
}

func policyDelete(s stdio) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{Use: "delete NAME", Short: "End an escalation policy",
		Long:    "End an escalation policy. Incidents that began under it go on as they began.",
		Example: "  waybill escalation-policy delete oncall --reason 'replaced by labs'",
		Args:    process.OneArg("name", "waybill escalation-policy delete oncall")}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.EscalationPolicy, error) {
			return ctl.DeleteEscalationPolicy(ctx, args[0], actorOr(f.actor), f.reason)
		}, printPolicyDeleted, warnUncovered)
	}
	return c
}

func printPolicyDeleted(s stdio, out format, p control.EscalationPolicy) error {
	if out == "json" {
		return printJSON(s.out, p)
	}
	_, err := fmt.Fprintf(s.out, "%s is deleted\n", p.Name)
	return err
}

func printPolicy(s stdio, out format, p control.EscalationPolicy) error {
	if out == "json" {
		return printJSON(s.out, p)
	}
	return printPolicies(s, out, []control.EscalationPolicy{p})
}

func printPolicies(s stdio, out format, list []control.EscalationPolicy) error {
	if out == "json" {
		return printJSON(s.out, control.EscalationPolicyList{Policies: append([]control.EscalationPolicy{}, list...),
			Warning: control.Uncovered(list)})
	}
	t := table{header: []string{"NAME", "PRIORITY", "TENANTS", "TYPES", "REASONS", "STEPS", "REPEAT", "MAX", "WINDOW"},
		wide: []string{"WINDOW", "MAX", "REPEAT", "REASONS", "TENANTS", "PRIORITY"},
		clip: []string{"TENANTS", "TYPES", "REASONS", "STEPS"}}
	for _, p := range list {
		var steps []string
		for _, st := range p.Steps {
			steps = append(steps, st.After.String()+":"+strings.Join(st.Channels, ","))
		}
		repeat := p.Repeat.String()
		if p.Repeat == 0 {
			repeat = "never"
		}
		t.add(p.Name, fmt.Sprint(p.Priority), anyOf(p.Tenants), anyOf(p.Types), anyOf(p.Reasons), strings.Join(steps, " "),
			repeat, p.MaxDuration.String(), p.Window.String())
	}
	return t.show(s, out, "no escalation policies")
}

func anyOf(list []string) string {
	if len(list) == 0 {
		return "any"
	}
	return clip(strings.Join(list, ","), 40)
}

// warnUncovered says on standard error where nobody would be told.
func warnUncovered(ctx context.Context, s stdio, ctl *control.Control) error {
	list, err := ctl.EscalationPolicies(ctx)
	if err != nil {
		return err
	}
	if why := control.Uncovered(list); why != "" {
		_, err = fmt.Fprintf(s.err, "warning: %s\n", why)
	}
	return err
}
