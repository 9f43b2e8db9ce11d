package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/control"
	"github.com/waybill-dev/waybill/internal/sealed"
)

func keyCommand(s stdio) *cobra.Command {
	return group("key", "Make and replace the keys that endpoints' secrets are encrypted with",
		"  waybill key generate --secrets-key-file /etc/waybill/secrets.key\n  waybill key rotate --secrets-key-file /etc/waybill/secrets.key",
		keyGenerate(s), keyRotate(s), keyList(s))
}

// keyIDs is what the commands answer as JSON.
type keyIDs struct {
	File string   `json:"file,omitempty"`
	Keys []string `json:"keys"` // ids, the one that seals first
	Key  string   `json:"key,omitempty"`
}

func keyGenerate(s stdio) *cobra.Command {
	var path string
	var out format
	c := &cobra.Command{
		Use: "generate", Short: "Make a new key",
		Long: `Make a key file with one new key, or, without --secrets-key-file, print a key:
for ` + sealed.EnvKeys + `. A file that is there is left alone.

A key is ` + sealed.KeyPrefix + ` and the base64 of 32 random bytes. A key file holds one a line,
the one that encrypts first; from # on a line is a comment.`,
		Example: "  waybill key generate --secrets-key-file /etc/waybill/secrets.key\n  export " + sealed.EnvKeys + "=$(waybill key generate)",
	}
	out.bind(c.Flags())
	c.Flags().StringVar(&path, "secrets-key-file", "", "file to make (default: none, the key is printed)")
	c.RunE = func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if path != "" {
			id, err := sealed.CreateFile(path)
			if err != nil {
				return err
			}
			if out == "json" {
				return printJSON(s.out, keyIDs{File: path, Keys: []string{id}})
			}
			_, err = fmt.Fprintf(s.out, "%s  key %s\nKeep a copy of it, apart from the data: without it no delivery can be signed.\n", path, id)
			return err
		}
		key, err := sealed.GenerateKey()
		if err != nil {
			return err
		}
		if out == "json" {
			id, err := sealed.KeyID(key)
			if err != nil {
				return err
			}
			return printJSON(s.out, keyIDs{Keys: []string{id}, Key: key})
		}
		_, err = fmt.Fprintln(s.out, key)
		return err
	}
	return c
}

// keyFileFlags name a key file: that of the flag, or the data directory's.
type keyFileFlags struct {
	path, data string
	out        format
}

func (f *keyFileFlags) bind(c *cobra.Command) {
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.path, "secrets-key-file", "", "the key file (default: DATA/keys/secrets.key)")
	c.Flags().StringVar(&f.data, "data", defaultData, "data directory of waybill up")
}

func (f *keyFileFlags) file() string {
	return first(f.path, filepath.Join(f.data, "keys", "secrets.key"))
}

func keyRotate(s stdio) *cobra.Command {
	var f keyFileFlags
	c := &cobra.Command{
		Use: "rotate", Short: "Add a new key, which encrypts from now on",
		Long: `Add a new key to a key file: it encrypts from now on, those that were there still
decrypt. What runs takes the new file up by itself.

Then bring the file to every dispatcher and API, run waybill endpoint reseal, and
take the old keys out of the file.`,
		Example: "  waybill key rotate\n  waybill key rotate --secrets-key-file /etc/waybill/secrets.key",
	}
	f.bind(c)
	c.RunE = func(*cobra.Command, []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		id, before, err := sealed.AddKey(f.file())
		if err != nil {
			return err
		}
		if f.out == "json" {
			return f.print(s)
		}
		_, err = fmt.Fprintf(s.out, "%s  key %s encrypts from now on, %s and older ones decrypt\nNext: waybill endpoint reseal\n", f.file(), id, before)
		return err
	}
	return c
}

func keyList(s stdio) *cobra.Command {
	var f keyFileFlags
	c := &cobra.Command{
		Use: "list", Short: "List the ids of the keys in a key file",
		Long:    "List the ids of the keys in a key file, the one that encrypts first. The keys themselves are not shown.",
		Example: "  waybill key list\n  waybill key list --secrets-key-file /etc/waybill/secrets.key -o json",
	}
	f.bind(c)
	c.RunE = func(*cobra.Command, []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		return f.print(s)
	}
	return c
}

func (f *keyFileFlags) print(s stdio) error {
	ring, err := sealed.Open(f.file())
	if err != nil {
		return err
	}
	if f.out == "json" {
		return printJSON(s.out, keyIDs{File: f.file(), Keys: ring.KeyIDs()})
	}
	t := table{header: []string{"KEY", "USE"}}
	for i, id := range ring.KeyIDs() {
		use := "decrypts"
		if i == 0 {
			use = "encrypts and decrypts"
		}
		t.add(id, use)
	}
	return t.write(s.out, "no keys")
}

func endpointReseal(s stdio) *cobra.Command {
	var f endpointFlags
	c := &cobra.Command{
		Use: "reseal", Short: "Encrypt every endpoint's secrets under the newest key",
		Long: `Encrypt every endpoint's secrets under the newest key, each as a revision on
record. Secrets that an older version stored in the clear are encrypted too.
Afterwards the keys before can be taken out of the key file.`,
		Example: "  waybill key rotate && waybill endpoint reseal --reason 'yearly rotation'",
	}
	f.bindChange(c.Flags(), "why, for the record")
	f.target.bindKeys(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		return f.target.withControl(c.Context(), func(ctx context.Context, ctl *control.Control) error {
			done, err := ctl.Reseal(ctx, actorOr(f.actor), f.reason)
			if err != nil {
				return err
			}
			if f.out == "json" {
				err = printJSON(s.out, done)
			} else {
				_, err = fmt.Fprintf(s.out, "%d endpoints are sealed under key %s, %d of them anew\n", done.Sealed, done.KeyID, len(done.Resealed))
			}
			if err == nil && len(done.Failed) > 0 {
				id := slices.Sorted(maps.Keys(done.Failed))[0]
				err = fmt.Errorf("%d endpoints could not be resealed, keep the keys that they need; one of them: %s", len(done.Failed), strings.TrimSpace(done.Failed[id]))
			}
			return err
		})
	}
	return c
}
