package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/audit/outside"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/operator/history"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func evidenceCommand(s stdio) *cobra.Command {
	return group("evidence", "Prove what the ledger says of one event, without this deployment",
		`  waybill evidence export order-17 --out order-17.evidence.json
  waybill evidence verify order-17.evidence.json --key ledger.pub
  waybill evidence show order-17.evidence.json --html order-17.html`,
		evidenceExport(s), evidenceVerify(s), evidenceShow(s))
}

// exportFlags are those of evidence export.
type exportFlags struct {
	target               target
	out                  format
	tenant, endpoint, to string
	actor                string
	wait                 time.Duration
}

func evidenceExport(s stdio) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "export EVENT", Short: "Write the evidence of one event into a file",
		Long: `Write everything that is on record of an event into one file: every attempt, dead
letter, escalation and replay, the settings that were in force, and for each record
the proof that it is in the ledger, up to a signed checkpoint. The file holds no
payload and no secret. It is verified without this deployment: waybill evidence verify.

Records that no checkpoint covers yet are waited for; what none covers after --wait
is left out, and the file says so.`,
		Example: `  waybill evidence export order-17 --out order-17.evidence.json
  waybill evidence export order-17 --tenant acme --endpoint ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K --wait 2m > evidence.json`,
		Args: process.OneArg("event id", "waybill evidence export order-17 --out order-17.evidence.json"),
	}
	f.target.bind(c.Flags())
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.tenant, "tenant", "", "owner of the event (default: whoever has an event of this id)")
	c.Flags().StringVar(&f.endpoint, "endpoint", "", "the delivery to this endpoint only")
	c.Flags().StringVar(&f.to, "out", "", "file to write, for its owner alone; - for standard output (default)")
	c.Flags().DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait for a checkpoint over the newest records")
	bindActor(c.Flags(), &f.actor)
	c.RunE = func(c *cobra.Command, args []string) error {
		q := control.EvidenceRequest{EventID: args[0], Tenant: f.tenant, EndpointID: f.endpoint, Actor: actorOr(f.actor),
			Wait: f.wait}
		if err := firstError(f.out.check(), checkEventID(args[0]), checkTenant(f.tenant), explain(q.Check())); err != nil {
			return err
		}
		at, err := f.target.find()
		if err != nil {
			return err
		}
		if at.clickhouse == "" {
			return errors.New("no ClickHouse is known; say where it is with --clickhouse")
		}
		l, closeLedger, err := openLedger(at.clickhouse)
		if err != nil {
			return err
		}
		defer closeLedger()
		asking, closeNATS, err := f.asking(c.Context(), s, l)
		if err != nil {
			return err
		}
		defer closeNATS()
		return f.export(c.Context(), s, asking, q)
	}
	return c
}

// asking lets the file say whether EVENTS vouches for the event, where NATS is
// known and answers.
func (f *exportFlags) asking(ctx context.Context, s stdio, l history.History) (history.History, func(), error) {
	with, err := f.target.withStreams()
	if err != nil || !with {
		return l, func() {}, err
	}
	nc, js, err := f.target.connectNATS(ctx)
	if err != nil {
		fmt.Fprintf(s.err, "waybill: EVENTS is not asked, and the file will say so: %v\n", err)
		return l, func() {}, nil
	}
	events, err := outside.OpenEvents(nc, js)
	if err != nil {
		nc.Close()
		return l, nil, err
	}
	return l.Asking(events), nc.Close, nil
}

func (f *exportFlags) export(ctx context.Context, s stdio, l control.EvidenceSource, q control.EvidenceRequest) error {
	b, err := control.GatherEvidence(ctx, l, q)
	if err != nil {
		return explain(err)
	}
	e, err := evidence.Decode(b)
	if err != nil {
		return err
	}
	if n := len(e.Statement.Uncovered); n > 0 {
		fmt.Fprintf(s.err, "waybill: no checkpoint covers %d of the %s yet; what is not covered is left out, and the file "+
			"says so; export again in a minute\n", n, text.Count(n+len(e.Records), "record", "records"))
	}
	wrote, err := writeFile(s.out, "out", f.to, b)
	if err != nil {
		return err
	}
	var unvouched error
	if e := e.Statement.Events; e != nil && len(e.Findings) > 0 {
		unvouched = fmt.Errorf("EVENTS does not vouch for event %s: %s; the file says so; look at the whole ledger: waybill "+
			"audit completeness", printable(q.EventID), printable(e.Findings[0]))
	}
	if !wrote {
		return unvouched
	}
	tree, err := evidence.TreeOf(e.Checkpoint.Note)
	if err != nil {
		return err
	}
	if f.out == "json" {
		return errors.Join(unvouched, printJSON(s.out,
			map[string]any{"file": f.to, "tenant": e.Subject.Tenant, "event_id": e.Subject.EventID,
				"endpoint_id": e.Subject.EndpointID,
				"records":     len(e.Records), "uncovered": len(e.Statement.Uncovered), "origin": tree.Origin, "size": tree.Size,
				"bytes": len(b)}))
	}
	_, err = fmt.Fprintf(s.out, "%s  %s of event %s, proven by the checkpoint of %s over %s\nverify it anywhere with: "+
		"waybill evidence verify %s --key ledger.pub\nledger.pub is what waybill ledger key show prints\n",
		f.to, text.Count(len(e.Records), "record", "records"), printable(e.Subject.EventID), printable(tree.Origin),
		text.Count(tree.Size, "record", "records"), f.to)
	return errors.Join(unvouched, err)
}

// readBounded reads a file, or - for standard input.
func readBounded(in io.Reader, path string, limit int64) ([]byte, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, process.Usagef("%w; name a file that can be read", err)
		}
		defer file.Close()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, process.Usagef("%s: %w; name a file that can be read", path, err)
	}
	if int64(len(b)) > limit {
		return nil, process.Usagef("%s has more than %d bytes; this is no file that was meant", path, limit)
	}
	return b, nil
}
