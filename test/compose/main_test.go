// Package compose tests what people deploy: the binaries, the image's recipe,
// and compose.yaml, whose topology it also runs as processes.
package compose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// root of the repository, from this directory.
const root = "../.."

// commands are the binaries that are built, by the directory below cmd.
var commands = []string{"ingest", "fanout", "dispatcher", "escalator", "ledger-sink", "watchdog", "waybill",
	"waybill-clickhouse"}

// bin is the directory of the binaries under test. TestMain sets it.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-compose-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	// The main module's own go.mod decides the versions, also that of the NATS server.
	for _, packages := range [][]string{{"./cmd/..."}, {"github.com/nats-io/nats-server/v2"}} {
		c := exec.Command("go", append([]string{"build", "-trimpath", "-o", dir + string(filepath.Separator)},
			packages...)...)
		c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s", c, err, out)
			return 1
		}
	}
	return m.Run()
}

// load reads compose.yaml as docker compose does, with the values of
// deploy/env.example and, over them, those given ("NAME=value").
func load(t *testing.T, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "compose.yaml")},
		cli.WithWorkingDirectory(root), cli.WithEnvFiles(filepath.Join(root, "deploy", "env.example")),
		cli.WithEnv(env), cli.WithDotEnv, cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return project
}
