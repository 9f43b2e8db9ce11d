// Package e2e runs the real programs as a user does.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	// Everything that the programs are made of: a change anywhere must not be
	// hidden by a cached result of these tests.
	_ "github.com/waybill-dev/waybill/internal/app/cli"
)

// programs is the directory of the binaries that TestMain builds.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	for _, name := range []string{"waybill", "waybill-clickhouse"} {
		if err := readSources("../../cmd/" + name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", name, err, out)
			return 1
		}
	}
	return m.Run()
}

// readSources opens the files of a main package, which cannot be imported, so
// that the test cache knows of them.
func readSources(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			return err
		}
	}
	return err
}
