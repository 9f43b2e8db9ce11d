package e2e

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// An auditor's walk: a receiver that fails once, one that rejects, a replay, and
// every question about them.
//
//lint:long one story, told in order
func TestAnAuditorsQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	var calls atomic.Int32
	flaky, got := receiver(t, func() int {
		if calls.Add(1) == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	rejecting, refused := receiver(t, func() int { return http.StatusUnprocessableEntity })
	var good, bad endpoint
	d.do("", &good, "endpoint", "create", "--tenant", "acme", "--url", flaky, "--types", "order.*", "--policy",
		`{"delays":["10ms","10ms"]}`)
	d.do("", &bad, "endpoint", "create", "--tenant", "acme", "--url", rejecting, "--types", "order.*")
	var a ack
	d.do("", &a, "event", "publish", "--tenant", "acme", "--type", "order.paid", "--id", "order-17", "--data", `{"n":1}`)
	first, second := next(t, got), next(t, got)
	next(t, refused)
	var ended deliveries
	d.do("", &ended, "delivery", "wait", "order-17")
	ask := func(want int, args ...string) (string, string) {
		t.Helper()
		code, out, errs := waybill(t, "", append(append([]string{"audit"}, args...), "--data-dir", d.dir)...)
		if code != want {
			t.Errorf("audit %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
		}
		return out, errs
	}

	out, _ := ask(0, "attempts", "order-17")
	for _, want := range []string{good.ID, bad.ID, "503", "200", "422", "Proves:", "Cannot prove:",
		envelope.DigestHex(first.body)[:16], envelope.DigestHex(second.body)[:16]} {
		if !strings.Contains(out, want) {
			t.Errorf("audit attempts lacks %q:\n%s", want, out)
		}
	}
	out, errs := ask(0, "attempts", "order-17", "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 4 || !strings.Contains(errs, "Cannot prove:") {
		t.Errorf("as CSV: %v, %d rows, %s", err, len(rows), errs)
	}
	var answer struct {
		Question struct {
			Proves      []string `json:"proves"`
			CannotProve []string `json:"cannot_prove"`
		} `json:"question"`
		Rows []map[string]any `json:"rows"`
	}
	for _, q := range [][]string{{"attempts", "order-17"}, {"duplicates", "--all"}, {"failures"}, {"integrity"},
		{"controls"}, {"completeness"}} {
		out, _ := ask(0, append(q, "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Rows) == 0 ||
			len(answer.Question.Proves) == 0 || len(answer.Question.CannotProve) == 0 {
			t.Errorf("audit %s: %v\n%s", q[0], err, out)
		}
	}
	if out, _ := ask(0, "failures"); !strings.Contains(out, "permanently_rejected") || !strings.Contains(out, "NO") &&
		!strings.Contains(out, "not over") {
		t.Errorf("audit failures:\n%s", out)
	}

	// What was archived is compared with what is on record.
	file := filepath.Join(t.TempDir(), "body.json")
	write := func(b []byte) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(second.body)
	if out, _ := ask(0, "integrity", "--event", "order-17", "--payload", file); !strings.Contains(out, "Not altered") ||
		!strings.Contains(out, "attempt 2") {
		t.Errorf("the payload that was sent:\n%s", out)
	}
	write([]byte(strings.Replace(string(second.body), `"n":1`, `"n":2`, 1)))
	if out, _ := ask(1, "integrity", "--event", "order-17", "--payload", file); !strings.Contains(out, "ALTERED") {
		t.Errorf("a payload that was altered:\n%s", out)
	}
	write([]byte(`{"n":1}`))
	if out, _ := ask(0, "integrity", "--event", "order-17", "--data", file); !strings.Contains(out, "rebuilt from it") {
		t.Errorf("the data that was published:\n%s", out)
	}

	if out, _ := ask(0, "completeness", "--nats-url", "nats://"+d.NATS); !strings.Contains(out,
		"Balanced: nothing is unaccounted for.") || !strings.Contains(out, "byte for byte") {
		t.Errorf("audit completeness:\n%s", out)
	}
	page := filepath.Join(t.TempDir(), "report.html")
	ask(0, "report", "--from", "24h", "--to", "2200-01-01", "--out", page)
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "permanently_rejected") ||
		!strings.Contains(string(b), "What is not proven") {
		t.Errorf("the report: %v", err)
	}

	// A name that is not on record is no clean result; a period without records says so.
	for _, args := range [][]string{{"failures", "--tenant", "acmee"}, {"attempts", "order-18"},
		{"duplicates", "--endpoint", "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"}} {
		if _, errs := ask(1, args...); !strings.Contains(errs, "nothing is on record of ") {
			t.Errorf("audit %v: %s", args, errs)
		}
	}
	for _, q := range []string{"duplicates", "failures", "integrity", "controls", "completeness"} {
		if out, _ := ask(0, q, "--from", "2001-01-01", "--to", "2001-02-01"); !strings.Contains(out,
			"on record: from 2001-01-01 to before 2001-02-01.") {
			t.Errorf("audit %s of a period without records:\n%s", q, out)
		}
	}
}
