package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"

	"github.com/waybill-dev/waybill/internal/operator/control"
)

func endpointList(s stdio) *cobra.Command {
	var f askFlags
	var filter control.EndpointFilter
	c := &cobra.Command{
		Use: "list", Short: "List endpoints",
		Long:    "List endpoints, the oldest first.",
		Example: "  waybill endpoint list --tenant acme\n  waybill endpoint list -o json | jq -r '.endpoints[].id'",
	}
	f.bind(c.Flags())
	c.Flags().StringVar(&filter.Tenant, "tenant", "", "of this tenant only")
	c.Flags().BoolVar(&filter.Deleted, "deleted", false, "list deleted ones too")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkTenant(filter.Tenant); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) ([]control.Endpoint, error) {
			return ctl.Endpoints(ctx, filter)
		}, printEndpoints)
	}
	return c
}

func endpointShow(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{
		Use: "show ENDPOINT", Short: "Show one endpoint",
		Long:    "Show the present revision of one endpoint, also of a deleted one.",
		Example: "  waybill endpoint show ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K",
		Args:    process.OneArg("endpoint id", "waybill endpoint show ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"),
	}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := checkEndpointID(args[0]); err != nil {
			return err
		}
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Endpoint, error) {
			return ctl.Endpoint(ctx, args[0])
		}, printEndpoint)
	}
	return c
}

func printEndpoints(s stdio, out format, list []control.Endpoint) error {
	if out == "json" {
		return printJSON(s.out, control.EndpointList{Endpoints: append([]control.Endpoint{}, list...)})
	}
	t := table{header: []string{"ENDPOINT", "TENANT", "STATE", "TYPES", "URL"},
		wide: []string{"TENANT"}, clip: []string{"TYPES", "URL"}}
	for _, e := range list {
		t.add(e.ID, e.Tenant, string(e.State), clip(typesText(e.Types), 30), clip(e.URL, 60))
	}
	return t.show(s, out, "no endpoints; make one with: waybill endpoint create")
}

func printEndpoint(s stdio, out format, e control.Endpoint) error {
	if out == "json" {
		return printJSON(s.out, e)
	}
	var f fields
	f.add("endpoint", e.ID)
	f.add("tenant", e.Tenant)
	f.addSettings(e)
	f.add("revision", fmt.Sprintf("%d, %s by %s at %s", e.Revision, e.Change, e.UpdatedBy, moment(e.UpdatedAt)))
	f.add("reason", e.Reason)
	for _, w := range e.Warnings {
		f.add("warning", w)
	}
	return f.write(s.out)
}

func keyText(k control.Key) string {
	text := k.ID
	if k.PublicKey != "" {
		text += ", public key " + k.PublicKey
	}
	if !k.ExpiresAt.IsZero() {
		text += ", until " + moment(k.ExpiresAt)
	}
	return text
}

func policyText(e control.Endpoint) string {
	if e.Policy == nil {
		return "default (standard; urgent when there is a deadline)"
	}
	return asJSON(e.Policy)
}

func spaced(a, b string) string {
	if b == "" {
		return a
	}
	return a + " (" + b + ")"
}
