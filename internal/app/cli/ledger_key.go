package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/operator/control"
)

func ledgerKeyCommand(s stdio) *cobra.Command {
	return group("key", "Make, show and replace the key that the ledger's checkpoints are signed with",
		"  waybill ledger key show\n  waybill ledger key rotate --reason 'yearly rotation'",
		ledgerKeyGenerate(s), ledgerKeyShow(s), ledgerKeyRotate(s), ledgerKeyRetire(s))
}

// ledgerKeyFlags name a checkpoint key file, see keyFile.
type ledgerKeyFlags struct {
	path string
	out  format
}

func (f *ledgerKeyFlags) bind(c *cobra.Command) {
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.path, checkpointKey.flag, "",
		"the key file (default: that of the running waybill up, else DATA/keys/checkpoint.key)")
}

// ledgerKeys is what the commands answer as JSON.
type ledgerKeys struct {
	File   string           `json:"file,omitempty"`
	Origin string           `json:"origin"`
	Keys   []checkpoint.Key `json:"keys"` // the newest first
}

func ledgerKeyGenerate(s stdio) *cobra.Command {
	var origin, path string
	var out format
	c := &cobra.Command{
		Use: "generate", Short: "Make a new key for the ledger's checkpoints",
		Long: `Make a key file with one new key, or, without --out, print the private key. A file
that is there is left alone. The origin names the ledger's log: a name that is
yours and unique, without a scheme, for ever the same.`,
		Example: "  waybill ledger key generate --origin example.com/ledger --out /etc/waybill/checkpoint.key",
	}
	out.bind(c.Flags())
	c.Flags().StringVar(&origin, "origin", "", "name of the ledger's log, such as example.com/ledger")
	c.Flags().StringVar(&path, "out", "", "file to make (default: none, the key is printed)")
	c.RunE = func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if origin == "" {
			return missing("origin", "example.com/ledger")
		}
		if err := checkpoint.CheckOrigin(origin); err != nil {
			return process.Usagef("--origin: %w", err)
		}
		if path == "" || path == standardOutput {
			private, _, err := checkpoint.Generate(origin)
			if err != nil {
				return err
			}
			if out == "json" {
				return printJSON(s.out, map[string]string{"origin": origin, "key": private})
			}
			_, err = fmt.Fprintln(s.out, private)
			return err
		}
		key, err := checkpoint.CreateFile(path, origin)
		if err != nil {
			return err
		}
		if out == "json" {
			return printJSON(s.out, ledgerKeys{path, origin, []checkpoint.Key{key}})
		}
		_, err = fmt.Fprintf(s.out, "%s\nVerifier key, for whoever verifies:\n%s\nKeep a copy of the file: without it no "+
			"checkpoint can be signed.\n", path, key.Verifier)
		return err
	}
	return c
}

func ledgerKeyShow(s stdio) *cobra.Command {
	var f ledgerKeyFlags
	var t target
	c := &cobra.Command{
		Use: "show", Short: "Show the public keys of the ledger's checkpoints",
		Long: `Show the verifier keys of a key file, the newest first: what one needs to verify
checkpoints, in the form that --key takes as a file. The private keys are not shown.`,
		Example: "  waybill ledger key show > ledger.pub\n  waybill ledger key show --checkpoint-key " +
			"/etc/waybill/checkpoint.key -o json | jq -r '.keys[0].verifier'",
	}
	f.bind(c)
	t.bindPlace(c.Flags())
	c.RunE = func(*cobra.Command, []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		path, err := checkpointKey.find(f.path, &t)
		if err != nil {
			return err
		}
		return f.print(s, path)
	}
	return c
}

func (f *ledgerKeyFlags) print(s stdio, path string) error {
	keys, err := checkpoint.OpenKeys(path)
	if err != nil {
		return err
	}
	if f.out == "json" {
		if checkpoint.Inline(path) {
			path = ""
		}
		return printJSON(s.out, ledgerKeys{path, keys.Origin(), keys.List()})
	}
	for _, k := range keys.List() {
		use := "signed before"
		if k.Signs {
			use = "signs"
		}
		if _, err := fmt.Fprintf(s.out, "# %s\n%s\n", use, k.Verifier); err != nil {
			return err
		}
	}
	return nil
}

func ledgerKeyRotate(s stdio) *cobra.Command {
	var f ledgerKeyFlags
	var t target
	var actor, reason string
	c := &cobra.Command{
		Use: "rotate", Short: "Add a new key, which signs from now on beside the one before",
		Long: `Make a new key of the same origin. It is first put on record by its verifier key,
then added to the key file. What runs takes the file up by itself; from then on
checkpoints carry the signatures of the new key and of those that signed before,
which so vouch for it.

Give whoever verifies the new verifier key. Once they have it, take the old
ones out of use with: waybill ledger key retire`,
		Example: "  waybill ledger key rotate --reason 'yearly rotation'\n  waybill ledger key rotate --checkpoint-key " +
			"/etc/waybill/checkpoint.key --nats-url nats://nats.internal:4222",
	}
	f.bind(c)
	t.bind(c.Flags())
	bindActor(c.Flags(), &actor)
	c.Flags().StringVar(&reason, "reason", "", "why, for the record")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		path, err := checkpointKey.find(f.path, &t)
		if err != nil {
			return err
		}
		r, err := checkpoint.Rotate(path)
		if err != nil {
			return err
		}
		err = t.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			return ctl.RecordLedgerKey(ctx, control.LedgerKeyRotation{Origin: r.Origin, Key: r.New.Verifier,
				Before: r.Before.Verifier, Actor: actorOr(actor), Reason: reason})
		})
		if err != nil {
			return err // the file is as it was
		}
		if err := r.Commit(); err != nil {
			return fmt.Errorf("%w; the key that was put on record is not in use, run this again", err)
		}
		if f.out == "json" {
			return f.print(s, path)
		}
		_, err = fmt.Fprintf(s.out, "%s\nNew verifier key, for whoever verifies:\n%s\nIt signs beside the one before. "+
			"Once they have it: waybill ledger key retire\n", path, r.New.Verifier)
		return err
	}
	return c
}

func ledgerKeyRetire(s stdio) *cobra.Command {
	var f ledgerKeyFlags
	var t target
	c := &cobra.Command{
		Use: "retire", Short: "Let only the newest key sign",
		Long: `Let only the newest key of a key file sign. The private half of the others is
removed from the file; their verifier keys stay, so that what they signed can
be verified. What runs takes the file up by itself.`,
		Example: "  waybill ledger key retire",
	}
	f.bind(c)
	t.bindPlace(c.Flags())
	c.RunE = func(*cobra.Command, []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		path, err := checkpointKey.find(f.path, &t)
		if err != nil {
			return err
		}
		retired, err := checkpoint.Retire(path)
		if err != nil {
			return err
		}
		if f.out != "json" {
			if _, err := fmt.Fprintf(s.out, "# %d of the keys below were retired\n", len(retired)); err != nil {
				return err
			}
		}
		return f.print(s, path)
	}
	return c
}
