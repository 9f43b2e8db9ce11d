package cli_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/cli"
	"github.com/waybill-dev/waybill/internal/process"
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
		if _, _, errs := run(t, "", "event", "publish", "--type", "a", "--data", "1"); !strings.Contains(errs, "nothing runs on data directory /somewhere") {
			t.Errorf("%q", errs)
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
		t.Errorf("%s is stale; write it anew with: go test ./internal/cli -update\ngot:\n%s", path, got)
	}
}

func TestTheReferenceOfCommandsIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program by `go test ./internal/cli -update`.\n" +
		"Every flag is also an environment variable, see [configuration](configuration.md).\n" +
		"Exit status: 0 done, 1 failed, 2 wrong use. Errors go to standard error, one line.\n")
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		b.WriteString("\n## " + c.CommandPath() + "\n\n" + c.Long + "\n")
		if c.Runnable() {
			b.WriteString("\n```\n" + c.UseLine() + "\n```\n")
		}
		b.WriteString("\nExamples:\n\n```sh\n" + strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n") + "\n```\n")
		if subs := subcommands(c); subs != "" {
			b.WriteString("\n" + subs)
		}
		if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
			b.WriteString("\nFlags:\n\n```\n" + trimLines(flags) + "```\n")
		}
	})
	golden(t, "../../docs/cli.md", b.String())
}

func subcommands(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			b.WriteString("- `" + sub.CommandPath() + "`: " + sub.Short + "\n")
		}
	}
	return b.String()
}

func trimLines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

func TestTheReferenceOfSettingsIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\nMade from the programs by `go test ./internal/cli -update`.\n" +
		"A flag on the command line wins over its environment variable, which wins over the default.\n")
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		if c.HasSubCommands() {
			return
		}
		b.WriteString("\n## " + c.CommandPath() + "\n\n| Flag | Environment variable | Default | Meaning |\n| --- | --- | --- | --- |\n")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				row(&b, "--"+f.Name, process.FlagEnv(f), f.DefValue, f.Usage)
			}
		})
	})
	mains, err := filepath.Glob("../../cmd/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mains {
		name := filepath.Base(filepath.Dir(m))
		if name != "waybill" && name != "waybill-clickhouse" { // the latter takes no settings from people
			b.WriteString("\n## " + name + "\n\n" + settingsOf(t, name))
		}
	}
	golden(t, "../../docs/configuration.md", b.String())
}

func row(b *strings.Builder, flag, env, value, usage string) {
	code := func(s string) string {
		if s == "" || s == "[]" {
			return ""
		}
		return "`" + s + "`"
	}
	b.WriteString("| " + code(flag) + " | " + code(env) + " | " + code(value) + " | " + strings.ReplaceAll(usage, "|", `\|`) + " |\n")
}

// flagLine is a flag in what --help prints.
var flagLine = regexp.MustCompile(`^\s+(?:-\w, )?--([\w-]+)(?: \w+)?\s{2,}(.*?)(?: \(default (.*)\))?$`)

// settingsOf asks the program itself: its flags are defined in package main.
func settingsOf(t *testing.T, name string) string {
	t.Helper()
	// Opened so that the test cache knows of it.
	if _, err := os.ReadFile("../../cmd/" + name + "/main.go"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "../../cmd/"+name, "--help").Output()
	if err != nil {
		t.Fatalf("cmd/%s --help: %v", name, err)
	}
	var b strings.Builder
	b.WriteString("| Flag | Environment variable | Default | Meaning |\n| --- | --- | --- | --- |\n")
	rows := 0
	for line := range strings.Lines(string(out)) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || m[1] == "help" || m[1] == "version" {
			continue
		}
		row(&b, "--"+m[1], process.EnvName(m[1]), strings.Trim(m[3], `"`), m[2])
		rows++
	}
	if rows == 0 {
		t.Fatalf("cmd/%s --help lists no flags:\n%s", name, out)
	}
	return b.String()
}
