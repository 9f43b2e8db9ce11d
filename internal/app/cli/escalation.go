package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func escalationCommand(s stdio) *cobra.Command {
	return group("escalation", "See what people are being told of, and take it",
		"  waybill escalation list --state open\n  waybill escalation ack inc_5f1c9a0b3d7e2f4a6b8c --by ann@example.com",
		escalationList(s), escalationShow(s), escalationAck(s))
}

func escalationList(s stdio) *cobra.Command {
	var f askFlags
	var filter control.EscalationFilter
	var state string
	c := &cobra.Command{Use: "list", Short: "List the incidents that people are told of",
		Long: `List incidents, the latest first: those of the last week. An incident is the first
dead letter of an endpoint under a policy, and those that followed until a person
acknowledged. When more than five endpoints of a tenant fail at once, one incident is
for all others.`,
		Example: "  waybill escalation list --state open\n  waybill escalation list --tenant acme -o json"}
	f.bind(c.Flags())
	c.Flags().StringVar(&filter.Tenant, "tenant", "", "of this tenant only")
	c.Flags().StringVar(&state, "state", "", "open, acknowledged or expired")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkTenant(filter.Tenant); err != nil {
			return err
		}
		switch filter.State = escalation.State(state); filter.State {
		case "", escalation.Open, escalation.Acknowledged, escalation.Expired:
		default:
			return process.Usagef("--state %q: want open, acknowledged or expired", state)
		}
		if err := f.out.check(); err != nil {
			return err
		}
		return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			list, err := ctl.Escalations(ctx, filter)
			if err != nil {
				return err
			}
			if f.out == "json" {
				return printJSON(s.out, control.EscalationList{Escalations: list})
			}
			if err := printEscalations(s, f.out, list); err != nil {
				return err
			}
			return warnUncovered(ctx, s, ctl)
		})
	}
	return c
}

func printEscalations(s stdio, out format, list []control.Escalation) error {
	t := table{header: []string{"INCIDENT", "STATE", "ABOUT", "COUNT", "TOLD AT", "BY", "TENANT", "POLICY", "OPENED AT",
		"STEP"},
		wide: []string{"STEP", "OPENED AT", "POLICY", "TENANT", "BY", "TOLD AT"}, clip: []string{"BY"}}
	for _, e := range list {
		told := moment(e.ToldAt)
		if told == "" {
			told = "NOBODY TOLD"
		}
		t.add(e.ID, string(e.State), about(e), fmt.Sprint(e.Count), told, e.AckedBy, e.Tenant, e.Policy, moment(e.OpenedAt),
			fmt.Sprint(e.Step))
	}
	return t.show(s, out, "no incidents match")
}

// about says in a column what an incident is about.
func about(e control.Escalation) string {
	switch {
	case e.Scope == escalation.OneEndpoint:
		return e.First.EndpointID
	case len(e.Endpoints) > 0:
		return fmt.Sprintf("%d endpoints", len(e.Endpoints))
	case e.First.Kind == record.OperatorAction:
		return "alarms"
	}
	return "rejected events"
}

func escalationShow(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "show ID", Short: "Show an incident: what for, and how far each channel has come",
		Long: "Show an incident, by its id or by the record id of a dead letter in it.",
		Example: "  waybill escalation show inc_5f1c9a0b3d7e2f4a6b8c\n  waybill escalation show " +
			"delivery.dead_lettered/evt_1/ep_2",
		Args: process.OneArg("incident id", "waybill escalation show inc_5f1c9a0b3d7e2f4a6b8c")}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Escalation, error) {
			return ctl.Escalation(ctx, args[0])
		}, printEscalation)
	}
	return c
}

func escalationAck(s stdio) *cobra.Command {
	var f askFlags
	var by, note string
	c := &cobra.Command{Use: "ack ID", Short: "Take an incident: nobody else is told of it",
		Long: `Take an incident in the name of a person. Its messages stop at once, and the
acknowledgement is on record for each of its dead letters. What comes afterwards
is an incident of its own.`,
		Example: "  waybill escalation ack inc_5f1c9a0b3d7e2f4a6b8c --by ann@example.com --note 'calling the lab'",
		Args:    process.OneArg("incident id", "waybill escalation ack inc_5f1c9a0b3d7e2f4a6b8c --by ann@example.com")}
	f.bind(c.Flags())
	c.Flags().StringVar(&by, "by", "", "who takes it (required)")
	c.Flags().StringVar(&note, "note", "", "for the record and for those who were told")
	c.RunE = func(c *cobra.Command, args []string) error {
		if by == "" {
			return missing("by", "ann@example.com")
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Escalation, error) {
			return ctl.AcknowledgeEscalation(ctx, args[0], by, note)
		}, printTaken)
	}
	return c
}

// printTaken says first what was taken: it may be more than the last message told of.
func printTaken(s stdio, out format, e control.Escalation) error {
	if out != "json" {
		if _, err := fmt.Fprintf(s.out, "%s has taken %s\n\n", printable(e.AckedBy), e.Takes); err != nil {
			return err
		}
	}
	return printEscalation(s, out, e)
}

func printEscalation(s stdio, out format, e control.Escalation) error {
	if out == "json" {
		return printJSON(s.out, e)
	}
	told := "nobody yet"
	if e.Told {
		told = moment(e.ToldAt)
	}
	taken := ""
	if e.AckedBy != "" {
		taken = e.AckedBy + " at " + moment(e.AckedAt)
	}
	label, first := "dead letters", e.First.Reason
	switch {
	case e.First.EndpointID != "":
		first = e.First.EventID + " to " + e.First.EndpointID + ": " + first
	case e.First.Kind == record.OperatorAction:
		label = "alarms"
		first += ": " + e.First.Why
	case e.First.EventID != "":
		first = e.First.EventID + ": " + first
	}
	f := fields{{"incident", e.ID}, {"state", string(e.State)}, {"tenant", e.Tenant},
		{"policy", fmt.Sprintf("%s, step %d of round %d", e.Policy, e.Step, e.Round)},
		{"opened at", moment(e.OpenedAt)}, {"promised by", moment(e.DeliverBy)}, {"told at", told}, {"taken by", taken},
		{"note", e.AckNote},
		{label, fmt.Sprint(e.Count)}, {"first", first}, {"reasons", counts(e.Reasons)}, {"endpoints", counts(e.Endpoints)}}
	if err := f.write(s.out); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(s.out); err != nil {
		return err
	}
	t := table{header: []string{"STEP", "CHANNEL", "TOLD AT", "TRIES", "LAST OUTCOME", "NEXT TRY"},
		wide: []string{"TRIES", "TOLD AT"}}
	for _, r := range e.Channels {
		t.add(fmt.Sprint(r.Step), r.Channel, moment(r.ToldAt), fmt.Sprint(r.Tries), r.Outcome, moment(r.TryAt))
		t.note(r.Error)
	}
	return t.show(s, out, "no channel was tried yet")
}

// counts lists the names with their numbers, the most frequent first.
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	var out []string
	for i, n := range names {
		if i == 10 {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s %d", n, m[n]))
	}
	return strings.Join(out, ", ")
}
