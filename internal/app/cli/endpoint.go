package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

func endpointCommand(s stdio) *cobra.Command {
	return group("endpoint", "Create, change and look at endpoints",
		"  waybill endpoint create --url https://example.com/hooks --types 'order.*'\n  waybill endpoint list",
		endpointCreate(s), endpointList(s), endpointShow(s), endpointUpdate(s), endpointEnable(s),
		endpointDisable(s), endpointMissed(s), endpointDelete(s), endpointRotate(s), endpointReseal(s), endpointTest(s))
}

// endpointSettings are the flags that create and update share.
type endpointSettings struct {
	url, description, scheme, header, policy string
	types                                    []string
	timeout, deliverWithin                   time.Duration
	maxInFlight                              int
	rules                                    endpointRules
	credentials                              credentialSettings
}

func (e *endpointSettings) bind(f *pflag.FlagSet) {
	f.StringVar(&e.url, "url", "", "where to send, https:// or http://")
	f.StringSliceVar(&e.types, "types", nil, "event types, comma-separated: exact, a.* for one more token, a.> for any "+
		"more, > for all")
	f.StringVar(&e.description, "description", "", "for people")
	f.StringVar(&e.scheme, "scheme", string(envelope.SchemeHMAC),
		"how requests are signed: v1 (HMAC-SHA256), v1a (Ed25519) or t,v1 (timestamped HMAC)")
	f.StringVar(&e.header, "signature-header", "", "header of the signature, with --scheme t,v1 only (default "+
		envelope.DefaultTimestampedHeader+")")
	f.DurationVar(&e.timeout, "timeout", registry.DefaultTimeout,
		"how long an answer may take, at most "+registry.MaxTimeout.String())
	f.IntVar(&e.maxInFlight, "max-in-flight", registry.DefaultMaxInFlight,
		"requests at once, at most "+strconv.Itoa(registry.MaxMaxInFlight))
	f.StringVar(&e.policy, "policy", "", "schedule of attempts: standard, urgent, a JSON object, or @FILE (default: "+
		"standard, or urgent when there is a deadline)")
	f.DurationVar(&e.deliverWithin, "deliver-within", 0, "deadline for events that bring none; 0s for none")
	e.rules.bind(f)
	e.credentials.bind(f)
}

// check finds what is wrong without asking anybody.
func (e *endpointSettings) check() (*retry.Policy, error) {
	if e.url != "" {
		if _, err := egress.ParseURL(e.url); err != nil {
			return nil, process.Usagef("--url: %w", err)
		}
	}
	for _, t := range e.types {
		if err := subscription.Validate(t); err != nil {
			return nil, process.Usagef("--types: %w", err)
		}
	}
	switch envelope.Scheme(e.scheme) {
	case envelope.SchemeHMAC, envelope.SchemeEd25519, envelope.SchemeTimestamped:
	default:
		return nil, process.Usagef("--scheme %q: want v1, v1a or t,v1", e.scheme)
	}
	if e.header != "" {
		if err := envelope.ValidateSignatureHeader(e.header); err != nil {
			return nil, process.Usagef("--signature-header: %w", err)
		}
	}
	if e.timeout < time.Millisecond || e.timeout > registry.MaxTimeout {
		return nil, process.Usagef("--timeout %s: want 1ms to %s", e.timeout, registry.MaxTimeout)
	}
	if e.maxInFlight < 1 || e.maxInFlight > registry.MaxMaxInFlight {
		return nil, process.Usagef("--max-in-flight %d: want 1 to %d", e.maxInFlight, registry.MaxMaxInFlight)
	}
	if e.deliverWithin < 0 {
		return nil, process.Usagef("--deliver-within %s: want 0s or more", e.deliverWithin)
	}
	if err := firstError(e.rules.check(), e.credentials.read()); err != nil {
		return nil, err
	}
	return e.readPolicy()
}

func (e *endpointSettings) readPolicy() (*retry.Policy, error) {
	if e.policy == "" || e.policy == "default" {
		return nil, nil
	}
	text, err := readValue("policy", e.policy)
	if err != nil {
		return nil, err
	}
	p, err := retry.Parse(text)
	if err != nil {
		return nil, process.Usagef("--policy: %w", err)
	}
	return &p, nil
}

