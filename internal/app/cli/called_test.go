package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestAHintNamesTheProgramAsThePersonFindsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "bin", "waybill")
	other := filepath.Join(dir, "waybill")
	for _, f := range []string{self, other} {
		if err := os.WriteFile(f, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	finds := func(path string, err error) func(string) (string, error) {
		return func(string) (string, error) { return path, err }
	}
	missing := errors.New("not found")
	for _, c := range []struct {
		arg  string
		look func(string) (string, error)
		want string
	}{
		{"waybill", finds(self, nil), "waybill"},
		{"bin/waybill", finds("", missing), "bin/waybill"},
		{"bin/waybill", finds(other, nil), "bin/waybill"}, // another one is found
		{"waybill", finds("", missing), "'" + self + "'"},
		{self, finds("", missing), "'" + self + "'"},
	} {
		if got := pasteable(self, c.arg, c.look); got != c.want {
			t.Errorf("called as %s: %s, want %s", c.arg, got, c.want)
		}
	}
}
