// Package torture_test runs the real programs under load while it kills,
// freezes, stops and cuts off every part of them, with receivers that misbehave
// in every way; then it lets everything come to rest and checks the invariants
// against what producers were told and receivers got. See docs/torture.md.
package torture_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// options of a run; a failing run prints those that repeat it.
var options = struct {
	seed     *uint64
	duration *time.Duration
	keep     *string
}{
	flag.Uint64("seed", 1, "seed of the chaos: which part is hurt next, how and for how long"),
	flag.Duration("duration", 20*time.Second, "how long the chaos lasts"),
	flag.String("keep", "", "directory for data and logs, kept after the run (default: the tests' temporary ones)"),
}

// bin holds the programs, built once. Read-only after TestMain.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-torture-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/...")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "torture: go build: %v\n%s", err, out)
		return 1
	}
	bin = dir
	return m.Run()
}

// workspace is where a test's data and logs are.
func workspace(t *testing.T) string {
	t.Helper()
	if *options.keep == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*options.keep, fmt.Sprintf("%s-seed%d-", filepath.Base(t.Name()), *options.seed))
	must(t, err)
	t.Logf("data and logs are in %s", dir)
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
