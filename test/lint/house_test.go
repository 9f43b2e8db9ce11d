package lint_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/waybill-dev/waybill/test/lint"
)

var update = flag.Bool("update", false, "write docs/house.md and docs/logs.md anew")

func TestThePictureOfTheHouseIsTrue(t *testing.T) {
	files, err := lint.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	name, want := filepath.Join(root, "docs", "house.md"), lint.Picture(files)
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if empty := regexp.MustCompile("(?m)^\\| `[^`]+` \\|  \\|$").FindAllString(want, -1); len(empty) > 0 {
		t.Errorf("packages without a comment that says what they are: %q", empty)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("docs/house.md is not what the imports say; run: make docs (%v)", err)
	}
}

func TestThePictureOfTheLogsIsTrue(t *testing.T) {
	files, err := lint.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	want, unused := lint.LogEvents(files)
	if len(unused) > 0 {
		t.Errorf("names of internal/platform/logevent that nothing logs: %q", unused)
	}
	name := filepath.Join(root, "docs", "logs.md")
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if empty := regexp.MustCompile("(?m)^\\| `[^`]+` \\| [a-z, ]+ \\|  \\|$").FindAllString(want, -1); len(empty) > 0 {
		t.Errorf("names without a comment that says what they mean: %q", empty)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("docs/logs.md is not what the program logs; run: make docs (%v)", err)
	}
}
