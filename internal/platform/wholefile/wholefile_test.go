package wholefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

func holds(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("it holds %q, %v; want %q", b, err, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != mode {
		t.Errorf("its mode is %v, %v; want %v", info.Mode(), err, mode)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it is %v, %v", entries, err)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	for _, content := range []string{"first", "second, which is longer", ""} {
		if err := wholefile.Replace(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		holds(t, path, content, 0o600)
	}
	if err := wholefile.Replace(path, []byte("for all"), 0o644); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "for all", 0o644)
}

func TestAFileThatIsThereIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := wholefile.Create(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("creating it again: %v", err)
	}
	holds(t, path, "first", 0o600)
}

func TestWhatCannotBeMovedIntoPlaceLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "by a directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Replace(path, []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := wholefile.Replace(filepath.Join(dir, "missing", "keys"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
