package lint_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Stages run beside each other on one machine, each as it comes.
func TestNoTwoStagesListenOnOnePort(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	listens := regexp.MustCompile(`HTTP:\s+"127\.0\.0\.1:(\d+)"`)
	owner := map[string]string{}
	for _, name := range mains {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listens.FindAllSubmatch(text, -1) {
			if other := owner[string(m[1])]; other != "" {
				t.Errorf("%s and %s both listen on port %s", other, name, m[1])
			}
			owner[string(m[1])] = name
		}
	}
	if len(owner) < 6 {
		t.Errorf("only %d stages were found: %v", len(owner), owner)
	}
}
