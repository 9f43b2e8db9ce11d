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

	// Everything that the programs are made of: a change anywhere must not be
	// hidden by a cached result of these tests.
	_ "github.com/waybill-dev/waybill/internal/app/cli"
)

// root of the repository.
var root = filepath.Join("..", "..")

// options of a run; a failing run prints those that repeat it.
var options = struct {
	seed     *uint64
	duration *time.Duration
	wide     *int
	keep     *string
}{
	flag.Uint64("seed", 1, "seed of the chaos: which part is hurt next, how and for how long"),
	flag.Duration("duration", 15*time.Second, "how long the chaos lasts"),
	flag.Int("wide", 300, "how many endpoints the widest event is for"),
	flag.String("keep", "", "directory for data and logs, kept after the run (default: the tests' temporary ones)"),
}

// bin holds the programs, built once. Read-only after TestMain.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait more than they work: all run beside each other, whatever the number of cores.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-torture-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := readSources(filepath.Join(root, "cmd", "*", "*.go")); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/...")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "torture: go build: %v\n%s", err, out)
		return 1
	}
	bin = dir
	return m.Run()
}

// readSources opens the files of the main packages, which cannot be imported, so
// that the test cache knows of them.
func readSources(pattern string) error {
	files, err := filepath.Glob(pattern)
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			return err
		}
	}
	return err
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
