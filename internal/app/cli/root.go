// Package cli is the waybill command: one file for each group of commands. A
// command reads flags, asks the package that does the work, and prints: control for
// what operators do, auditor for audits and proofs, doctor for a look at what runs,
// allinone for a whole deployment.
package cli

import (
	"io"

	"github.com/spf13/cobra"
)

// stdio of a process: what a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// New builds the command tree.
func New(in io.Reader, out, err io.Writer) *cobra.Command {
	s := stdio{in, out, err}
	root := &cobra.Command{
		Use:   "waybill",
		Short: "Webhook delivery you can defend in an audit",
		Long: `Waybill delivers events to webhook endpoints and keeps a record of every attempt
in a ledger that can be queried and verified.

Every flag is also an environment variable: --nats-url is WAYBILL_NATS_URL.
How a command finds the deployment: waybill help connection.
Exit status: 0 done, 1 failed, 2 wrong use.`,
		Example: `  waybill demo                    # see it work, in a minute
  waybill up                      # run everything on this machine
  waybill endpoint create --url https://example.com/hooks --types 'order.*'
  waybill event publish --type order.paid --data '{"order":"o_17"}'
  waybill delivery list
  waybill audit report --from 2026-10-01 --to 2026-11-01 --out october.html
  waybill ledger verify --key ledger.pub`,
	}
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	root.AddCommand(
		upCommand(s),
		demoCommand(s),
		endpointCommand(s),
		eventCommand(s),
		deliveryCommand(s),
		replayCommand(s),
		eventTypeCommand(s),
		termsCommand(s),
		deadletterCommand(s),
		escalationCommand(s),
		escalationPolicyCommand(s),
		evidenceCommand(s),
		channelCommand(s),
		auditCommand(s),
		ledgerCommand(s),
		keyCommand(s),
		redactCommand(s),
		streamsCommand(s),
		holdCommand(s),
		doctorCommand(s),
		connectionTopic(),
	)
	root.SetUsageFunc(usage)
	return root
}

// group makes a command that only holds others.
func group(use, short, example string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: short + ".", Example: example}
	c.AddCommand(subs...)
	return c
}
