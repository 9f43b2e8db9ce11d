package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
)

func update() bool { return flag.Lookup("update").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write docs/cli.md, docs/configuration.md and the golden files anew")
	os.Exit(m.Run())
}

// walk visits every command that a user can see.
func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			walk(sub, visit)
		}
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			if c.Short == "" || strings.HasSuffix(c.Short, ".") {
				t.Errorf("Short is %q; want a phrase without a full stop", c.Short)
			}
			if c.Long == "" {
				t.Error("Long is empty")
			}
			if !strings.Contains(c.Example, c.CommandPath()) {
				t.Errorf("the example does not show the command: %q", c.Example)
			}
			for line := range strings.Lines(c.Example) {
				if len(strings.TrimRight(line, "\n")) > 120 {
					t.Errorf("an example is wider than 120 columns: %q", line)
				}
			}
			envs := map[string]string{}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if f.Usage == "" {
					t.Errorf("--%s has no description", f.Name)
				}
				if env := process.FlagEnv(f); env != "" {
					if other, ok := envs[env]; ok {
						t.Errorf("--%s and --%s are both %s", f.Name, other, env)
					}
					envs[env] = f.Name
				}
			})
			code, out, _ := run(t, "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
			if code != process.ExitOK || !strings.Contains(out, "Examples:") {
				t.Errorf("--help: exit %d, %q", code, out)
			}
		})
	})
}

func TestEveryListingTakesOutputJSON(t *testing.T) {
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		if c.HasSubCommands() || c.Name() == "up" || c.Name() == "demo" {
			return
		}
		if f := c.Flags().ShorthandLookup("o"); f == nil || f.Name != "output" {
			t.Errorf("%s has no -o", c.CommandPath())
		}
	})
}

func TestAFlagIsAnEnvironmentVariable(t *testing.T) {
	t.Chdir(t.TempDir())
	tests := []struct{ env, value, want string }{
		{"WAYBILL_OUTPUT", "yaml", `--output "yaml"`},
		{"WAYBILL_DATA", "/somewhere/else", "nothing runs on data directory /somewhere/else"},
		{"WAYBILL_ADDRESSES", "/no/such/file", "addresses file /no/such/file is not there"},
		{"WAYBILL_LIMIT", "x", "environment variable WAYBILL_LIMIT"},
		{"WAYBILL_NATS_URL", "nats://127.0.0.1:1", "nats://127.0.0.1:1"},
		{"WAYBILL_SINCE", "monday", `--since "monday"`},
	}
	for _, tt := range tests {
		t.Run(tt.env, func(t *testing.T) {
			t.Setenv(tt.env, tt.value)
			code, _, errs := run(t, "", "delivery", "list")
			if code == process.ExitOK || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, %q; want %q", code, errs, tt.want)
			}
		})
	}
	t.Run("the command line wins", func(t *testing.T) {
		t.Setenv("WAYBILL_OUTPUT", "yaml")
		if _, _, errs := run(t, "", "delivery", "list", "-o", "json"); !strings.Contains(errs, "nothing runs") {
			t.Errorf("%q", errs)
		}
	})
	t.Run("the data directory is never an event's data", func(t *testing.T) {
		t.Setenv("WAYBILL_DATA", "/somewhere")
		if _, _, errs := run(t, "", "event", "publish", "--type", "a"); !strings.Contains(errs, "--data is missing") {
			t.Errorf("%q", errs)
		}
		if _, _, errs := run(t, "", "event", "publish", "--type", "a", "--data", "1"); !strings.Contains(errs,
			"nothing runs on data directory /somewhere") {
			t.Errorf("%q", errs)
		}
	})
}

func TestADirectoryAndAnEventsDataAreNeverTakenForEachOther(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "order.json")
	if err := os.WriteFile(file, []byte(`{"n":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	publish := []string{"event", "publish", "--type", "a", "--data"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(publish, dir), "the data directory of waybill up goes into --data-dir"},
		{append(publish, "order.json"), "to send what is in it: --data @order.json"},
		{append(publish, "not JSON"), "--data is not one JSON value; quote"},
		{[]string{"event", "publish", "--ndjson", "--data", dir}, "goes into --data-dir"},
		{[]string{"event", "publish", "--ndjson", "--data", file}, "--data @" + file},
		{[]string{"delivery", "list", "--data", `{"order":"A-1"}`}, "looks like an event's data"},
		{[]string{"delivery", "list", "--data-dir", "@order.json"}, "looks like an event's data"},
	} {
		code, _, errs := run(t, "", c.args...)
		if code != process.ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, %q; want %q", c.args, code, errs, c.want)
		}
	}
	// On every command the directory has one name, which help shows; --data is
	// another name of it wherever it is not an event's data.
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		f := c.Flags()
		if f.Lookup("data-dir") == nil {
			return
		}
		payload := c.CommandPath() == "waybill event publish" || c.CommandPath() == "waybill audit integrity"
		if same := f.Lookup("data") == f.Lookup("data-dir"); same == payload {
			t.Errorf("%s: --data is the data directory: %v", c.CommandPath(), same)
		}
		if env := process.FlagEnv(f.Lookup("data-dir")); env != "WAYBILL_DATA" {
			t.Errorf("%s: --data-dir is %s", c.CommandPath(), env)
		}
	})
}

func TestTheConnectionIsExplainedInOnePlace(t *testing.T) {
	code, out, _ := run(t, "", "help", "connection")
	for _, flag := range []string{"--data-dir", "--addresses", "--nats-url", "--nats-creds", "--clickhouse",
		"WAYBILL_ADDRESSES"} {
		if code != process.ExitOK || !strings.Contains(out, flag) {
			t.Errorf("exit %d, without %s: %s", code, flag, out)
		}
	}
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		_, where := cli.Sections(c)
		if !where.HasFlags() {
			return
		}
		_, out, _ := run(t, "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if !strings.Contains(out, "see: waybill help connection") ||
			strings.Contains(out, "NATS servers of the deployment, comma-separated") {
			t.Errorf("%s tells it again, or does not say where: %s", c.CommandPath(), out)
		}
	})
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if update() {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale; write it anew with: go test ./internal/app/cli -update\ngot:\n%s", path, got)
	}
}
