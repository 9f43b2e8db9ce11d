package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func channelCommand(s stdio) *cobra.Command {
	return group("channel", "Create, change and test the channels by which people are told of dead letters",
		"  waybill channel create oncall-chat --kind slack --secret @slack-url.txt\n  waybill channel test oncall-chat",
		channelCreate(s), channelList(s), channelShow(s), channelUpdate(s), channelDelete(s), channelTest(s))
}

// channelSettings are the flags that create and update share.
type channelSettings struct {
	description, url, secret, from, host, tls, username, account, subject string
	to                                                                    []string
	port                                                                  int
}

func (c *channelSettings) bind(f *pflag.FlagSet) {
	f.StringVar(&c.description, "description", "", "for people")
	f.StringVar(&c.url, "url", "", "webhook: where to send; pagerduty, sms: base URL of the service (default: the "+
		"service's own)")
	f.StringVar(&c.secret, "secret", "", "webhook: signing secret; pagerduty: routing key; slack: the webhook's whole "+
		"URL; email: password; sms: auth token; or @FILE")
	f.StringVar(&c.from, "from", "", "email: the sender's address; sms: the sender's number, name or messaging service")
	f.StringSliceVar(&c.to, "to", nil, "email: addresses, comma-separated; sms: one number, such as +15005550009")
	f.StringVar(&c.host, "host", "", "email: the SMTP server")
	f.IntVar(&c.port, "port", 0, "email: its port (default 587, or 465 with --tls implicit)")
	f.StringVar(&c.tls, "tls", channel.StartTLS, "email: starttls, or implicit: TLS from the first byte")
	f.StringVar(&c.username, "username", "", "email: account, with the password as --secret")
	f.StringVar(&c.account, "account", "", "sms: the account's SID")
	f.StringVar(&c.subject, "subject", "", "nats: subject to publish on, outside of Waybill's own")
}

func channelCreate(s stdio) *cobra.Command {
	var f changeFlags
	var set channelSettings
	var kind string
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a channel",
		Long: `Create a channel. Kinds: webhook (a signed POST), pagerduty, slack, email (SMTP over
TLS), sms (Twilio or a service like it), nats. Its secret is stored and never shown
again; a webhook without one gets one, which is printed this once.`,
		Example: `  waybill channel create oncall-chat --kind slack --secret @slack-url.txt
  waybill channel create pager --kind pagerduty --secret @routing-key.txt
  waybill channel create mail --kind email --host smtp.example.com --username waybill --secret @password.txt \
    --from waybill@example.com --to oncall@example.com,lead@example.com
  waybill channel create ann --kind sms --account AC0123 --secret @token.txt --from +15005550006 --to +15005550009
  waybill channel create desk --kind webhook --url https://desk.example.com/waybill`,
		Args: process.OneArg("name", "waybill channel create oncall-chat --kind slack --secret @slack-url.txt"),
	}
	f.bind(c.Flags())
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	c.Flags().StringVar(&kind, "kind", "", sender.KindsText())
	set.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		if kind == "" {
			return missing("kind", "slack")
		}
		if !slices.Contains(sender.Kinds(), channel.Kind(kind)) {
			return process.Usagef("--kind %q: want %s", kind, sender.KindsText())
		}
		if err := checkName(args[0]); err != nil {
			return err
		}
		secret, err := readValue("secret", set.secret)
		if err != nil {
			return err
		}
		spec := control.ChannelSpec{Name: args[0], Kind: channel.Kind(kind), Description: set.description, URL: set.url,
			Secret: secret, From: set.from,
			To: set.to, Host: set.host, Port: set.port, Username: set.username, Account: set.account, Subject: set.subject,
			Reason: f.reason}
		if spec.Kind == channel.Email || c.Flags().Changed("tls") {
			spec.TLS = set.tls
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.CreatedChannel, error) {
			return ctl.CreateChannel(ctx, spec, actorOr(f.actor))
		}, printNewChannel)
	}
	return c
}

func printNewChannel(s stdio, out format, made control.CreatedChannel) error {
	if out == "json" {
		return printJSON(s.out, made)
	}
	if err := printChannel(s, out, made.Channel); err != nil {
		return err
	}
	if made.NewSecret != "" {
		return printOnce(s, made.NewSecret)
	}
	_, err := fmt.Fprintf(s.out, "\nSee that it works: waybill channel test %s\n", made.Name)
	return err
}

func checkName(name string) error {
	if err := channel.ValidateName(name); err != nil {
		return process.Usagef("%w", err)
	}
	return nil
}

func channelList(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "list", Short: "List the channels",
		Long: "List the channels, by name. Secrets are not shown.", Example: "  waybill channel list -o json"}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) ([]control.Channel,
			error) {
			return ctl.Channels(ctx)
		}, printChannels)
	}
	return c
}

func printChannels(s stdio, out format, list []control.Channel) error {
	if out == "json" {
		return printJSON(s.out, control.ChannelList{Channels: append([]control.Channel{}, list...)})
	}
	t := table{header: []string{"NAME", "KIND", "SENDS TO", "RECEIVERS", "DESCRIPTION"},
		wide: []string{"DESCRIPTION", "RECEIVERS"}, clip: []string{"SENDS TO", "DESCRIPTION"}}
	for _, c := range list {
		t.add(c.Name, string(c.Kind), c.Address, clip(strings.Join(c.To, ", "), 40), clip(c.Description, 40))
	}
	return t.show(s, out, "no channels: nobody can be told of a dead letter; make one with: waybill channel create")
}

