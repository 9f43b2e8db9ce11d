// Package operations_test runs the real programs and looks at them as an
// operator does: at their metrics, logs, traces and readiness.
package operations_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	// Everything that the programs are made of: a change anywhere must not be
	// hidden by a cached result of these tests.
	_ "github.com/waybill-dev/waybill/internal/app/cli"
	_ "github.com/waybill-dev/waybill/internal/pipeline/ingest"
)

// programs is the directory of the binaries that TestMain builds.
var programs string

// stages are the programs of the parts that run alone.
var stages = []string{"ingest", "fanout", "dispatcher", "ledger-sink", "escalator", "watchdog"}

func update() bool { return flag.Lookup("update").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write docs/metrics.md anew")
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-operations-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	mains, err := filepath.Glob("../../cmd/*/*.go")
	for _, f := range mains { // read, so that the test cache knows of them
		if _, err := os.ReadFile(f); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	build := exec.Command("go", "build", "-o", dir+"/", "../../cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err2 := build.CombinedOutput(); err != nil || err2 != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v %v\n%s", err, err2, out)
		return 1
	}
	return m.Run()
}
