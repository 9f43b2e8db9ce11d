package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/allinone"
)

// keyFile is a key file that a command reads or changes: the one that its flag
// names, else the one that the running waybill up has said it uses, else the one
// in the data directory.
type keyFile struct {
	flag string // how the flag is called that names it
	name string // of the file in the data directory's folder keys
	// of is the file that a running waybill up says it uses; empty when it uses none.
	of func(allinone.Addresses) string
}

var (
	secretsKey = keyFile{"secrets-key-file", "secrets.key",
		func(a allinone.Addresses) string { return a.SecretsKeyFile }}
	checkpointKey = keyFile{"checkpoint-key", "checkpoint.key",
		func(a allinone.Addresses) string { return a.CheckpointKeyFile }}
)

// bindPlace adds the flags that say where the running waybill up is, for commands that
// need its files and not its servers.
func (t *target) bindPlace(f *pflag.FlagSet) {
	bindDataDir(f, &t.data, "data directory of waybill up")
	f.StringVar(&t.addresses, "addresses", "", "addresses file of the running waybill up, instead of its data directory")
}

// find decides which file it is. It MUST be there when the answer has no error.
func (k keyFile) find(named string, t *target) (string, error) {
	if named != "" {
		return named, nil // whoever opens it says what is wrong with it
	}
	path, how := filepath.Join(t.data, "keys", k.name), "data directory "+t.data
	switch {
	case t.addresses != "":
		a, from, err := t.read()
		if err != nil {
			return "", err
		}
		if path, how = k.of(a), from; path == "" {
			return "", fmt.Errorf("%s names no such key file: its keys came from the environment, or it is of an older "+
				"version; name the file with --%s", from, k.flag)
		}
	case allinone.Running(t.data):
		if a, from, err := t.read(); err == nil && k.of(a) != "" {
			path, how = k.of(a), from
		}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("key file %s is not there (by %s); say where it is with --%s, or name the data directory "+
			"with --data-dir, or the addresses file of the running waybill up with --addresses",
			path, how, k.flag)
	}
	return path, nil
}
