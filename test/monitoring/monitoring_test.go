// Package monitoring checks the alerts and the dashboard with Prometheus's own
// parsers. It is a module of its own: nobody who uses Waybill needs Prometheus
// as a library.
package monitoring

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// metrics are those of docs/metrics.md, which a test makes from the programs:
// their types by name.
func metrics(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(waybill_[a-z_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(read(t,
		"docs/metrics.md"), -1) {
		out[m[1]] = m[2]
	}
	if len(out) < 40 {
		t.Fatalf("docs/metrics.md lists %d metrics", len(out))
	}
	return out
}

// check parses an expression and looks up what it selects.
func check(t *testing.T, known map[string]string, where, text string) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, text)
		return
	}
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if !selectable(known, s.Name) {
			t.Errorf("%s: there is no metric %s", where, s.Name)
		}
		rated := false
		for _, p := range path {
			if c, ok := p.(*parser.Call); ok && (c.Func.Name == "rate" || c.Func.Name == "increase") {
				rated = true
			}
		}
		counter := known[s.Name] == "counter" || known[s.Name] == ""
		if counter != rated {
			t.Errorf("%s: %s is a %s; a rate is taken: %v", where, s.Name, known[s.Name], rated)
		}
		return nil
	})
}

func selectable(known map[string]string, name string) bool {
	if kind, ok := known[name]; ok {
		return kind != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && known[base] == "histogram" {
			return true
		}
	}
	return false
}

func TestEveryAlertIsValidAndHasARunbook(t *testing.T) {
	known, headings := metrics(t), headingsOf(read(t, "docs/operations.md"))
	text := read(t, "deploy/prometheus/alerts.yml")
	groups, errs := rulefmt.Parse([]byte(text), false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	seen := map[string]bool{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			check(t, known, r.Alert, r.Expr)
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Waybill") {
				t.Errorf("an alert is called %q", r.Alert)
			}
			seen[r.Alert] = true
			if s := r.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if r.Annotations["summary"] == "" {
				t.Errorf("%s has no summary", r.Alert)
			}
			page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
			if !strings.HasSuffix(page, "/docs/operations.md") || !headings[anchor] {
				t.Errorf("%s: no such runbook: %s", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(read(t, "docs/operations.md"), "`"+r.Alert+"`") {
				t.Errorf("docs/operations.md does not name %s", r.Alert)
			}
		}
	}
	if len(seen) < 15 {
		t.Errorf("%d alerts", len(seen))
	}
}

// headingsOf are the anchors of a document as GitHub makes them.
func headingsOf(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		out[regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")] = true
	}
	for a := range out {
		out[strings.ReplaceAll(a, " ", "-")] = true
	}
	return out
}

func TestEveryExpressionOfTheDashboardIsValid(t *testing.T) {
	var dashboard struct {
		UID    string
		Title  string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/grafana/waybill.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	known, ids, expressions := metrics(t), map[int]bool{}, 0
	used := map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if used[at] != "" {
					t.Fatalf("%q lies over %q", p.Title, used[at])
				}
				used[at] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			expressions++
			check(t, known, p.Title, strings.NewReplacer("$__rate_interval", "5m").Replace(target.Expr))
			if target.LegendFormat == "" {
				t.Errorf("%q: %s has no legend", p.Title, target.Expr)
			}
		}
	}
	if dashboard.UID == "" || dashboard.Title == "" || expressions < 20 {
		t.Errorf("dashboard %q %q with %d expressions", dashboard.UID, dashboard.Title, expressions)
	}
}
