package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func deadletterCommand(s stdio) *cobra.Command {
	return group("deadletter", "See what was not delivered, who owns it, and how late it is",
		"  waybill deadletter list --resolution open\n  waybill deadletter ack evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --by "+
			"ann@example.com",
		deadletterList(s), deadletterShow(s), deadletterAck(s), deadletterResolve(s))
}

func deadletterList(s stdio) *cobra.Command {
	var t target
	var out format
	var f control.DeadLetterFilter
	var since, until string
	var limit int
	c := &cobra.Command{Use: "list", Short: "List dead letters with their owner and clock",
		Long: `List dead letters, the latest first: why, whether people were told in time, who owns
it, and how late it is. What the ledger knows lags behind by about a second.`,
		Example: "  waybill deadletter list --resolution open --since 24h\n  waybill deadletter list --reason " +
			"endpoint_unreachable -o json"}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().StringVar(&f.Tenant, "tenant", "", "of this tenant only")
	c.Flags().StringVar(&f.EventID, "event", "", "of this event only")
	c.Flags().StringVar(&f.EndpointID, "endpoint", "", "to this endpoint only")
	c.Flags().StringVar(&f.Reason, "reason", "", "for this reason only, such as endpoint_unreachable")
	c.Flags().StringVar(&f.Resolution, "resolution", "", "open, replayed, delivered, 'delivered before' or resolved")
	c.Flags().StringVar(&since, "since", "", "ended at this time or later: RFC 3339, or so long ago, such as 24h")
	c.Flags().StringVar(&until, "until", "", "ended before this time: RFC 3339, or so long ago")
	c.Flags().IntVar(&limit, "limit", control.DefaultPage, "at most so many")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > control.MaxPage {
			return process.Usagef("--limit %d: want 1 to %d", limit, control.MaxPage)
		}
		switch f.Resolution {
		case "", "open", "replayed", "delivered", "delivered before", "resolved":
		default:
			return process.Usagef("--resolution %q: want open, replayed, delivered, 'delivered before' or resolved",
				f.Resolution)
		}
		if f.EndpointID != "" {
			if err := checkEndpointID(f.EndpointID); err != nil {
				return err
			}
		}
		var err error
		if f.Since, err = moments("since", since, time.Now()); err != nil {
			return err
		}
		if f.Until, err = moments("until", until, time.Now()); err != nil {
			return err
		}
		if err := firstError(out.check(), checkTenant(f.Tenant)); err != nil {
			return err
		}
		return t.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			page, err := collectDeadLetters(ctx, ctl, f, limit)
			if err != nil {
				return err
			}
			if len(page.DeadLetters) == 0 {
				if err := tenantOnRecord(ctx, ctl, f.Tenant); err != nil {
					return err
				}
			}
			if err := printDeadLetters(s, out, page); err != nil {
				return err
			}
			if page.Next != "" && out != "json" {
				_, err = fmt.Fprintf(s.err, "there are more; see them with a higher --limit (now %d) or --until\n", limit)
			}
			return err
		})
	}
	return c
}

// collectDeadLetters reads pages until there are as many as limit says: a page
// may be short.
func collectDeadLetters(ctx context.Context, ctl *control.Control, f control.DeadLetterFilter,
	limit int) (control.DeadLetterPage, error) {
	out := control.DeadLetterPage{DeadLetters: []control.DeadLetter{}}
	for {
		page, err := ctl.DeadLetters(ctx, f, out.Next, limit-len(out.DeadLetters))
		if err != nil {
			return out, err
		}
		out.DeadLetters, out.Next = append(out.DeadLetters, page.DeadLetters...), page.Next
		if out.Next == "" || len(out.DeadLetters) >= limit {
			return out, nil
		}
	}
}

func printDeadLetters(s stdio, out format, page control.DeadLetterPage) error {
	if out == "json" {
		return printJSON(s.out, page)
	}
	t := table{header: []string{"EVENT", "ENDPOINT", "REASON", "ENDED AT", "TOLD", "OWNER", "RESOLUTION", "OPEN FOR",
		"LATE BY"},
		wide: []string{"ENDED AT", "LATE BY", "OWNER", "TOLD", "OPEN FOR", "RESOLUTION"}, clip: []string{"REASON", "OWNER"}}
	for _, d := range page.DeadLetters {
		late := ""
		if d.LateBy > 0 {
			late = d.LateBy.String()
		}
		t.add(d.EventID, d.EndpointID, d.Reason, moment(d.DeadLetteredAt), toldText(d), d.Owner, d.Resolution,
			d.OpenFor.String(), late)
	}
	return t.show(s, out, "no dead letters match")
}

// toldWithin is the promise: what happened later than so long ago, or is past
// its deadline, somebody should know of.
const toldWithin = 5 * time.Minute

func toldText(d control.DeadLetter) string {
	switch {
	case d.EscalatedAt.IsZero() && d.LateBy == 0 && time.Duration(d.OpenFor) < toldWithin:
		return "not yet" // people are told of several in one message
	case d.EscalatedAt.IsZero():
		return "NOBODY"
	case d.EscalatedInTime:
		return "in time"
	}
	return "late"
}

// oneDeadLetter are the flags of what is about one of them.
type oneDeadLetter struct {
	askFlags
	endpoint string
	by       string
}

func (o *oneDeadLetter) bind(c *cobra.Command, by string) {
	o.askFlags.bind(c.Flags())
	c.Flags().StringVar(&o.endpoint, "endpoint", "",
		"to this endpoint; needed where the event is a dead letter to several")
	if by != "" {
		c.Flags().StringVar(&o.by, "by", "", by)
	}
}