func channelShow(s stdio) *cobra.Command {
	var f askFlags
	c := &cobra.Command{Use: "show NAME", Short: "Show a channel", Long: "Show a channel, without its secret.",
		Example: "  waybill channel show oncall-chat", Args: process.OneArg("name", "waybill channel show oncall-chat")}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f, func(ctx context.Context, ctl *control.Control) (control.Channel, error) {
			return ctl.Channel(ctx, args[0])
		}, printChannel)
	}
	return c
}

func channelUpdate(s stdio) *cobra.Command {
	var f changeFlags
	var set channelSettings
	c := &cobra.Command{Use: "update NAME", Short: "Change settings of a channel",
		Long:    "Change the settings that are named; the others stay. It takes effect at the next try.",
		Example: "  waybill channel update oncall-chat --secret @new-url.txt --reason 'moved to another workspace'",
		Args:    process.OneArg("name", "waybill channel update oncall-chat --secret @new-url.txt")}
	f.bind(c.Flags())
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	set.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		patch, err := set.patch(c.Flags())
		if err != nil {
			return err
		}
		if patch == (control.ChannelPatch{}) {
			return process.Usagef("nothing to change; name at least one setting, such as --secret @FILE")
		}
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Channel, error) {
			return ctl.UpdateChannel(ctx, args[0], patch, actorOr(f.actor), f.reason)
		}, printChannel)
	}
	return c
}

// patch holds what the command line or the environment named.
func (c *channelSettings) patch(f *pflag.FlagSet) (control.ChannelPatch, error) {
	var p control.ChannelPatch
	for name, setting := range map[string]struct {
		to   **string
		from *string
	}{"description": {&p.Description, &c.description}, "url": {&p.URL, &c.url}, "from": {&p.From, &c.from},
		"host": {&p.Host, &c.host},
		"tls":  {&p.TLS, &c.tls}, "username": {&p.Username, &c.username}, "account": {&p.Account, &c.account},
		"subject": {&p.Subject, &c.subject}} {
		if f.Changed(name) {
			*setting.to = setting.from
		}
	}
	if f.Changed("to") {
		p.To = &c.to
	}
	if f.Changed("port") {
		p.Port = &c.port
	}
	if f.Changed("secret") {
		secret, err := readValue("secret", c.secret)
		if err != nil {
			return p, err
		}
		p.Secret = &secret
	}
	return p, nil
}

func channelDelete(s stdio) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{Use: "delete NAME", Short: "End a channel",
		Long:    "End a channel. One that an escalation policy names is refused.",
		Example: "  waybill channel delete oncall-chat --reason 'the team uses the pager'",
		Args:    process.OneArg("name", "waybill channel delete oncall-chat")}
	f.bind(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.Channel, error) {
			return ctl.DeleteChannel(ctx, args[0], actorOr(f.actor), f.reason)
		}, printChannel)
	}
	return c
}

func channelTest(s stdio) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{Use: "test NAME", Short: "Send a test message through a channel",
		Long: "Send a test message through a channel, from this machine, and say what came of it. Exit status 1 when " +
			"it did not arrive.",
		Example: "  waybill channel test oncall-chat", Args: process.OneArg("name", "waybill channel test oncall-chat")}
	f.askFlags.bind(c.Flags())
	bindActor(c.Flags(), &f.actor)
	f.target.bindEgress(c.Flags())
	f.target.bindKeys(c.Flags())
	f.target.proxy.Bind(c.Flags())
	f.target.redaction.BindPolicy(c.Flags())
	c.Flags().StringVar(&f.target.caFile, "ca-file", "",
		"certificates (PEM) that servers are verified with, besides the system's")
	c.RunE = func(c *cobra.Command, args []string) error {
		return answer(c, s, &f.askFlags, func(ctx context.Context, ctl *control.Control) (control.ChannelTest, error) {
			return ctl.TestChannel(ctx, args[0], actorOr(f.actor))
		}, func(s stdio, out format, r control.ChannelTest) error {
			return printChannelTest(s, out, r, f.target.caFile)
		})
	}
	return c
}

func printChannelTest(s stdio, out format, r control.ChannelTest, caFile string) (err error) {
	if out == "json" {
		err = printJSON(s.out, r)
	} else if r.Told {
		_, err = fmt.Fprintf(s.out, "%s took the message after %s\n", r.Channel, took(r.DurationUS))
	}
	if err == nil && !r.Told {
		err = notTaken(r, caFile)
	}
	return err
}

// notTaken says why a test message did not arrive. It is sent from here: what
// waybill up was started with does not hold for it.
func notTaken(r control.ChannelTest, caFile string) error {
	hint := ""
	if r.Outcome == outcome.TLSFailed && caFile == "" {
		hint = "if its certificate is of an authority of your own, give --ca-file here too; "
	}
	return fmt.Errorf("channel %s did not take the message: %s: %s; %ssee its settings with: waybill channel show %s",
		r.Channel, r.Outcome, r.Error, hint, r.Channel)
}

func printChannel(s stdio, out format, c control.Channel) error {
	if out == "json" {
		return printJSON(s.out, c)
	}
	state := "ready"
	if c.Deleted {
		state = "deleted"
	}
	secret := "none"
	if c.HasSecret {
		secret = "stored, not shown"
	}
	f := fields{{"name", c.Name}, {"kind", string(c.Kind)}, {"state", state}, {"sends to", c.Address}, {"from", c.From},
		{"receivers", strings.Join(c.To, ", ")}, {"account", first(c.Username, c.Account)}, {"secret", secret},
		{"description", c.Description},
		{"revision", fmt.Sprintf("%d, %s by %s at %s", c.Revision, c.Change, c.UpdatedBy,
			c.UpdatedAt.UTC().Format(time.RFC3339))}, {"reason", c.Reason}}
	return f.write(s.out)
}
