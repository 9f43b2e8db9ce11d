package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"
)

// table is rows under a header, aligned by display width, so that wide
// characters keep the columns straight.
type table struct {
	header []string
	rows   [][]string
	notes  map[int][]string // of the row with this index, each on a line of its own

	// room is how many columns the terminal has. 0: as many as it takes.
	room int
	// wide are the columns that go first, in this order, where there is no room.
	wide []string
	// clip are the columns whose text may be cut. An id never is: a cut one
	// cannot be pasted.
	clip []string
	// flow says that the last column is prose, which goes on in the next line.
	flow bool
}

const (
	columnGap  = "  "
	noteIndent = "     "
	// leastClip is what is left of a column whose text is cut.
	leastClip = 12
	// leastFlow is what prose needs to be read: below, it is not worth the lines.
	leastFlow = 24
	// leastRoom is the narrowest terminal that tables are fitted to.
	leastRoom = 40
)

// width measures what a terminal shows, whatever the locale of this process:
// tables look the same everywhere.
func width() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

// room is how many columns a table may take: those of the terminal, or of the
// environment variable COLUMNS. What is no terminal gets every column, so that
// what a script reads does not depend on who started it.
func (s stdio) room(out format) int {
	if out == "wide" {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= leastRoom {
		return n
	}
	f, ok := s.out.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col < leastRoom {
		return 0
	}
	return int(size.Col)
}

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

// show prints the table as the terminal has room for it.
func (t *table) show(s stdio, out format, instead string) error {
	t.room = s.room(out)
	return t.write(s.out, instead)
}

// write prints the table, or nothing but instead when it has no rows.
func (t *table) write(w io.Writer, instead string) error {
	if len(t.rows) == 0 {
		_, err := fmt.Fprintln(w, instead)
		return err
	}
	p := t.fit()
	var b strings.Builder
	if len(p.same) > 0 {
		b.WriteString(listed("in all rows: ", p.same, t.room) + "\n")
	}
	for n, l := range p.lines {
		p.row(&b, l)
		for _, note := range t.notes[n-1] {
			for _, part := range t.folded(printable(note), len(noteIndent)) {
				b.WriteString(noteIndent + part + "\n")
			}
		}
	}
	if len(p.hidden) > 0 {
		b.WriteString("\n" + listed("not shown: ", p.hidden, t.room) + " (all columns: -o wide)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// folded breaks text so that it fits behind an indent.
func (t *table) folded(text string, indent int) []string {
	if t.room == 0 || t.room-indent < leastFlow {
		return []string{text}
	}
	return fold(text, t.room-indent)
}

// fold breaks text between words. A word is never cut: it may be an id.
func fold(text string, room int) []string {
	cells := width()
	var out []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		switch {
		case line == "":
			line = word
		case cells.StringWidth(line)+1+cells.StringWidth(word) <= room:
			line += " " + word
		default:
			out = append(out, line)
			line = word
		}
	}
	return append(out, line)
}

// listed joins items after a label, and begins a line where one has no room.
func listed(label string, items []string, room int) string {
	const more = len(" (all columns: -o wide)")
	cells := width()
	text, at := label, len(label)
	for i, item := range items {
		if i < len(items)-1 {
			item += ","
		}
		n := cells.StringWidth(item)
		switch {
		case i > 0 && at+1+n+more > room:
			text += "\n" + strings.Repeat(" ", len(label))
			at = len(label)
		case i > 0:
			text += " "
			at++
		}
		text, at = text+item, at+n
	}
	return text
}

// page is a table as it is printed.
type page struct {
	lines  [][]string // the header is the first
	widths []int
	same   []string // what is the same in all rows, said once
	hidden []string // columns that have no room
	flow   int      // width of the last column, which is prose. 0: it is not
}

// row writes one row.
func (p *page) row(b *strings.Builder, cells []string) {
	c := width()
	var line strings.Builder
	indent := 0
	for i, cell := range cells {
		if i == len(cells)-1 {
			if p.flow > 0 {
				line.WriteString(strings.Join(fold(cell, p.flow), "\n"+strings.Repeat(" ", indent)))
			} else {
				line.WriteString(cell)
			}
			break
		}
		line.WriteString(cell + strings.Repeat(" ", p.widths[i]-c.StringWidth(cell)) + columnGap)
		indent += p.widths[i] + len(columnGap)
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// fit decides which columns are printed, and how wide. Without a room all are.
// With one, first what is empty or the same in all rows leaves the columns, then
// those that matter least, then text is cut.
func (t *table) fit() *page {
	p := &page{lines: make([][]string, 0, len(t.rows)+1)}
	p.lines = append(p.lines, slices.Clone(t.header))
	for _, r := range t.rows {
		clean := make([]string, len(r))
		for i, c := range r {
			clean[i] = printable(c)
		}
		p.lines = append(p.lines, clean)
	}
	p.measure()
	if t.room == 0 {
		return p
	}
	if t.over(p) > 0 {
		t.hoist(p)
	}
	for _, name := range t.wide {
		if t.over(p) <= 0 {
			break
		}
		if i := slices.Index(p.lines[0], name); i >= 0 {
			p.remove(i)
			p.hidden = append(p.hidden, name)
		}
	}
	t.cut(p)
	if last := len(p.widths) - 1; t.flow {
		p.flow = max(leastFlow, t.room-p.total()+p.widths[last])
	}
	return p
}

func (p *page) measure() {
	cells := width()
	p.widths = make([]int, len(p.lines[0]))
	for _, l := range p.lines {
		for i, c := range l {
			p.widths[i] = max(p.widths[i], cells.StringWidth(c))
		}
	}
}

func (p *page) total() int {
	total := len(columnGap) * (len(p.widths) - 1)
	for _, w := range p.widths {
		total += w
	}
	return total
}

// wants is the width with prose at its narrowest.
func (t *table) wants(p *page) int {
	if last := len(p.widths) - 1; t.flow && last >= 0 {
		return p.total() - max(p.widths[last]-leastFlow, 0)
	}
	return p.total()
}

// over is by how much the table is too wide once all that may be cut is.
func (t *table) over(p *page) int {
	total := p.total()
	for i, w := range p.widths {
		if least := t.least(p, i); w > least {
			total -= w - least
		}
	}
	return total - t.room
}

// least is the narrowest that a column can be.
func (t *table) least(p *page, i int) int {
	switch {
	case t.flow && i == len(p.widths)-1:
		return leastFlow
	case slices.Contains(t.clip, p.lines[0][i]):
		return max(leastClip, width().StringWidth(p.lines[0][i]))
	}
	return p.widths[i]
}

func (p *page) remove(i int) {
	for n := range p.lines {
		p.lines[n] = slices.Delete(p.lines[n], i, i+1)
	}
	p.widths = slices.Delete(p.widths, i, i+1)
}

// hoist says once what is the same in all rows, the widest first, until there is
// room, and leaves out what is empty in all of them. The first column is what
// the rows are about, and stays.
func (t *table) hoist(p *page) {
	for i := len(p.widths) - 1; i > 0; i-- {
		if p.constant(i) && p.lines[1][i] == "-" && !(t.flow && i == len(p.widths)-1) {
			p.remove(i)
		}
	}
	for len(t.rows) > 1 && t.over(p) > 0 {
		widest := 0
		for i := 1; i < len(p.widths); i++ {
			prose := t.flow && i == len(p.widths)-1
			if !prose && p.widths[i] <= t.room-20 && p.constant(i) && (widest == 0 || p.widths[i] > p.widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return
		}
		p.same = append(p.same, p.lines[0][widest]+" "+p.lines[1][widest])
		p.remove(widest)
	}
}

// constant says that a column is the same in all rows.
func (p *page) constant(i int) bool {
	return !slices.ContainsFunc(p.lines[1:], func(l []string) bool { return l[i] != p.lines[1][i] })
}

// cut shortens the text of the columns that may be cut, the widest first.
func (t *table) cut(p *page) {
	for t.wants(p) > t.room {
		widest := -1
		for i, w := range p.widths {
			prose := t.flow && i == len(p.widths)-1
			if !prose && w > t.least(p, i) && (widest < 0 || w > p.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		p.widths[widest]--
	}
	for n, l := range p.lines {
		for i, cell := range l {
			if n > 0 && slices.Contains(t.clip, p.lines[0][i]) {
				l[i] = clip(cell, p.widths[i])
			}
		}
	}
}
