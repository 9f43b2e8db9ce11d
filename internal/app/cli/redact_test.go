package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// file writes content where a command can read it.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARedactionPolicyCanBeTriedOnAText(t *testing.T) {
	policy := file(t, "p.json", `{"patterns":[{"kind":"ticket","pattern":"TKT-\\d+"}],"off":["email"],"excerpt_bytes":40}`)
	code, out, errs := run(t, "see TKT-17 of a@b.example, password=hunter2 "+strings.Repeat("x", 100), "redact", "test",
		"--redaction-policy", policy, "-o", "json")
	var r struct {
		Kept   string
		Counts map[string]int
	}
	if err := json.Unmarshal([]byte(out), &r); code != process.ExitOK || err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if r.Kept != "see [ticket] of a@b.example, password=[s" || r.Counts["ticket"] != 1 || r.Counts["secret"] != 1 {
		t.Errorf("%+v", r)
	}
	if code, out, _ := run(t, "call jane@example.com", "redact", "test"); code != process.ExitOK ||
		!strings.Contains(out, "call [email]") || strings.Contains(out, "jane") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestAWrongRedactionPolicyIsRefusedWithWhatIsWrong(t *testing.T) {
	for content, want := range map[string]string{
		`{`:                           "not JSON",
		`{"bogus":1}`:                 `unknown field "bogus"`,
		`{"excerpt_bytes":5000}`:      "want 0 (nothing is kept) to 1024",
		`{"headers":["Set-Cookie"]}`:  "never kept",
		`{"headers":["a b"]}`:         "want the name of a response header",
		`{"off":["payload"]}`:         "no kind that can be turned off",
		`{"patterns":[{"kind":"X"}]}`: "patterns[0].kind",
		`{"patterns":[{"kind":"x","pattern":"("}]}`:  "patterns[0].pattern",
		`{"patterns":[{"kind":"x","pattern":"a*"}]}`: "matches nothing at all",
		`{"endpoints":{"x":{}}}`:                     "no endpoint id",
		`{"keys":["--"]}`:                            "want the name of a member",
		`{} {}`:                                      "more behind the object",
	} {
		path := file(t, "p.json", content)
		for _, command := range [][]string{{"redact", "test"}, {"up", "--data", t.TempDir()}} {
			code, _, errs := run(t, "", append(command, "--redaction-policy", path)...)
			if code != process.ExitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, path) {
				t.Errorf("%s with %s: exit %d, %q; want %q", command[0], content, code, errs, want)
			}
		}
	}
	if code, _, errs := run(t, "", "redact", "test", "--response-excerpt", "2000"); code != process.ExitUsage ||
		!strings.Contains(errs, "want 0 to 1024") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestEventTypesAreLintedBySampleAndFromTheStream(t *testing.T) {
	sample := file(t, "s.json", `{"patient":{"firstName":"Jane"}}`)
	code, out, errs := run(t, "", "event-type", "lint", "lab.x", "--sample", sample, "--strict")
	if code != process.ExitFailed || !strings.Contains(out, ".patient.firstName") || strings.Contains(out+errs, "Jane") ||
		!strings.Contains(errs, "1 place carries") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := run(t, `{"type":"lab_result","id":"l_1"}`, "event-type", "lint", "--sample", "-",
		"--strict"); code != process.ExitOK || !strings.Contains(out, "nothing that looks like") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := run(t, `{"x":jane}`, "event-type", "lint", "--sample", "-"); code != process.ExitUsage ||
		strings.Contains(errs, "jane") {
		t.Errorf("exit %d: %s", code, errs)
	}

	n := testkit.NATS(t)
	js := n.JetStream()
	n.Front()
	for i, e := range [][2]string{{"order.paid", `{"order":"o_1"}`}, {"lab.done", `{"ssn":"078-05-1120"}`},
		{"lab.done", `{"ssn":"078-05-1120"}`}} {
		body := fmt.Sprintf(`{"id":"e%d","type":%q,"timestamp":"2026-11-02T10:00:00Z","data":%s}`, i, e[0], e[1])
		if _, err := js.Publish(t.Context(), streams.EventSubject("acme", e[0]), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	lint := func(more ...string) (int, string) {
		code, out, errs := run(t, "", append([]string{"event-type", "lint", "--nats-url", n.URL, "-o", "json"}, more...)...)
		return code, out + errs
	}
	if code, out := lint(); code != process.ExitOK || !strings.Contains(out, `"events_looked_at": 3`) ||
		!strings.Contains(out, `"events": 2`) || !strings.Contains(out, `"path": ".ssn"`) || strings.Contains(out, "078") {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, none := range [][]string{{"order.*"}, {"--tenant", "other"}} {
		if _, out := lint(none...); !strings.Contains(out, `"warnings": []`) {
			t.Errorf("%v: %s", none, out)
		}
	}
	if code, out, _ := run(t, "", "event-type", "lint", "lab_reslut.*", "--nats-url", n.URL); code != process.ExitOK ||
		!strings.Contains(out, "no event was looked at") {
		t.Errorf("a misspelt type passes for a clean one: exit %d: %s", code, out)
	}
	if _, out := lint("--events", "1"); !strings.Contains(out, `"events_looked_at": 1`) {
		t.Error(out)
	}
}
