package audit

import (
	_ "embed" // report.html
	"errors"
	"html/template"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/waybill-dev/waybill/internal/platform/paper"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

//go:embed report.html
var reportTemplate string

// section of the report, for its table of contents.
type section struct{ ID, Title string }

func sections() []section {
	return []section{
		{"summary", "Summary"}, {"completeness", "Completeness"}, {"service", "Service levels"},
		{"attempts", "1. Every attempt"}, {"duplicates", "2. Duplicates"}, {"failures", "3. Failures"},
		{"integrity", "4. Integrity"}, {"controls", "5. Controls"},
		{"changes", "Changes of the configuration"}, {"replays", "Replays"}, {"checkpoints", "Checkpoints"},
		{"limits", "What is not proven"},
	}
}

// WriteHTML writes the report as one document that needs nothing else: no
// script, no style sheet, no font, no picture.
func WriteHTML(w io.Writer, r Report) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"when": When, "whenp": whenPtr, "took": Took, "n": thousands, "chart": DeliveryChart, "visible": text.Line,
		"attempts": AttemptGrid, "repetitions": RepetitionGrid, "failures": FailureGrid, "failureTotals": FailureTotalGrid,
		"signed": SignedGrid,
		"days":   DayGrid, "changes": ChangeGrid, "replays": ReplayGrid, "balances": BalanceGrid, "mismatches": MismatchGrid,
		"sections": sections, "states": states, "question": questionOf, "heading": heading, "isNumber": isNumber,
		"isDate": isDate, "numeric": numeric,
		"date":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") },
		"more":    func(n uint64, query string) map[string]any { return map[string]any{"N": n, "Query": query} },
		"grid":    printedGrid,
		"reasons": RepeatTotalGrid,
		"isID":    isID,
		"printed": func(r Report) template.CSS {
			return paper.Style(paper.Margins{Title: "Waybill audit report",
				Made: "made " + r.Made.UTC().Format("2006-01-02 15:04 UTC"), Of: r.Filter.String()})
		},
		"replayQuery": func(f Filter) string { return strings.Replace(query("replays", f), " at ", " requested_at ", -1) },
		"changeQuery": func(f Filter) string { return query("audit_changes", f) },
	}).Parse(reportTemplate)
	if err != nil {
		return err
	}
	safe := text.NewWriter(w) // whatever field it is in
	return errors.Join(t.Execute(safe, r), safe.Close())
}

// printedRows is how many rows of a list are printed: who wants the rest asks for
// it as JSON or CSV, and nobody reads page after page of the same.
const printedRows = 40

// printedGrid is a grid as the template prints it.
func printedGrid(caption string, g Grid) map[string]any {
	left := max(len(g.Rows)-printedRows, 0)
	g.Rows = g.Rows[:len(g.Rows)-left]
	return map[string]any{"Caption": caption, "Grid": g, "Left": uint64(left)}
}

// isID says which cells are never broken: an id that is broken cannot be found.
func isID(s string) bool {
	prefix, rest, ok := strings.Cut(s, "_")
	return ok && len(s) <= 34 && len(prefix) <= 5 && rest != "" && !strings.ContainsAny(s, " …")
}

// isNumber says which cells align to the right.
func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789\u202f") == ""
}

// numeric says whether a column holds numbers only.
func numeric(g Grid, column int) bool {
	for _, r := range g.Rows {
		if r[column] != "" && !isNumber(r[column]) {
			return false
		}
	}
	return len(g.Rows) > 0 && g.Rows[0][column] != ""
}

// isDate says which cells must not be broken: a day, or a day and a time.
func isDate(s string) bool {
	_, day := time.Parse(time.DateOnly, s)
	_, moment := time.Parse("2006-01-02 15:04:05.000", s)
	return day == nil || moment == nil
}

// heading is a grid's header for a document: what a terminal shows in capitals,
// with one at the beginning.
func heading(h string) string {
	out := []rune(strings.ReplaceAll(strings.ToLower(h), "(utc)", "(UTC)"))
	if len(out) > 0 {
		out[0] = unicode.ToUpper(out[0])
	}
	return string(out)
}
