package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func endpointCommand(s stdio) *cobra.Command {
	return group("endpoint", "Create, change and look at endpoints",
		"  waybill endpoint create --url https://example.com/hooks --types 'order.*'\n  waybill endpoint list",
		endpointCreate(s), endpointList(s), endpointShow(s), endpointUpdate(s), endpointEnable(s),
		endpointDisable(s), endpointMissed(s), endpointDelete(s), endpointRotate(s), endpointReseal(s), endpointTest(s))
}

func endpointCreate(s stdio) *cobra.Command {
	var f changeFlags
	var set endpointSettings
	var tenant, secret string
	c := &cobra.Command{
		Use: "create", Short: "Create an endpoint and print its secret, this once",
		Long: "Create an endpoint, enabled. Its secret is printed this once and cannot be shown again.",
		Example: `  waybill endpoint create --tenant acme --url https://example.com/hooks --types order.paid,refund.*
  waybill endpoint create --url https://example.com/in --types '>' --client-cert c.pem --client-key k.pem --ca ca.pem
  waybill endpoint create --url https://example.com/urgent --types '>' --policy '{"delays":["1s","5s","30s"]}' -o json`,
	}
	f.askFlags.bind(c.Flags())
	bindActor(c.Flags(), &f.actor)
	set.bind(c.Flags(), true)
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", control.DefaultTenant, "owner of the endpoint")
	c.Flags().StringVar(&secret, "secret", "", "signing secret of your own, whsec_… or whsk_…, or @FILE (default: one "+
		"is made)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if set.spec.URL == "" {
			return missing("url", "https://example.com/hooks")
		}
		if len(set.spec.Types) == 0 {
			return missing("types", "'order.*'")
		}
		if err := firstError(set.check(), checkTenant(tenant)); err != nil {
			return err
		}
		own, err := readValue("secret", secret)
		if err != nil {
			return err
		}
		set.spec.Tenant, set.spec.Secret = tenant, own
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.WithSecret, error) {
			return ctl.CreateEndpoint(ctx, set.spec, actorOr(f.actor))
		}, printSecret)
	}
	return c
}

func endpointUpdate(s stdio) *cobra.Command {
	var f changeFlags
	var set endpointSettings
	c := &cobra.Command{
		Use: "update ENDPOINT", Short: "Change settings of an endpoint",
		Long: `Change the settings that are named; the others stay. It takes effect at the next
attempt of every delivery. --header replaces all headers. Credentials do not follow
an endpoint to another server, or to other issuers of its certificate: give them again.`,
		Example: "  waybill endpoint update ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --timeout 5s --policy urgent --reason 'slow " +
			"since the move'",
		Args: process.OneArg("endpoint id", "waybill endpoint update ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --timeout 5s"),
	}
	f.bind(c.Flags())
	set.bind(c.Flags(), false)
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	set.credentials.bindRemove(c.Flags())
	c.Flags().Lookup("policy").Usage = "schedule of attempts: standard, urgent, default, a JSON object, or @FILE"
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := firstError(set.check(), checkEndpointID(args[0])); err != nil {
			return err
		}
		patch := set.patch(c.Flags())
		if patch.Empty() {
			return process.Usagef("nothing to change; name at least one setting, such as --timeout 5s")
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Endpoint, error) {
			return ctl.UpdateEndpoint(ctx, args[0], patch, actorOr(f.actor), f.reason)
		}, printEndpoint)
	}
	return c
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func typesText(types []string) string { return strings.Join(types, ", ") }

func printSecret(s stdio, out format, made control.WithSecret) error {
	if out == "json" {
		return printJSON(s.out, made)
	}
	if err := printEndpoint(s, out, made.Endpoint); err != nil {
		return err
	}
	return printOnce(s, made.Secret)
}

func printOnce(s stdio, secret string) error {
	_, err := fmt.Fprintf(s.out, "\nsecret  %s\n        Shown this once: give it to the receiver now.\n", secret)
	return err
}