func endpointCreate(s stdio) *cobra.Command {
	var f changeFlags
	var set endpointSettings
	var tenant, secret, ordering string
	c := &cobra.Command{
		Use: "create", Short: "Create an endpoint and print its secret, this once",
		Long: "Create an endpoint, enabled. Its secret is printed this once and cannot be shown again.",
		Example: `  waybill endpoint create --tenant acme --url https://example.com/hooks --types order.paid,refund.*
  waybill endpoint create --url https://example.com/in --types '>' --client-cert c.pem --client-key k.pem --ca ca.pem
  waybill endpoint create --url https://example.com/urgent --types '>' --policy '{"delays":["1s","5s","30s"]}' -o json`,
	}
	f.askFlags.bind(c.Flags())
	bindActor(c.Flags(), &f.actor)
	set.bind(c.Flags())
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	c.Flags().StringVar(&tenant, "tenant", control.DefaultTenant, "owner of the endpoint")
	c.Flags().StringVar(&secret, "secret", "", "signing secret of your own, whsec_… or whsk_…, or @FILE (default: one "+
		"is made)")
	c.Flags().StringVar(&ordering, "ordering", "", "fifo: one delivery at a time, in the order of events; it cannot be "+
		"changed later (default: no order)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if ordering != "" && ordering != string(registry.FIFO) {
			return process.Usagef("--ordering %q: want fifo, or leave it out", ordering)
		}
		if set.url == "" {
			return missing("url", "https://example.com/hooks")
		}
		if len(set.types) == 0 {
			return missing("types", "'order.*'")
		}
		policy, err := set.check()
		if err == nil {
			err = checkTenant(tenant)
		}
		if err != nil {
			return err
		}
		own, err := readValue("secret", secret)
		if err != nil {
			return err
		}
		spec := control.EndpointSpec{Tenant: tenant, URL: set.url, Types: set.types, Description: set.description,
			Scheme: envelope.Scheme(set.scheme), SignatureHeader: set.header, Secret: own,
			Timeout: control.Duration(set.timeout), MaxInFlight: set.maxInFlight, Policy: policy,
			DeliverWithin: control.Duration(set.deliverWithin)}
		set.rules.spec(&spec)
		spec.Ordering = registry.Ordering(ordering)
		set.credentials.addTo(&spec)
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.WithSecret, error) {
			return ctl.CreateEndpoint(ctx, spec, actorOr(f.actor))
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
	set.bind(c.Flags())
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	set.credentials.bindRemove(c.Flags())
	c.Flags().Lookup("policy").Usage = "schedule of attempts: standard, urgent, default, a JSON object, or @FILE"
	c.RunE = func(c *cobra.Command, args []string) error {
		policy, err := set.check()
		if err == nil {
			err = checkEndpointID(args[0])
		}
		if err != nil {
			return err
		}
		patch := set.patch(c.Flags(), policy)
		if patch.Empty() {
			return process.Usagef("nothing to change; name at least one setting, such as --timeout 5s")
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Endpoint, error) {
			return ctl.UpdateEndpoint(ctx, args[0], patch, actorOr(f.actor), f.reason)
		}, printEndpoint)
	}
	return c
}

// patch holds what the command line or the environment named.
func (e *endpointSettings) patch(f *pflag.FlagSet, policy *retry.Policy) control.EndpointPatch {
	var p control.EndpointPatch
	if f.Changed("url") {
		p.URL = &e.url
	}
	if f.Changed("types") {
		p.Types = &e.types
	}
	if f.Changed("description") {
		p.Description = &e.description
	}
	if f.Changed("scheme") {
		scheme := envelope.Scheme(e.scheme)
		p.Scheme = &scheme
	}
	if f.Changed("signature-header") {
		p.SignatureHeader = &e.header
	}
	if f.Changed("timeout") {
		p.Timeout = (*control.Duration)(&e.timeout)
	}
	if f.Changed("max-in-flight") {
		p.MaxInFlight = &e.maxInFlight
	}
	if f.Changed("deliver-within") {
		p.DeliverWithin = (*control.Duration)(&e.deliverWithin)
	}
	if f.Changed("policy") {
		p.Policy, p.ClearPolicy = policy, policy == nil
	}
	e.rules.patch(f, &p)
	e.credentials.addToPatch(f, &p)
	return p
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
