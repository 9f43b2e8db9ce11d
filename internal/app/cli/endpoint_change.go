package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func endpointEnable(s stdio) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{
		Use: "enable ENDPOINT", Short: "Let an endpoint get events again",
		Long: "Let an endpoint get events again: those that are accepted from now on. What it missed is listed by " +
			"waybill endpoint missed, and can be replayed.",
		Example: "  waybill endpoint enable ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'their incident is over'",
		Args:    process.OneArg("endpoint id", "waybill endpoint enable ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.RunE = f.act(s, (*control.Control).EnableEndpoint)
	return c
}

func endpointDisable(s stdio) *cobra.Command {
	var f changeFlags
	var yes bool
	c := &cobra.Command{
		Use: "disable ENDPOINT", Short: "Stop an endpoint's deliveries",
		Long: `Stop an endpoint's deliveries: those on their way end as dead letters, each when it is
next due, and it is owed no event until it is enabled. When deliveries wait, it says
how many and asks first, or wants --yes. What the endpoint misses meanwhile is listed
by waybill endpoint missed.`,
		Example: "  waybill endpoint disable ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'receiver moved, ticket 4711'",
		Args: process.OneArg("endpoint id", "waybill endpoint disable ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'receiver "+
			"moved'"),
	}
	f.bind(c.Flags())
	bindYes(c.Flags(), &yes)
	c.Flags().Lookup("reason").Usage = "why, for the record (required)"
	stop := f.stop(s, &yes, (*control.Control).DisableEndpoint)
	c.RunE = func(c *cobra.Command, args []string) error {
		if f.reason == "" {
			return missing("reason", "'receiver moved, ticket 4711'")
		}
		return stop(c, args)
	}
	return c
}

func endpointDelete(s stdio) *cobra.Command {
	var f changeFlags
	var yes bool
	c := &cobra.Command{
		Use: "delete ENDPOINT", Short: "End an endpoint for good",
		Long: `End an endpoint for good. What is on its way to it ends as dead letters, each when its
next attempt would have been due; its history stays in the ledger. When deliveries
wait, it says how many and asks first, or wants --yes.`,
		Example: "  waybill endpoint delete ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --reason 'contract ended'",
		Args:    process.OneArg("endpoint id", "waybill endpoint delete ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	bindYes(c.Flags(), &yes)
	c.RunE = f.stop(s, &yes, (*control.Control).DeleteEndpoint)
	return c
}

// stop runs an action that may end deliveries: a person who can be asked is told
// how many and asked; everybody else has to say --yes.
func (f *changeFlags) stop(s stdio, yes *bool, do func(*control.Control, context.Context, string, control.Stop,
	string) (control.Endpoint, error)) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Endpoint, error) {
			e, err := do(ctl, ctx, args[0], control.Stop{Reason: f.reason, EndPending: *yes}, actorOr(f.actor))
			var refused *control.Error
			if !errors.As(err, &refused) || refused.Code != control.CodePendingDeliveries || !asks(s) ||
				!confirmed(s, err.Error()) {
				return e, err
			}
			return do(ctl, ctx, args[0], control.Stop{Reason: f.reason, EndPending: true}, actorOr(f.actor))
		}, printEndpoint)
	}
}

// act runs an action that needs an id, an actor and a reason.
func (f *changeFlags) act(s stdio, do func(*control.Control, context.Context, string, string, string) (control.Endpoint,
	error)) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Endpoint, error) {
			return do(ctl, ctx, args[0], actorOr(f.actor), f.reason)
		}, printEndpoint)
	}
}

func endpointRotate(s stdio) *cobra.Command {
	var f changeFlags
	var overlap time.Duration
	var secret string
	c := &cobra.Command{
		Use: "rotate-secret ENDPOINT", Short: "Add a new secret and print it, this once",
		Long: "Add a new secret, which signs from the next attempt on. The present one signs beside it for --overlap, " +
			"so that the receiver can change over.",
		Example: "  waybill endpoint rotate-secret ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --overlap 72h --reason 'yearly rotation'",
		Args:    process.OneArg("endpoint id", "waybill endpoint rotate-secret ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	f.target.bindKeys(c.Flags())
	c.Flags().DurationVar(&overlap, "overlap", control.DefaultOverlap,
		"how long the present secret signs beside the new one; 0s ends it at once")
	c.Flags().StringVar(&secret, "secret", "", "secret of your own, or @FILE (default: one is made)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		if overlap < 0 {
			return process.Usagef("--overlap %s: want 0s or more", overlap)
		}
		own, err := readValue("secret", secret)
		if err != nil {
			return err
		}
		rotation := control.Rotation{Overlap: (*control.Duration)(&overlap), Secret: own, Reason: f.reason}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.WithSecret, error) {
			return ctl.RotateSecret(ctx, args[0], rotation, actorOr(f.actor))
		}, printSecret)
	}
	return c
}

func endpointTest(s stdio) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{
		Use: "test ENDPOINT", Short: "Send a test event to one endpoint",
		Long: "Send an event of type " + control.TestType +
			" to one endpoint, whatever types it subscribes to, through the same pipeline as every other event.",
		Example: "  waybill endpoint test ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
		Args:    process.OneArg("endpoint id", "waybill endpoint test ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.askFlags.bind(c.Flags())
	bindActor(c.Flags(), &f.actor)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Ack, error) {
			return ctl.TestEndpoint(ctx, args[0], actorOr(f.actor))
		}, printAck)
	}
	return c
}
