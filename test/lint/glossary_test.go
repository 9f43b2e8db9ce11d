package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/lint"
)

// glossaryFaults is what is wrong with the table of terms in a text.
func glossaryFaults(text string, exists func(name string) error) []string {
	var faults []string
	last := ""
	for line := range strings.Lines(text) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok || strings.HasPrefix(row, "Term |") || strings.HasPrefix(row, "---") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, " |"), " | ")
		term := cells[0]
		switch {
		case len(cells) != 4 || slices.Contains(cells, ""):
			faults = append(faults, fmt.Sprintf("%s: want a term, its meaning, the field's word and a place", term))
			continue
		case strings.EqualFold(term, last):
			faults = append(faults, term+": stands twice")
		case strings.ToLower(term) < strings.ToLower(last):
			faults = append(faults, fmt.Sprintf("%s: stands behind %s", term, last))
		}
		last = term
		places := lint.Mentions(cells[3])
		if len(places) == 0 {
			faults = append(faults, term+": names no place in the tree")
		}
		for _, place := range places {
			if err := exists(place.Text); err != nil {
				faults = append(faults, fmt.Sprintf("%s: %v", term, err))
			}
		}
	}
	if last == "" {
		faults = append(faults, "no term was found")
	}
	return faults
}

func TestTheGlossaryIsSortedAndNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range glossaryFaults(string(page), fileExists) {
		t.Error("docs/glossary.md: " + fault)
	}
}

func TestFaultsOfAGlossaryAreFound(t *testing.T) {
	row := func(term, place string) string { return "| " + term + " | what it is | a word | " + place + " |\n" }
	for text, want := range map[string]string{
		row("claim", "`internal/domain/ids`") + row("Dead letter", "`internal/domain/ids`"): "",
		row("lane", "`internal/domain/ids`") + row("claim", "`internal/domain/ids`"):        "claim: stands behind lane",
		row("lane", "`internal/domain/ids`") + row("Lane", "`internal/domain/ids`"):         "Lane: stands twice",
		row("lane", "`internal/nowhere`"):                                                   "lane: internal/nowhere",
		row("lane", "somewhere"):                                                            "lane: names no place",
		"| lane | what it is | a word |\n":                                                  "lane: want a term",
		"| lane |  | a word | `internal/x` |\n":                                             "lane: want a term",
		"nothing":                                                                           "no term was found",
	} {
		faults := glossaryFaults("| Term | A | B | C |\n| --- | --- | --- | --- |\n"+text, fileExists)
		if got := strings.Join(faults, "; "); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
