package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
)

// Whatever the command, wrong arguments are answered alike: what was wanted, what
// came, where to read on.
func TestEveryCommandSaysWhichArgumentsItWants(t *testing.T) {
	t.Chdir(t.TempDir())
	optional := regexp.MustCompile(` \[[A-Z_]+\]$`)
	required := regexp.MustCompile(` [A-Z_]+$`)
	walk(cli.New(nil, nil, nil), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		wrong := func(want string, args ...string) {
			t.Helper()
			code, out, errs := run(t, "", append(path, args...)...)
			if code != process.ExitUsage || out != "" || strings.Count(errs, "\n") != 1 ||
				!strings.HasPrefix(errs, "waybill: "+want) ||
				!strings.HasSuffix(errs, "; see: "+c.CommandPath()+" --help\n") {
				t.Errorf("%s %q: exit %d, %q%q; want %q and a hint at --help", c.CommandPath(), args, code, out, errs, want)
			}
		}
		const two = `2: "x y" "z"`
		switch {
		case c.HasSubCommands():
			wrong(c.CommandPath() + " needs a command")
			wrong(`no command "x y"`, "x y", "z")
		case optional.MatchString(c.Use):
			wrong("want one ", "x y", "z")
			wrong("want one ", "")
		case required.MatchString(c.Use):
			wrong("want one ")
			wrong("want one ", "x y", "z")
			wrong("want one ", "")
		default:
			wrong("want no arguments, got "+two, "x y", "z")
		}
		if c.HasSubCommands() {
			return
		}
		wrong("unknown flag: --no-such-flag", "--no-such-flag")
		if _, _, errs := run(t, "", append(path, "x y", "z")...); !strings.Contains(errs, two) {
			t.Errorf("%s: %q does not say what came", c.CommandPath(), errs)
		}
	})
}

func TestAFlagSaysWhatItWants(t *testing.T) {
	t.Chdir(t.TempDir())
	for want, args := range map[string][]string{
		`--limit "many": want a whole number`:                             {"delivery", "list", "--limit", "many"},
		`--from "-1": want a whole number of 0 or more`:                   {"ledger", "verify", "--from", "-1"},
		`--sink-wait "soon": want a duration such as 90s, 15m or 24h`:     {"audit", "completeness", "--sink-wait", "soon"},
		`--strict "perhaps": want true or false`:                          {"event-type", "lint", "--strict=perhaps"},
		`want no arguments, got 5: "a" "b" "c" …; see: waybill doctor`:    {"doctor", "a", "b", "c", "d", "e"},
		`got 2: "` + strings.Repeat("ü", 40) + `…" "b"; for example: way`: {"endpoint", "show", strings.Repeat("ü", 50), "b"},
	} {
		if code, _, errs := run(t, "", args...); code != process.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: exit %d, %q; want %q", args, code, errs, want)
		}
	}
	t.Setenv("WAYBILL_LIMIT", "many")
	if _, _, errs := run(t, "", "delivery", "list"); !strings.Contains(errs,
		`environment variable WAYBILL_LIMIT: --limit "many": want a whole number`) {
		t.Errorf("%q", errs)
	}
}
