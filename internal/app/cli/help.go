package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// connection are the flags that say where the deployment runs. Every command
// that asks one has them, so they are told once: waybill help connection.
var connection = []string{"nats-url", "nats-creds", "clickhouse", dataDir, "addresses"}

// connectionAnnotation marks them.
const connectionAnnotation = "waybill_connection"

// Sections divides a command's flags: its own, and those that say where the
// deployment runs.
func Sections(c *cobra.Command) (own, where *pflag.FlagSet) {
	own, where = pflag.NewFlagSet("own", pflag.ContinueOnError), pflag.NewFlagSet("where", pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[connectionAnnotation]; ok {
			where.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	return own, where
}

// seeConnection stands in the help of whatever has the connection's flags.
const seeConnection = "Where the deployment runs (default: ./waybill-data): --data-dir, --addresses, --nats-url,\n" +
	"--nats-creds, --clickhouse; see: waybill help connection"

// usage is what --help prints below the description, and the only thing that
// cobra's own text differs in: the connection's flags are one line.
func usage(c *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		b.WriteString("\nAvailable Commands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	own, where := Sections(c)
	if flags := own.FlagUsages(); flags != "" {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags)
	}
	if where.HasFlags() {
		fmt.Fprintf(&b, "\n%s\n", seeConnection)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprint(c.OutOrStderr(), b.String())
	return err
}

// connectionTopic is a page of help rather than a command.
func connectionTopic() *cobra.Command {
	var t target
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	t.bind(flags)
	return &cobra.Command{Use: "connection", Hidden: true, Short: "How a command finds the deployment",
		Long: ConnectionText() + "\n\n" +
			strings.TrimRight(flags.FlagUsages(), "\n")}
}

// ConnectionText says how a command finds the deployment.
func ConnectionText() string {
	return `How a command finds the deployment. Each of these flags is an environment variable
too: set it once, and leave the flags out.

  waybill up in this directory       nothing to give: it is found in ./waybill-data
  waybill up somewhere else          --data-dir DIR     or WAYBILL_DATA=DIR
  ... or by its addresses file       --addresses FILE   or WAYBILL_ADDRESSES=FILE
  stages on servers of your own      --nats-url URL --clickhouse DSN, with --nats-creds FILE
                                     or WAYBILL_NATS_URL, WAYBILL_CLICKHOUSE, WAYBILL_NATS_CREDS

What is named wins over what a data directory or an addresses file says. A command
that needs only one of the two servers asks for no other.`
}
