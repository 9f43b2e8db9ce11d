// Package paper is how our documents print: the page, what stands in its
// margins, and what is never cut by the end of a page. Documents keep their own
// looks; this is their one home for paper.
package paper

import (
	_ "embed" // print.css
	"fmt"
	"html/template"
	"strings"
)

//go:embed print.css
var rules string

// Margins are what every page says outside of its text. Each is one line, and
// may come from a record: it is written so that it stays text.
type Margins struct {
	Title string // top left: what the document is
	Made  string // top right
	Of    string // bottom left: what it is about, and what proves it. The page's number is at the right.
}

// Style is what a document's style sheet ends with.
func Style(m Margins) template.CSS {
	const font = `font: 7.5pt ui-monospace, "DejaVu Sans Mono", monospace; color: #444; white-space: nowrap;`
	small := strings.Replace(font, "7.5pt", "6pt", 1)
	return template.CSS("@page { size: A4; margin: 18mm 14mm;\n" +
		`  @top-left { content: "` + text(m.Title) + `"; ` + font + " }\n" +
		`  @top-right { content: "` + text(m.Made) + `"; ` + font + " }\n" +
		`  @bottom-left { content: "` + text(m.Of) + `"; ` + small + " }\n" +
		`  @bottom-right { content: "page " counter(page) " of " counter(pages); ` + font + " }\n}\n" + rules)
}

// longest keeps a line of a margin on its page.
const longest = 126

// text writes s for a string of CSS. Whatever is no plain letter or digit is
// escaped by number, so that nothing can end the string, or the style sheet.
func text(s string) string {
	var b strings.Builder
	for i, r := range []rune(s) {
		switch {
		case i == longest:
			b.WriteString(`\2026 `) // …
			return b.String()
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == ' ', r == '_', r == '.', r == ',':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\%x `, r)
		}
	}
	return b.String()
}
