package ledger_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/test/testkit"
)

// analysts is the scenario with durations, redactions and checkpoints, in a database of its own.
func analysts(t *testing.T) testkit.Database {
	t.Helper()
	db, conn, d := open(t)
	s := &story{t: t, rows: scenario(t)}
	s.accepted("e9", 1) // 39: a dead letter that nobody has settled
	s.owed("e9", "ep_b", "")
	s.ended(record.DeliveryDeadLetter, "e9", "ep_b", "", "attempts_exhausted")
	rows := s.rows
	for i := range rows {
		if r := rows[i].Record; r.Kind == record.Attempt && r.Outcome != "unknown" {
			r.DurationUS, r.KeyIDs = int64(i)*1000, []string{map[bool]string{true: "key_1", false: "key_2"}[i < 20]}
			if r.Status == 422 {
				r.Redactions, r.Redacted = 3, map[string]int{"email": 2, "card": 1}
			}
			rows[i] = row(t, uint64(i), r)
		}
	}
	if err := db.Append(context.Background(), rows); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"INSERT INTO checkpoints VALUES (20, '2026-11-02 12:01:00', 'waybill.example', 'waybill.example+1', 'aa', 'n'), " +
			"(39, '2026-11-02 12:02:00', 'waybill.example', 'waybill.example+1', 'bb', 'n')",
		"INSERT INTO checkpoint_signatures VALUES (20, '2026-11-02 12:01:01', 'witness', 'w1+2', 's')",
	} {
		if err := conn.Exec(context.Background(), q); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// overHTTP asks as curl does: the query is the body, parameters are in the URL.
func overHTTP(t *testing.T, d testkit.Database, query string, params map[string]string) (status int, body string) {
	t.Helper()
	v := url.Values{"database": {d.Name}}
	for name, value := range params {
		v.Set("param_"+name, value)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+d.HTTPAddr+"/?"+v.Encode()+credentials(t, d.DSN), strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// asked are the values that the page's queries are asked with.
func asked() map[string]string {
	return map[string]string{"event": "e1", "tenant": "acme", "replay": "rpl_1", "endpoint": "ep_a", "from": "2026-11-01",
		"to": "2026-11-30", "now": "2026-11-03 00:00:00"}
}

var (
	question  = regexp.MustCompile("(?ms)^## (\\d+\\. [^\n]+)\n\n```sql\n(.*?)```")
	parameter = regexp.MustCompile(`\{(\w+):`)
)

func TestEveryQuestionOfThePageHasItsAnswer(t *testing.T) {
	t.Parallel()
	d := analysts(t)
	page, err := os.ReadFile(testkit.Path(t, "docs/queries.md"))
	if err != nil {
		t.Fatal(err)
	}
	answers := answers()
	found := question.FindAllStringSubmatch(string(page), -1)
	if len(found) < 30 || len(found) != len(answers) || strings.Count(string(page), "```sql") != len(found) {
		t.Errorf("%d questions, %d answers", len(found), len(answers))
	}
	for _, m := range found {
		number, _, _ := strings.Cut(m[1], ".")
		params := map[string]string{}
		for _, p := range parameter.FindAllStringSubmatch(m[2], -1) {
			if params[p[1]] = asked()[p[1]]; params[p[1]] == "" {
				t.Errorf("%s: no value for the parameter %s", m[1], p[1])
			}
		}
		status, got := overHTTP(t, d, m[2], params)
		if want := answers[number]; status != http.StatusOK || want == "" ||
			strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: status %d, answered\n%s\nwant\n%s", m[1], status, got, want)
		}
	}
}

func TestThePageOfQueriesShowsHowToAskOverHTTP(t *testing.T) {
	t.Parallel()
	d := analysts(t)
	page, err := os.ReadFile(testkit.Path(t, "docs/queries.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, m := range snippets.FindAllStringSubmatch(string(page), -1) {
		if m[1] != "sh" || !strings.HasPrefix(m[2], "curl") {
			continue
		}
		ran++
		out := curl(t, d, m[2])
		if strings.Contains(m[2], "FORMAT JSON") {
			var answer struct {
				Rows int
				Data []struct {
					Endpoint string `json:"endpoint_id"`
				}
			}
			if err := json.Unmarshal([]byte(out), &answer); err != nil || answer.Rows != 4 || answer.Data[0].Endpoint != "ep_a" {
				t.Errorf("%v: %s", err, out)
			}
			continue
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) != 5 || rows[0][0] != "endpoint_id" || rows[2][3] != "status_retryable" {
			t.Errorf("%v: %q", err, rows)
		}
	}
	if ran != 2 {
		t.Errorf("ran %d examples", ran)
	}
	// A parameter is a value, whatever it says; without it the query does not run.
	const query = "SELECT count() FROM attempts WHERE event_id = {event:String}"
	if status, out := overHTTP(t, d, query, map[string]string{"event": "' OR 1 = 1 --"}); status != http.StatusOK ||
		strings.TrimSpace(out) != "0" {
		t.Errorf("%d %s", status, out)
	}
	if status, _ := overHTTP(t, d, query, nil); status == http.StatusOK {
		t.Error("it ran without its parameter")
	}
}

func TestTheDashboardOfTheLedgerRuns(t *testing.T) {
	t.Parallel()
	d := analysts(t)
	b, err := os.ReadFile(testkit.Path(t, "deploy/grafana/ledger.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title      string
			Type       string
			Datasource struct{ Type, UID string }
			Targets    []struct {
				RawSQL     string `json:"rawSql"`
				EditorType string `json:"editorType"`
				QueryType  string `json:"queryType"`
				Format     *int   `json:"format"`
			}
		}
	}
	if err := json.Unmarshal(b, &board); err != nil || board.UID == "" || len(board.Panels) < 6 {
		t.Fatalf("%v, %d panels", err, len(board.Panels))
	}
	queries := map[string]string{}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			queries["variable "+v.Name] = v.Query
		}
	}
	for _, p := range board.Panels {
		if p.Datasource.Type != "grafana-clickhouse-datasource" || len(p.Targets) == 0 {
			t.Errorf("%s: data source %q, %d targets", p.Title, p.Datasource.Type, len(p.Targets))
		}
		for _, target := range p.Targets {
			if target.EditorType != "sql" || target.QueryType == "" || target.Format == nil {
				t.Errorf("%s: %+v", p.Title, target)
			}
			queries[p.Title] = target.RawSQL
		}
	}
	for title, q := range queries {
		expanded := expand(q)
		if strings.Contains(expanded, "$") {
			t.Errorf("%s: a macro or variable that this test does not know: %s", title, expanded)
		}
		if status, out := overHTTP(t, d, expanded, nil); status != http.StatusOK || strings.TrimSpace(out) == "" {
			t.Errorf("%s: status %d, %q\n%s", title, status, out, expanded)
		}
	}
}

// expand writes the plugin's macros and Grafana's variables as they do.
func expand(q string) string {
	q = regexp.MustCompile(`\$__timeFilter\((\w+)\)`).ReplaceAllString(q,
		"$1 >= toDateTime(1793491200) AND $1 <= toDateTime(1796083199)")
	q = regexp.MustCompile(`\$__timeInterval\((\w+)\)`).ReplaceAllString(q,
		"toStartOfInterval(toDateTime($1), INTERVAL 3600 second)")
	return strings.NewReplacer("${tenant:sqlstring}", "'acme'", "${endpoint:sqlstring}", "'ep_a','ep_b'").Replace(q)
}
