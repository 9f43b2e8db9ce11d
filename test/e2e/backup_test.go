package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// The data directory is closed to other users of the machine; what is copied out
// of it must be, too.
func TestABackupIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	to := filepath.Join(t.TempDir(), "backup")
	if code, out, errs := waybill(t, "", "ledger", "backup", "--to", to, "--data", d.dir); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the backup: %v, %v; want only its owner to read it", info, err)
	}
}
