package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/operator/api"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit"
)

// example is one curl command of docs/api.md, with the status and, where the
// page shows it, the answer.
type example struct {
	command string
	status  int
	answer  string
}

// TestTheExamplesOfThePageWork runs every curl command of docs/api.md in order,
// and compares statuses and the fields of the answers with those on the page.
func TestTheExamplesOfThePageWork(t *testing.T) {
	s := start(t)
	vars := map[string]string{"WAYBILL": s.url, "ENDPOINT": ""}
	examples := read(t)
	if len(examples) < 12 {
		t.Fatalf("found %d examples", len(examples))
	}
	for _, e := range examples {
		res, body := s.send(curl(t, e.command, vars))
		if res.StatusCode != e.status {
			t.Errorf("%s\nanswered %d %s\nwant %d", e.command, res.StatusCode, body, e.status)
			continue
		}
		if e.answer != "" {
			if got, want := fields(t, body), fields(t, e.answer); got != want {
				t.Errorf("%s\nanswered %s\nwith the fields %s\nwant            %s", e.command, body, got, want)
			}
		}
		var made control.WithSecret
		if json.Unmarshal([]byte(body), &made) == nil && made.Endpoint.ID != "" && vars["ENDPOINT"] == "" {
			vars["ENDPOINT"] = made.Endpoint.ID
			s.onRecord(made.Endpoint.ID)
		}
	}
}

// onRecord makes the ledger know of the first event, as if fanout, dispatcher
// and sink ran.
func (s *system) onRecord(endpoint string) {
	recordedAt := time.Date(2026, 8, 19, 14, 32, 7, 421e6, time.UTC)
	s.ledger.event = control.EventRecord{ID: "order/17:captured", Tenant: "default", Type: "payment.captured",
		State:     control.EventAccepted,
		Timestamp: recordedAt, StoredAt: recordedAt, Seq: 1, DataDigest: envelope.DigestHex([]byte(`{"amount":1250}`)),
		DataBytes: 15, Endpoints: 1}
	s.ledger.delivery = control.Delivery{EventID: "order/17:captured", EndpointID: endpoint, Tenant: "default",
		EventType: "payment.captured", State: outcome.StateDelivered, Attempts: 1}
	s.ledger.deadLetters = []control.DeadLetter{{EventID: "order/17:captured", EndpointID: endpoint, Tenant: "default",
		EventType: "payment.captured",
		Reason:    "attempts_exhausted", Attempts: 8, DeadLetteredAt: recordedAt, Resolution: "open"}}
}

var block = regexp.MustCompile("(?s)```(sh|json)\n(.*?)```")

func read(t *testing.T) []example {
	t.Helper()
	page, err := os.ReadFile(testkit.Path(t, "docs/api.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	last := -1 // end of the block before
	for _, m := range block.FindAllSubmatchIndex(page, -1) {
		kind, text := string(page[m[2]:m[3]]), string(page[m[4]:m[5]])
		if kind == "json" {
			if len(out) > 0 && strings.TrimSpace(string(page[last:m[0]])) == "" {
				out[len(out)-1].answer = text
			}
			continue
		}
		last = m[1]
		command := ""
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "# ") {
				command += line
				continue
			}
			e := example{command: command}
			if _, err := fmt.Sscanf(line, "# %d", &e.status); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out, command = append(out, e), ""
		}
		if command != "" {
			t.Fatalf("an example without its status: %s", command)
		}
	}
	return out
}

// curl reads the command line of curl as far as the page uses it.
func curl(t *testing.T, command string, vars map[string]string) *http.Request {
	t.Helper()
	var method, url, body string
	header := http.Header{}
	words := split(command, vars)
	if len(words) == 0 || words[0] != "curl" {
		t.Fatalf("not curl: %s", command)
	}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "-X":
			i++
			method = words[i]
		case "-H":
			i++
			name, value, _ := strings.Cut(words[i], ": ")
			header.Set(name, value)
		case "-d", "--data-binary":
			i++
			body = words[i]
		default:
			url = words[i]
		}
	}
	if method == "" {
		method = map[bool]string{true: "GET", false: "POST"}[body == ""]
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	return req
}

// split is a shell's: words, both quotes, variables, and a backslash at a line's end.
func split(command string, vars map[string]string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range strings.ReplaceAll(command, "\\\n", " ") {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == ' ' || r == '\n'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	for i := range words {
		if !strings.HasPrefix(words[i], "{") {
			words[i] = os.Expand(words[i], func(name string) string { return vars[name] })
		}
	}
	return words
}

// fields are the paths of a JSON value, without its values.
func fields(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		out = append(out, path)
		switch v := v.(type) {
		case map[string]any:
			for k, inner := range v {
				walk(path+"."+k, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), inner)
			}
		}
	}
	walk("", v)
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestThePageHasEveryRouteAndEveryCode(t *testing.T) {
	b, err := os.ReadFile(testkit.Path(t, "docs/api.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, route := range api.New(nil).Methods() {
		if !strings.Contains(page, "| `"+route+"` |") {
			t.Errorf("the page lacks %s", route)
		}
	}
	for _, code := range []control.Code{control.CodeInvalid, control.CodeTooLarge, control.CodeNotFound,
		control.CodeConflict, control.CodeIDInUse,
		control.CodeEndpointDisabled, control.CodeEndpointDeleted, control.CodeEventExpired, control.CodeNothingToReplay,
		control.CodeNoLedger, control.CodeNoKey, control.CodeUnavailable} {
		if !strings.Contains(page, "`"+string(code)+"`") {
			t.Errorf("the page lacks the code %s", code)
		}
	}
}
