package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/pflag"

	"github.com/waybill-dev/waybill/internal/process"
)

// format is the value of -o.
type format string

func (f *format) bind(flags *pflag.FlagSet) {
	flags.StringVarP((*string)(f), "output", "o", "table", "table or json")
}

func (f format) check() error {
	if f != "table" && f != "json" {
		return process.Usagef("--output %q: want table or json", string(f))
	}
	return nil
}

// printJSON writes v as people and jq read it; a nil slice MUST be made empty before.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table is rows under a header, aligned by display width, so that wide
// characters keep the columns straight.
type table struct {
	header []string
	rows   [][]string
	notes  map[int][]string // of the row with this index, each on a line of its own
}

const (
	columnGap  = "  "
	noteIndent = "     "
)

// width measures what a terminal shows, whatever the locale of this process:
// tables look the same everywhere.
func width() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// note adds a line under the row that was added last; "" adds none.
func (t *table) note(text string) {
	if text == "" || text == "-" {
		return
	}
	if t.notes == nil {
		t.notes = map[int][]string{}
	}
	t.notes[len(t.rows)-1] = append(t.notes[len(t.rows)-1], text)
}

// write prints the table, or nothing but instead when it has no rows.
func (t *table) write(w io.Writer, instead string) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(w, instead)
		return err
	}
	lines := make([][]string, 0, len(t.rows)+1)
	lines = append(lines, t.header)
	for _, r := range t.rows {
		clean := make([]string, len(r))
		for i, c := range r {
			clean[i] = printable(c)
		}
		lines = append(lines, clean)
	}
	cells := width()
	widths := make([]int, len(t.header))
	for _, l := range lines {
		for i, c := range l {
			widths[i] = max(widths[i], cells.StringWidth(c))
		}
	}
	var b strings.Builder
	for n, l := range lines {
		var line strings.Builder
		for i, c := range l {
			line.WriteString(c)
			if i < len(l)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-cells.StringWidth(c)) + columnGap)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, note := range t.notes[n-1] {
			b.WriteString(noteIndent + printable(note) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fields are "name  value" lines; those without a value are left out.
type fields [][2]string

func (f *fields) add(name, value string) { *f = append(*f, [2]string{name, value}) }

func (f *fields) addTime(name string, t time.Time) { f.add(name, moment(t)) }

func (f fields) write(w io.Writer) error {
	longest := 0
	for _, r := range f {
		if r[1] != "" {
			longest = max(longest, len(r[0]))
		}
	}
	var b strings.Builder
	for _, r := range f {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-*s  %s\n", longest, r[0], printable(r[1]))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable keeps text that a receiver or producer chose from steering the
// terminal: control and format characters become U+FFFD, line breaks spaces.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == '\u200d', unicode.IsPrint(r): // a joiner holds an emoji together
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// printableLines is printable that keeps line breaks and tabs.
func printableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\u200d' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// clip shortens s to a display width.
func clip(s string, most int) string { return width().Truncate(s, most, "…") }

// moment writes a time in UTC with milliseconds; "" when it is zero.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// took writes microseconds as people read a duration.
func took(us int64) string {
	d := time.Duration(us) * time.Microsecond
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
