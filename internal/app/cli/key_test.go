package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

func TestAKeyFileIsMadeListedAndGrowsAndItsKeysAreNeverShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "secrets.key")
	code, out, errs := run(t, "", "key", "generate", "--secrets-key-file", path)
	if code != process.ExitOK || !strings.Contains(out, path) {
		t.Fatalf("exit %d, %q %q", code, out, errs)
	}
	if code, _, errs := run(t, "", "key", "generate", "--secrets-key-file", path); code != process.ExitFailed ||
		!strings.Contains(errs, "is there already") {
		t.Errorf("made twice: exit %d, %q", code, errs)
	}
	texts := out
	for range 2 {
		code, out, errs := run(t, "", "key", "rotate", "--secrets-key-file", path)
		if code != process.ExitOK || !strings.Contains(out, "waybill key reseal") {
			t.Fatalf("exit %d, %q %q", code, out, errs)
		}
		texts += out
	}
	code, out, _ = run(t, "", "key", "list", "--secrets-key-file", path, "-o", "json")
	var listed struct{ Keys []string }
	if err := json.Unmarshal([]byte(out), &listed); code != process.ExitOK || err != nil || len(listed.Keys) != 3 {
		t.Errorf("exit %d, %s (%v)", code, out, err)
	}
	ring, err := sealed.Open(path)
	if err != nil || strings.Join(ring.KeyIDs(), " ") != strings.Join(listed.Keys, " ") {
		t.Errorf("the file has %v (%v), listed %v", ring, err, listed.Keys)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), sealed.KeyPrefix); ok && strings.Contains(texts+out, key) {
			t.Error("a key was printed")
		}
	}
	if code, _, errs := run(t, "", "key", "list", "--secrets-key-file", "/no/such/file"); code != process.ExitFailed ||
		!strings.Contains(errs, "waybill key generate") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestAKeyForTheEnvironmentIsPrinted(t *testing.T) {
	code, out, _ := run(t, "", "key", "generate")
	if _, err := sealed.Parse(out); code != process.ExitOK || err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("exit %d, %d bytes: %v", code, len(out), err)
	}
	t.Setenv("WAYBILL_SECRETS_KEY", strings.TrimSpace(out))
	path := filepath.Join(t.TempDir(), "k")
	if _, err := sealed.CreateFile(path); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run(t, "", "endpoint", "create", "--url", someURL, "--types", ">", "--nats-url", "nats://127.0.0.1:1",
		"--secrets-key-file", path)
	if code != process.ExitUsage || !strings.Contains(errs, "both set") {
		t.Errorf("exit %d, %q", code, errs)
	}
	t.Setenv("WAYBILL_SECRETS_KEY", "hunter2")
	code, _, errs = run(t, "", "endpoint", "create", "--url", someURL, "--types", ">", "--nats-url", "nats://127.0.0.1:1")
	if code != process.ExitUsage || !strings.Contains(errs, "WAYBILL_SECRETS_KEY") || strings.Contains(errs, "hunter2") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
