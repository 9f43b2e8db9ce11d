package testkit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Path is the absolute path of a file or folder of the repository, which name
// gives from its root, wherever the package of the test is.
func Path(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(b, []byte(module)) {
			return filepath.Join(dir, filepath.FromSlash(name))
		}
		above := filepath.Dir(dir)
		if above == dir {
			t.Fatal("the root of the repository was not found above the test")
		}
		dir = above
	}
}

const module = "module github.com/waybill-dev/waybill\n"
