package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/test/testkit"
)

// reference reads what people wrote of a page that is made.
func reference(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "reference", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestTheReferenceOfCommandsIsUpToDate(t *testing.T) {
	root := cli.New(nil, nil, nil)
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program by `go test ./internal/app/cli -update`.\n" +
		"Every flag is also an environment variable, see [configuration](configuration.md).\n" +
		"Exit status: 0 done, 1 failed, 2 wrong use. Errors go to standard error, one line.\n\n")
	b.WriteString(reference(t, "tasks.txt"))
	b.WriteString("\n## Where the deployment runs\n\n" + fence(cli.ConnectionText()) + "\n")
	_, where := cli.Sections(find(t, root, "doctor"))
	b.WriteString(fence(trimLines(where.FlagUsages())))
	b.WriteString("\nOf a command that has them, *and the connection* stands below its flags.\n\n## All commands\n\n")
	walk(root, func(c *cobra.Command) {
		if c.Runnable() {
			b.WriteString(fmt.Sprintf("- [`%s`](#%s): %s\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"),
				c.Short))
		}
	})
	walk(root, func(c *cobra.Command) {
		b.WriteString("\n## " + c.CommandPath() + "\n\n" + c.Long + "\n")
		if c.Runnable() {
			b.WriteString("\n```\n" + c.UseLine() + "\n```\n")
		}
		b.WriteString("\nExamples:\n\n```sh\n" + strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n") +
			"\n```\n")
		if subs := subcommands(c); subs != "" {
			b.WriteString("\n" + subs)
		}
		own, where := cli.Sections(c)
		if flags := own.FlagUsages(); flags != "" {
			b.WriteString("\nFlags:\n\n" + fence(trimLines(flags)))
		}
		if where.HasFlags() {
			b.WriteString("\n*and [the connection](#where-the-deployment-runs)*\n")
		}
	})
	golden(t, testkit.Path(t, "docs/cli.md"), b.String())
}

func fence(s string) string { return "```\n" + strings.TrimRight(s, "\n") + "\n```\n" }

func find(t *testing.T, root *cobra.Command, path ...string) *cobra.Command {
	t.Helper()
	c, _, err := root.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
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

// most are the settings that whoever begins needs, in this order; each program
// has some of them.
var most = []string{"data-dir", "nats-url", "nats-creds", "clickhouse", "secrets-key-file", "checkpoint-key",
	"egress-allow", "egress-proxy",
	"ca-file", "http", "partitions", "log-level"}

// setting is a flag as a page shows it.
type setting struct{ flag, env, value, usage string }

func TestTheReferenceOfSettingsIsUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Configuration\n\nMade from the programs by `go test ./internal/app/cli -update`.\n\n" + reference(t,
		"settings.txt"))
	up := find(t, cli.New(nil, nil, nil), "up")
	var all []setting
	up.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			all = append(all, setting{"--" + f.Name, process.FlagEnv(f), f.DefValue, f.Usage})
		}
	})
	b.WriteString("\n## waybill up\n\nEverything in one process: it takes what the stages below take, where that makes " +
		"sense.\n")
	settings(&b, all)
	mains, err := filepath.Glob(testkit.Path(t, "cmd/*/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mains {
		name := filepath.Base(filepath.Dir(m))
		if name != "waybill" && name != "waybill-clickhouse" { // the latter takes no settings from people
			b.WriteString("\n## " + name + "\n")
			settings(&b, settingsOf(t, name))
		}
	}
	golden(t, testkit.Path(t, "docs/configuration.md"), b.String())
}

// settings writes the few that matter first, and then the others.
func settings(b *strings.Builder, all []setting) {
	const header = "| Flag | Environment variable | Default | Meaning |\n| --- | --- | --- | --- |\n"
	b.WriteString("\nTo begin with:\n\n" + header)
	for _, name := range most {
		if i := slices.IndexFunc(all, func(s setting) bool { return s.flag == "--"+name }); i >= 0 {
			row(b, all[i])
		}
	}
	b.WriteString("\nThe others:\n\n" + header)
	for _, s := range all {
		if !slices.Contains(most, strings.TrimPrefix(s.flag, "--")) {
			row(b, s)
		}
	}
}

func row(b *strings.Builder, s setting) {
	code := func(s string) string {
		if s == "" || s == "[]" {
			return ""
		}
		return "`" + s + "`"
	}
	b.WriteString("| " + code(s.flag) + " | " + code(s.env) + " | " + code(s.value) + " | " + strings.ReplaceAll(s.usage,
		"|", `\|`) + " |\n")
}

// flagLine is a flag in what --help prints.
var flagLine = regexp.MustCompile(`^\s+(?:-\w, )?--([\w-]+)(?: \w+)?\s{2,}(.*?)(?: \(default (.*)\))?$`)

// settingsOf asks the program itself: its flags are defined in package main.
func settingsOf(t *testing.T, name string) []setting {
	t.Helper()
	// Opened so that the test cache knows of it.
	if _, err := os.ReadFile(testkit.Path(t, "cmd/"+name+"/main.go")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", testkit.Path(t, "cmd/"+name), "--help").Output()
	if err != nil {
		t.Fatalf("cmd/%s --help: %v", name, err)
	}
	var rows []setting
	for line := range strings.Lines(string(out)) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil || m[1] == "help" || m[1] == "version" {
			continue
		}
		rows = append(rows, setting{"--" + m[1], process.EnvName(m[1]), strings.Trim(m[3], `"`), m[2]})
	}
	if len(rows) == 0 {
		t.Fatalf("cmd/%s --help lists no flags:\n%s", name, out)
	}
	return rows
}
