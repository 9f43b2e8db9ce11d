package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operator/auditor"
)

func ledgerCheckpoint(s stdio) *cobra.Command {
	return group("checkpoint", "Show and list the ledger's checkpoints",
		"  waybill ledger checkpoint show\n  waybill ledger checkpoint list --limit 100",
		ledgerCheckpointShow(s), ledgerCheckpointList(s))
}

func ledgerCheckpointShow(s stdio) *cobra.Command {
	var t target
	var out format
	var path string
	c := &cobra.Command{
		Use: "show", Short: "Show the latest checkpoint of the ledger",
		Long: `Show the latest checkpoint: a signed statement of the ledger's size and of the
Merkle root over its records, with who cosigned it. --out keeps the signed note
in a file, for: waybill ledger verify --checkpoint`,
		Example: "  waybill ledger checkpoint show\n  waybill ledger checkpoint show --out monday.txt\n  waybill ledger " +
			"checkpoint show -o json | jq -r .note",
	}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().StringVar(&path, "out", "", "file to write the signed note to, with its cosignatures, for its owner "+
		"alone; - prints the note and nothing else (default: none)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		list, err := readCheckpoints(c.Context(), &t, out, 1)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("no checkpoint is signed yet: the first one follows the first records within seconds; if it " +
				"does not, see: waybill ledger key show")
		}
		if path != "" {
			if wrote, err := writeFile(s.out, "out", path, []byte(list[0].Cosigned)); err != nil || !wrote {
				return err
			}
		}
		if out == "json" {
			return printJSON(s.out, list[0])
		}
		if err := printCheckpoint(s, list[0]); err != nil || path == "" {
			return err
		}
		_, err = fmt.Fprintf(s.out, "written  %s\n", path)
		return err
	}
	return c
}

func ledgerCheckpointList(s stdio) *cobra.Command {
	var t target
	var out format
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List checkpoints, the latest first",
		Long:    "List checkpoints, the latest first, with how many have cosigned and timestamped each.",
		Example: "  waybill ledger checkpoint list --limit 100 -o json",
	}
	t.bind(c.Flags())
	out.bind(c.Flags())
	c.Flags().IntVar(&limit, "limit", 20, "how many, 1 to 100000")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 100_000 {
			return process.Usagef("--limit %d: want 1 to 100000", limit)
		}
		list, err := readCheckpoints(c.Context(), &t, out, limit)
		if err != nil {
			return err
		}
		if out == "json" {
			return printJSON(s.out, append([]auditor.Checkpoint{}, list...))
		}
		table := table{header: []string{"SIZE", "SIGNED", "ROOT", "WITNESSES", "TIMESTAMPS"},
			wide: []string{"TIMESTAMPS", "WITNESSES"}}
		for _, c := range list {
			table.add(fmt.Sprint(c.Size), moment(c.At), c.Root.String(),
				fmt.Sprint(c.Count(ledger.WitnessSignature)), fmt.Sprint(c.Count(ledger.TimestampSignature)))
		}
		return table.show(s, out, "no checkpoint is signed yet")
	}
	return c
}

func readCheckpoints(ctx context.Context, t *target, out format, limit int) ([]auditor.Checkpoint, error) {
	if err := out.check(); err != nil {
		return nil, err
	}
	at, err := t.find()
	if err != nil {
		return nil, err
	}
	if at.clickhouse == "" {
		return nil, errors.New("no ClickHouse is known; say where it is with --clickhouse")
	}
	db, err := ledger.New(at.clickhouse)
	if err != nil {
		return nil, process.Usagef("--clickhouse: %w", err)
	}
	defer func() { _ = db.Close() }() // the error that counts is that of the question
	return auditor.New(db).Checkpoints(ctx, limit)
}

func printCheckpoint(s stdio, c auditor.Checkpoint) error {
	var f fields
	f.add("origin", c.Origin)
	f.add("records", fmt.Sprint(c.Size))
	f.add("root", c.Root.String())
	f.add("signed", moment(c.At)+", "+time.Since(c.At).Round(time.Second).String()+" ago")
	f.add("key", c.Key)
	for _, sig := range c.Signatures {
		f.add(strings.ToLower(sig.Kind), sig.Signer+" at "+moment(sig.At))
	}
	return f.write(s.out)
}
