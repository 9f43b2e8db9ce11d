package ledger_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testkit"
)

func schemaPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(testkit.Path(t, "docs/schema.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var snippets = regexp.MustCompile("(?s)```(sh|sql)\n(.*?)```")

func TestTheExamplesOfTheSchemaPageRun(t *testing.T) {
	t.Parallel()
	db, conn, d := open(t)
	if err := db.Append(context.Background(), scenario(t)); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, m := range snippets.FindAllStringSubmatch(schemaPage(t), -1) {
		language, text := m[1], m[2]
		switch {
		case language == "sql":
			rows, err := conn.Query(context.Background(), text)
			if err != nil {
				t.Errorf("%s\n%v", text, err)
				continue
			}
			n := 0
			for rows.Next() {
				n++
			}
			if err := rows.Err(); err != nil || n == 0 {
				t.Errorf("%d rows, %v:\n%s", n, err, text)
			}
		case strings.HasPrefix(text, "curl"):
			ran["curl"]++
			if out := curl(t, d, text); !strings.Contains(out, "status_retryable") || strings.Contains(out, "Exception") {
				t.Errorf("%s\nanswered:\n%s", text, out)
			}
		case strings.HasPrefix(text, "clickhouse-client"):
			// The client is not always at hand; its query is.
			ran["client"]++
			query := text[strings.Index(text, `"`)+1 : strings.LastIndex(text, `"`)]
			if got := lines(t, conn, "SELECT * FROM ("+strings.Replace(query, "state, count()", "(state, count())", 1)+
				")"); len(got) != 3 {
				t.Errorf("%s\nanswered %v", text, got)
			}
		default:
			t.Errorf("an example that no test knows how to run:\n%s", text)
		}
		ran[language]++
	}
	if ran["sql"] < 6 || ran["curl"] != 1 || ran["client"] != 1 {
		t.Errorf("ran %v", ran)
	}
}

// curl runs the example as it is written, against this test's engine.
func curl(t *testing.T, d testkit.Database, text string) string {
	t.Helper()
	text = strings.Replace(text, "database=waybill", "database="+d.Name+credentials(t, d.DSN), 1)
	cmd := exec.Command("sh", "-c", text)
	cmd.Env = append(os.Environ(), "CLICKHOUSE_HTTP="+d.HTTPAddr)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

func credentials(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return "&user=" + url.QueryEscape(u.User.Username()) + "&password=" + url.QueryEscape(password)
}

func TestTheSchemaPageNamesEveryColumnAndNoOther(t *testing.T) {
	t.Parallel()
	_, conn, _ := open(t)
	var documented []string
	table := schemaPage(t)
	table = table[strings.Index(table, "## Table `records`"):strings.Index(table, "## Views")]
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)`( ✎)? \\| ([^|]+) \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, m[1]+m[2]+" "+m[3])
	}
	have := lines(t, conn, `SELECT concat(name, if(default_kind = 'ALIAS', ' ✎', ''), ' ', replace(type, ', \'UTC\'', ''))
		FROM system.columns WHERE database = currentDatabase() AND table = 'records' ORDER BY position`)
	if !slices.Equal(documented, have) {
		compare(t, documented, have)
	}
	var views []string
	for _, m := range regexp.MustCompile("(?m)^### `([a-z_]+)`$").FindAllStringSubmatch(schemaPage(t), -1) {
		views = append(views, m[1])
	}
	slices.Sort(views)
	compare(t, views, lines(t, conn, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = "+
		"'View' ORDER BY name"))
}
