package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsNoBackupIsNotRestored(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	code, _, errs := run(t, "", "ledger", "restore", "--from", t.TempDir(), "--data", data)
	if code != 2 || !strings.Contains(errs, "holds no backup") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a data directory was made for it: %v", err)
	}
}
