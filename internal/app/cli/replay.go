package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func replayCommand(s stdio) *cobra.Command {
	return group("replay", "Send past events again",
		"  waybill replay event evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'receiver lost it, ticket 4711'",
		replayEvent(s))
}

func replayEvent(s stdio) *cobra.Command {
	var f askFlags
	var r control.ReplayRequest
	c := &cobra.Command{
		Use: "event EVENT", Short: "Send one past event again, with its original id",
		Long: `Send one past event again, with its original id, to every endpoint that was owed
it or to the one named. Who asked and why goes on record. Deliveries that are
still pending are left out.`,
		Example: `  waybill replay event evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'receiver lost it, ticket 4711'
  waybill replay event order-17 --endpoint ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'new consumer' --actor jo@example.com`,
		Args: process.OneArg("event id", "waybill replay event evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'ticket 4711'"),
	}
	f.bind(c.Flags())
	bindActor(c.Flags(), &r.Actor)
	c.Flags().StringVar(&r.Tenant, "tenant", "", "the event's tenant; needed when several have an event of this id")
	c.Flags().StringVar(&r.EndpointID, "endpoint", "", "to this endpoint only, also if it was not owed the event")
	c.Flags().StringVar(&r.Reason, "reason", "", "why, for the record (required)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkEventID(args[0]); err != nil {
			return err
		}
		if r.Reason == "" {
			return missing("reason", "'receiver lost it, ticket 4711'")
		}
		if r.EndpointID != "" {
			if err := checkEndpointID(r.EndpointID); err != nil {
				return err
			}
		}
		r.EventID, r.Actor = args[0], actorOr(r.Actor)
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Replay, error) {
			return ctl.Replay(ctx, r)
		}, printReplay)
	}
	return c
}

func printReplay(s stdio, out format, r control.Replay) error {
	if out == "json" {
		return printJSON(s.out, r)
	}
	if _, err := fmt.Fprintf(s.out, "%s  replays %s to %s; follow it with: waybill delivery show %s\n", r.ID, r.EventID,
		text.Count(len(r.Targets), "endpoint", "endpoints"), r.EventID); err != nil {
		return err
	}
	t := table{header: []string{"ENDPOINT", "REPLAYED", "WHY NOT"}, flow: true}
	for _, id := range r.Targets {
		t.add(id, "yes", "")
	}
	for _, sk := range r.Skipped {
		t.add(sk.EndpointID, "no", sk.Reason)
	}
	return t.show(s, out, "")
}
