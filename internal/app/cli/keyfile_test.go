package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/allinone"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// keyFiles makes both key files in a folder that no default names, and the
// addresses file of a waybill up that uses them.
func keyFiles(t *testing.T) (addresses, verifier, sealing string) {
	t.Helper()
	dir := t.TempDir()
	a := allinone.Addresses{HTTP: "127.0.0.1:1", CheckpointKeyFile: filepath.Join(dir, "c.key"),
		SecretsKeyFile: filepath.Join(dir, "s.key")}
	key, err := checkpoint.CreateFile(a.CheckpointKeyFile, "example.com/ledger")
	if err != nil {
		t.Fatal(err)
	}
	if sealing, err = sealed.CreateFile(a.SecretsKeyFile); err != nil {
		t.Fatal(err)
	}
	addresses = filepath.Join(dir, "addresses.json")
	if err := allinone.WriteAddresses(addresses, a); err != nil {
		t.Fatal(err)
	}
	return addresses, key.Verifier, sealing
}

func TestKeyCommandsFindTheFilesOfTheRunningUp(t *testing.T) {
	addresses, verifier, sealing := keyFiles(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ledger", "key", "show"}, verifier},
		{[]string{"ledger", "key", "retire"}, verifier},
		{[]string{"key", "list"}, sealing},
		{[]string{"key", "rotate"}, sealing},
	} {
		code, out, stderr := run(t, "", append(c.args, "--addresses", addresses)...)
		if code != process.ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("%q by the flag: exit %d, %q, %q; want %s in it", c.args, code, out, stderr, c.want)
		}
	}
	t.Setenv("WAYBILL_ADDRESSES", addresses)
	code, out, stderr := run(t, "", "ledger", "key", "show")
	if code != process.ExitOK || !strings.Contains(out, verifier) {
		t.Errorf("by the variable: exit %d, %q, %q", code, out, stderr)
	}
}

func TestAKeyFileThatIsNotThereIsNoReasonToMakeAnother(t *testing.T) {
	empty := t.TempDir()
	inline := filepath.Join(empty, "addresses.json")
	if err := allinone.WriteAddresses(inline, allinone.Addresses{HTTP: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ledger", "key", "show"}, {"ledger", "key", "retire"}, {"ledger", "key", "rotate"},
		{"key", "list"}, {"key", "rotate"}} {
		for _, place := range [][]string{{"--data", filepath.Join(empty, "data")}, {"--addresses", inline}} {
			code, out, stderr := run(t, "", append(args, place...)...)
			if code == process.ExitOK || out != "" || strings.Contains(stderr, "generate") {
				t.Errorf("%q %q: exit %d, %q, %q; it must not advise a new key", args, place, code, out, stderr)
			}
			if !strings.Contains(stderr, "-key") {
				t.Errorf("%q %q: %q does not say which flag names the file", args, place, stderr)
			}
		}
	}
}

func TestADashMeansStandardOutputOrIsRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, stderr := run(t, "", "ledger", "key", "generate", "--origin", "example.com/ledger", "--out", "-")
	if code != process.ExitOK || !strings.HasPrefix(out, "PRIVATE+KEY+") {
		t.Errorf("a key on standard output: exit %d, %q, %q", code, out, stderr)
	}
	code, out, stderr = run(t, "", "key", "generate", "--secrets-key-file", "-", "-o", "json")
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(out), &made); code != process.ExitOK || err != nil || made.Key == "" {
		t.Errorf("a key as JSON: exit %d, %q, %q, %v", code, out, stderr, err)
	}
	for _, args := range [][]string{{"up", "--addresses", "-"}, {"ledger", "verify", "--state", "-"},
		{"ledger", "backup", "--to", "-"}} {
		if code, _, stderr := run(t, "", args...); code != process.ExitUsage || !strings.Contains(stderr, "name a file") {
			t.Errorf("%q: exit %d, %q", args, code, stderr)
		}
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file named - was written")
	}
}
