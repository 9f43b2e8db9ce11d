package cli_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/process"
)

// auditMistakes are those that every question of the audit refuses, and those of
// single ones.
func auditMistakes(write func(name, content string) string) []mistake {
	var out []mistake
	for _, command := range [][]string{{"attempts", "e1"}, {"duplicates"}, {"failures"}, {"integrity"}, {"controls"},
		{"completeness"},
		{"report", "--from", "2026-10-01", "--to", "2026-11-01"}} {
		wrong := func(what, want string, args ...string) {
			out = append(out, mistake{"audit " + command[0] + ": " + what,
				append(append([]string{"audit"}, command...), args...), want})
		}
		wrong("from", `--from "monday": want a date such as`, "--from", "monday")
		wrong("a date that is none", `--from "2026-02-30": want a date`, "--from", "2026-02-30")
		wrong("to", `--to "-1h": want a date such as`, "--to", "-1h")
		wrong("a year that cannot be", "want a year from 1970 to 2261", "--from", "0001-01-01")
		wrong("from after to", "is not before --to", "--from", "2026-11-02", "--to", "2026-11-01")
		wrong("from is to", "is not before --to", "--from", "2026-11-02", "--to", "2026-11-02T00:00:00Z")
		wrong("tenant", "--tenant", "--tenant", "a.b")
		wrong("endpoint", "is no endpoint id", "--endpoint", "ep_1")
		wrong("output", "--output \"xml\": want", "-o", "xml")
		wrong("limit", "--limit 0: want 1 to 100000", "--limit", "0")
		wrong("clickhouse", "--clickhouse", "--clickhouse", "localhost:9000")
		wrong("argument", "", "now", "then")
	}
	return append(out, []mistake{
		{"audit", []string{"audit"}, "waybill audit needs a command"},
		{"audit attempts: no id", []string{"audit", "attempts"}, "want one event id"},
		{"audit attempts: id", []string{"audit", "attempts", "a b"}, "id"},
		{"audit duplicates: event", []string{"audit", "duplicates", "--event", "a b"}, "id"},
		{"audit failures: event", []string{"audit", "failures", "--event", "a b"}, "id"},
		{"audit integrity: two files", []string{"audit", "integrity", "--event", "e1", "--payload", "a", "--data", "b"},
			"give one of them"},
		{"audit integrity: of which event", []string{"audit", "integrity", "--payload", "a"}, "--payload needs --event"},
		{"audit integrity: no such file", []string{"audit", "integrity", "--event", "e1", "--payload", "/no/such/file"},
			"name a file that can be read"},
		{"audit integrity: a directory", []string{"audit", "integrity", "--event", "e1", "--data", "/"},
			"name a file that can be read"},
		{"audit integrity: too large", []string{"audit", "integrity", "--event", "e1", "--data",
			write("huge", strings.Repeat("x", 5<<20))[1:]}, "no payload is that large"},
		{"audit completeness: wait", []string{"audit", "completeness", "--sink-wait", "-1s"},
			"--sink-wait -1s: want 0s or more"},
		{"audit report: no from", []string{"audit", "report", "--to", "2026-11-01"}, "--from is missing"},
		{"audit report: no to", []string{"audit", "report", "--from", "2026-11-01"}, "--to is missing"},
		{"audit report: csv", []string{"audit", "report", "--from", "2026-10-01", "--to", "2026-11-01", "-o", "csv"},
			"want html or json"},
	}...)
}

func TestAnAuditWithoutAnAnsweringClickHouseFails(t *testing.T) {
	t.Chdir(t.TempDir())
	code, _, errs := run(t, "", "audit", "failures", "--clickhouse", "clickhouse://127.0.0.1:1/waybill")
	if code != process.ExitFailed || !strings.Contains(errs, "cannot reach ClickHouse at 127.0.0.1:1") {
		t.Errorf("exit %d, %q", code, errs)
	}
	code, _, errs = run(t, "", "audit", "controls")
	if code != process.ExitFailed || !strings.Contains(errs, "nothing runs on data directory ./waybill-data") {
		t.Errorf("exit %d, %q", code, errs)
	}
}