func (o *oneDeadLetter) run(c *cobra.Command, s stdio, args []string,
	do func(context.Context, *control.Control) (control.DeadLetter, error)) error {
	if err := checkEventID(args[0]); err != nil {
		return err
	}
	if o.endpoint != "" {
		if err := checkEndpointID(o.endpoint); err != nil {
			return err
		}
	}
	return answer(c, s, &o.askFlags, do, printDeadLetter)
}

const anEvent = "evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"

func deadletterShow(s stdio) *cobra.Command {
	var o oneDeadLetter
	c := &cobra.Command{Use: "show EVENT", Short: "Show a dead letter",
		Long:    "Show a dead letter: why, who was told when, who owns it, and its clock.",
		Example: "  waybill deadletter show " + anEvent, Args: process.OneArg("event id", "waybill deadletter show "+anEvent)}
	o.bind(c, "")
	c.RunE = func(c *cobra.Command, args []string) error {
		return o.run(c, s, args, func(ctx context.Context, ctl *control.Control) (control.DeadLetter, error) {
			return ctl.DeadLetter(ctx, args[0], o.endpoint)
		})
	}
	return c
}

func deadletterAck(s stdio) *cobra.Command {
	var o oneDeadLetter
	var note string
	c := &cobra.Command{Use: "ack EVENT", Short: "Take a dead letter: its owner is a named person",
		Long: `Take a dead letter in the name of a person, who owns it from then on. Messages about
it stop where it is alone in its incident; where it is not, take the incident:
waybill escalation ack.`,
		Example: "  waybill deadletter ack " + anEvent + " --by ann@example.com --note 'calling the lab'",
		Args:    process.OneArg("event id", "waybill deadletter ack "+anEvent+" --by ann@example.com")}
	o.bind(c, "who takes it (required)")
	c.Flags().StringVar(&note, "note", "", "for the record")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.by == "" {
			return missing("by", "ann@example.com")
		}
		return o.run(c, s, args, func(ctx context.Context, ctl *control.Control) (control.DeadLetter, error) {
			d, err := ctl.AcknowledgeDeadLetter(ctx, args[0], o.endpoint, o.by, note)
			if err == nil {
				stillTold(ctx, ctl, s, d)
			}
			return d, err
		})
	}
	return c
}

func deadletterResolve(s stdio) *cobra.Command {
	var o oneDeadLetter
	var reason string
	c := &cobra.Command{Use: "resolve EVENT", Short: "Settle a dead letter in another way than by delivery",
		Long: `Put on record that a dead letter is settled, by whom and why: told by phone, or void.
Messages about it end when its incident is taken: waybill escalation ack.
To deliver it after all, replay it: waybill replay event.`,
		Example: "  waybill deadletter resolve " + anEvent + " --by ann@example.com --reason 'told the ward by phone'",
		Args: process.OneArg("event id", "waybill deadletter resolve "+anEvent+
			" --by ann@example.com --reason 'told the ward by phone'")}
	o.bind(c, "who settles it (required)")
	c.Flags().StringVar(&reason, "reason", "", "how, or why it is void, for the record (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.by == "" {
			return missing("by", "ann@example.com")
		}
		if reason == "" {
			return missing("reason", "'told the ward by phone'")
		}
		return o.run(c, s, args, func(ctx context.Context, ctl *control.Control) (control.DeadLetter, error) {
			d, err := ctl.ResolveDeadLetter(ctx, args[0], o.endpoint, o.by, reason)
			if err == nil {
				stillTold(ctx, ctl, s, d)
			}
			return d, err
		})
	}
	return c
}

// stillTold warns of messages that go on: they end with the incident alone.
func stillTold(ctx context.Context, ctl *control.Control, s stdio, d control.DeadLetter) {
	i, err := ctl.Escalation(ctx, record.EndID(record.DeliveryDeadLetter, d.EventID, d.EndpointID, d.ReplayID))
	if err == nil && i.State == escalation.Open {
		fmt.Fprintf(s.err, "warning: people are told of it until somebody takes its incident: waybill escalation ack %s "+
			"--by YOUR-NAME\n", i.ID)
	}
}

func printDeadLetter(s stdio, out format, d control.DeadLetter) error {
	if out == "json" {
		return printJSON(s.out, d)
	}
	owner, late := "nobody", ""
	if d.Owner != "" {
		owner = d.Owner + " since " + moment(d.OwnedAt)
	}
	if d.LateBy > 0 {
		late = d.LateBy.String()
	}
	told := "nobody"
	if !d.EscalatedAt.IsZero() {
		told = moment(d.EscalatedAt) + ", " + toldText(d)
	}
	resolution := d.Resolution
	if d.ResolvedBy != "" {
		resolution += " by " + d.ResolvedBy + ": " + d.ResolutionReason
	}
	f := fields{{"event", d.EventID}, {"type", d.EventType}, {"tenant", d.Tenant}, {"endpoint", d.EndpointID},
		{"replay", d.ReplayID},
		{"reason", d.Reason}, {"why", d.Detail}, {"attempts", strconv.Itoa(d.Attempts)},
		{"ended at", moment(d.DeadLetteredAt)}, {"promised by", moment(d.DeliverBy)},
		{"told", told}, {"incident", d.IncidentID}, {"owner", owner}, {"resolution", resolution},
		{"open for", d.OpenFor.String()}, {"late by", late}}
	return f.write(s.out)
}
