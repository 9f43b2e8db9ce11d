package paper

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAPageIsA4AndSaysWhatItIsAndWhichOfHowMany(t *testing.T) {
	css := string(Style(Margins{Title: "Evidence of delivery", Made: "2026", Of: "event e1"}))
	for _, want := range []string{"size: A4", `content: "Evidence of delivery"`, `content: "event e1"`,
		`"page " counter(page) " of " counter(pages)`} {
		if !strings.Contains(css, want) {
			t.Errorf("the style lacks %s:\n%s", want, css)
		}
	}
	// What a reader would lose if the end of a page cut it, and what must not
	// stand alone at the foot of one.
	rule := func(selector, property string) {
		t.Helper()
		for _, m := range regexp.MustCompile(`([^{}]+)\{([^}]*)\}`).FindAllStringSubmatch(strings.TrimPrefix(rules,
			"@media print {"), -1) {
			for _, s := range strings.Split(m[1], ",") {
				if strings.TrimSpace(s) == selector && strings.Contains(m[2], property) {
					return
				}
			}
		}
		t.Errorf("%s has no %s", selector, property)
	}
	for _, whole := range []string{"tr", "figure", "svg", "li", ".verdict", ".chart"} {
		rule(whole, "break-inside: avoid")
	}
	for _, kept := range []string{"h1", "h2", "h3", "caption", "thead"} {
		rule(kept, "break-after: avoid")
	}
	rule("thead", "display: table-header-group")
	rule("tbody > tr:last-child", "break-before: avoid")
	rule("th", "word-break: keep-all")
	rule("td.id", "white-space: nowrap")
}

func FuzzWhatStandsInAMarginStaysText(f *testing.F) {
	f.Add(`"; } </style><script>alert(1)</script>`)
	f.Add("\\\n\"")
	f.Add(strings.Repeat("長", 500))
	plain := regexp.MustCompile(`^(?:[a-zA-Z0-9 _.,]|\\[0-9a-f]{1,6} )*$`)
	f.Fuzz(func(t *testing.T, s string) {
		got := text(s)
		if !plain.MatchString(got) || utf8.RuneCountInString(got) > 9*longest {
			t.Errorf("%q became %q", s, got)
		}
	})
}
