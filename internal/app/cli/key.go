package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

func keyCommand(s stdio) *cobra.Command {
	return group("key", "Make and replace the keys that endpoints' and channels' secrets are encrypted with",
		"  waybill key generate --secrets-key-file /etc/waybill/secrets.key\n  waybill key rotate --secrets-key-file "+
			"/etc/waybill/secrets.key",
		keyGenerate(s), keyRotate(s), keyReseal(s), keyList(s))
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
		Example: "  waybill key generate --secrets-key-file /etc/waybill/secrets.key\n  export " + sealed.EnvKeys +
			"=$(waybill key generate)",
	}
	out.bind(c.Flags())
	c.Flags().StringVar(&path, "secrets-key-file", "", "file to make (default: none, the key is printed)")
	c.RunE = func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if path != "" && path != standardOutput {
			id, err := sealed.CreateFile(path)
			if err != nil {
				return err
			}
			if out == "json" {
				return printJSON(s.out, keyIDs{File: path, Keys: []string{id}})
			}
			_, err = fmt.Fprintf(s.out, "%s  key %s\nKeep a copy of it, apart from the data: without it no delivery can be "+
				"signed.\n", path, id)
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

// keyFileFlags name a key file, see keyFile.
type keyFileFlags struct {
	path   string
	target target
	out    format
}

func (f *keyFileFlags) bind(c *cobra.Command) {
	f.out.bind(c.Flags())
	c.Flags().StringVar(&f.path, secretsKey.flag, "",
		"the key file (default: that of the running waybill up, else DATA/keys/secrets.key)")
	f.target.bindPlace(c.Flags())
}

func keyRotate(s stdio) *cobra.Command {
	var f keyFileFlags
	c := &cobra.Command{
		Use: "rotate", Short: "Add a new key, which encrypts from now on",
		Long: `Add a new key to a key file: it encrypts from now on, those that were there still
decrypt. What runs takes the new file up by itself.

Then bring the file to every process that has it (dispatchers, escalators,
watchdogs, APIs), run waybill key reseal, and take the old keys out of the file.`,
		Example: "  waybill key rotate\n  waybill key rotate --secrets-key-file /etc/waybill/secrets.key",
	}
	f.bind(c)
	c.RunE = func(*cobra.Command, []string) error {
		if err := f.out.check(); err != nil {
			return err
		}
		path, err := secretsKey.find(f.path, &f.target)
		if err != nil {
			return err
		}
		id, before, err := sealed.AddKey(path)
		if err != nil {
			return err
		}
		if f.out == "json" {
			return f.print(s, path)
		}
		_, err = fmt.Fprintf(s.out, "%s  key %s encrypts from now on, %s and older ones decrypt\nNext: waybill key reseal\n",
			path, id, before)
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
		path, err := secretsKey.find(f.path, &f.target)
		if err != nil {
			return err
		}
		return f.print(s, path)
	}
	return c
}

func (f *keyFileFlags) print(s stdio, path string) error {
	ring, err := sealed.Open(path)
	if err != nil {
		return err
	}
	if f.out == "json" {
		return printJSON(s.out, keyIDs{File: path, Keys: ring.KeyIDs()})
	}
	t := table{header: []string{"KEY", "USE"}}
	for i, id := range ring.KeyIDs() {
		use := "decrypts"
		if i == 0 {
			use = "encrypts and decrypts"
		}
		t.add(id, use)
	}
	return t.show(s, f.out, "no keys")
}

const resealLong = `Encrypt the secrets of every endpoint and every channel under the newest key, each
as a revision on record. Secrets that an older version stored in the clear are
encrypted too. Afterwards the keys before can be taken out of the key file.`

func keyReseal(s stdio) *cobra.Command {
	return resealCommand(s, "Encrypt every endpoint's and channel's secrets under the newest key", resealLong,
		"  waybill key rotate && waybill key reseal --reason 'yearly rotation'")
}

// endpointReseal is the name that it had before channels had secrets.
func endpointReseal(s stdio) *cobra.Command {
	return resealCommand(s, "The same as waybill key reseal", resealLong,
		"  waybill key rotate && waybill endpoint reseal --reason 'yearly rotation'")
}

func resealCommand(s stdio, short, long, example string) *cobra.Command {
	var f changeFlags
	c := &cobra.Command{Use: "reseal", Short: short, Long: long, Example: example}
	f.bind(c.Flags())
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
				_, err = fmt.Fprintf(s.out, "%s and %s are sealed under key %s, %d and %d of them anew\n",
					text.Count(done.Sealed, "endpoint", "endpoints"), text.Count(done.Channels.Sealed, "channel", "channels"),
					done.KeyID, len(done.Resealed), len(done.Channels.Resealed))
			}
			return firstError(err, notResealed("endpoint", done.Failed), notResealed("channel", done.Channels.Failed))
		})
	}
	return c
}

func notResealed(one string, failed map[string]string) error {
	if len(failed) == 0 {
		return nil
	}
	name := slices.Sorted(maps.Keys(failed))[0]
	return fmt.Errorf("%s could not be resealed, keep every key that is needed; one of them, %s: %s",
		text.Count(len(failed), one, one+"s"), name, strings.TrimSpace(failed[name]))
}
