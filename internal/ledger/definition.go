package ledger

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// definition is a table or view as a CREATE statement defines it, in ClickHouse's
// own formatting.
type definition struct {
	parts  map[string]string // columns, indexes, constraints … by name
	engine string            // of a table: everything behind the parts
	query  string            // of a view: its SELECT
}

// define applies the formatted statements of migrations, in order.
func define(statements []string) (map[string]definition, error) {
	out := map[string]definition{}
	for _, s := range statements {
		var err error
		switch {
		case strings.HasPrefix(s, "CREATE TABLE "):
			name, d, e := parseTable(strings.TrimPrefix(strings.TrimPrefix(s, "CREATE TABLE "), "IF NOT EXISTS "))
			err = e
			if _, again := out[name]; !again {
				out[name] = d
			}
		case strings.HasPrefix(s, "CREATE OR REPLACE VIEW "):
			name, query, ok := strings.Cut(strings.TrimPrefix(s, "CREATE OR REPLACE VIEW "), " AS ")
			if !ok {
				err = fmt.Errorf("no SELECT in %.60q", s)
			}
			out[name] = definition{query: query}
		case strings.HasPrefix(s, "DROP VIEW IF EXISTS "):
			delete(out, strings.TrimPrefix(s, "DROP VIEW IF EXISTS "))
		case strings.HasPrefix(s, "ALTER TABLE "):
			err = alter(out, strings.TrimPrefix(s, "ALTER TABLE "))
		default:
			err = fmt.Errorf("a migration has a statement that verify does not know: %.80q", s)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func alter(tables map[string]definition, s string) error {
	name, rest, _ := strings.Cut(s, " ")
	d, ok := tables[name]
	if !ok {
		return fmt.Errorf("a migration alters %s, which none made", name)
	}
	for _, c := range splitTop(rest) {
		if strings.HasPrefix(c, "(") && strings.HasSuffix(c, ")") {
			c = c[1 : len(c)-1]
		}
		kind, what, _ := strings.Cut(c, " ")
		object, def, _ := strings.Cut(what, " ")
		def = strings.TrimPrefix(strings.TrimPrefix(def, "IF NOT EXISTS "), "IF EXISTS ")
		if i := strings.Index(def, " AFTER "); i > 0 {
			def = def[:i]
		}
		switch {
		case kind == "ADD" && object == "COLUMN", kind == "MODIFY" && object == "COLUMN":
			d.parts[partName(def)] = def
		case kind == "ADD" && object == "INDEX":
			d.parts[partName("INDEX "+def)] = "INDEX " + def
		case kind == "MATERIALIZE":
		case kind == "COMMENT" && object == "COLUMN":
			if column, text, ok := strings.Cut(def, " "); ok && d.query == "" {
				name := partName(column)
				d.parts[name] = commented(d.parts[name], text)
			}
		case kind == "MODIFY" && object == "COMMENT": // of the table itself
		default:
			return fmt.Errorf("a migration has a change that verify does not know: %.80q", c)
		}
	}
	return nil
}

// commented is a column's definition with another comment, which stands before its codec.
func commented(part, text string) string {
	part = comment.ReplaceAllString(part, "")
	if at := codec.FindStringIndex(part); at != nil {
		return part[:at[0]] + " COMMENT " + text + part[at[0]:]
	}
	return part + " COMMENT " + text
}

func parseTable(s string) (name string, d definition, err error) {
	open := strings.IndexByte(s, '(')
	end := closing(s, open)
	if open < 0 || end < 0 {
		return "", d, fmt.Errorf("no columns in %.60q", s)
	}
	d.parts = map[string]string{}
	for _, p := range splitTop(s[open+1 : end]) {
		d.parts[partName(p)] = p
	}
	d.engine = strings.TrimSpace(s[end+1:])
	return strings.Trim(strings.TrimSpace(s[:open]), "`"), d, nil
}

// partName is a column's name, or kind and name of something else.
func partName(p string) string {
	words := strings.Fields(p)
	if len(words) > 1 && slices.Contains([]string{"INDEX", "CONSTRAINT", "PROJECTION"}, words[0]) {
		return words[0] + " " + strings.Trim(words[1], "`")
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Trim(words[0], "`")
}

// scan calls yield with each byte outside of quotes, and how many brackets are
// open around it, until yield says no.
func scan(s string, yield func(i, depth int) bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '`', '"':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			continue
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if !yield(i, depth) {
			return
		}
	}
}

// closing is where the bracket that opens at i closes; -1: nowhere.
func closing(s string, open int) int {
	out := -1
	if open < 0 {
		return out
	}
	scan(s[open:], func(i, depth int) bool {
		if depth == 0 {
			out = open + i
		}
		return depth > 0
	})
	return out
}

// splitTop splits at commas that no bracket is around.
func splitTop(s string) []string {
	var out []string
	from := 0
	scan(s, func(i, depth int) bool {
		if depth == 0 && s[i] == ',' {
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
		return true
	})
	return append(out, strings.TrimSpace(s[from:]))
}

var (
	// What does not change what a query answers.
	codec   = regexp.MustCompile(` CODEC\((?:[^()]|\([^()]*\))*\)`)
	comment = regexp.MustCompile(` COMMENT '(?:[^'\\]|\\.)*'`)
	tuning  = regexp.MustCompile(` SETTINGS .*$`)
	// A replicated table is the same table on several servers.
	mergeTree = regexp.MustCompile(`^ENGINE = (?:Replicated|Shared)?MergeTree(?:\((?:[^()'\\]|'(?:[^'\\]|\\.)*')*\))?( |$)`)
)

func essence(part string) string {
	return strings.TrimSpace(codec.ReplaceAllString(comment.ReplaceAllString(part, ""), ""))
}

func engineEssence(engine string) string {
	return strings.TrimSpace(mergeTree.ReplaceAllString(tuning.ReplaceAllString(comment.ReplaceAllString(engine, ""), ""),
		"ENGINE = MergeTree$1"))
}

// compareDefinitions says what differs from what this version's migrations make:
// what can change an answer, and what only tunes.
func compareDefinitions(want, got map[string]definition) (wrong, notes []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, g := want[name], got[name]
		switch _, there := got[name]; {
		case !there && w.query != "":
			wrong = append(wrong, fmt.Sprintf("view %s is missing", name))
		case !there:
			wrong = append(wrong, fmt.Sprintf("table %s is missing", name))
		case w.query != "" && g.query != w.query:
			wrong = append(wrong, fmt.Sprintf("view %s is not this version's: %s", name, firstDifference(g.query, w.query)))
		case w.query == "" && g.query != "":
			wrong = append(wrong, fmt.Sprintf("%s is a view, and should be a table", name))
		case w.query == "":
			a, b := compareTable(name, w, g)
			wrong, notes = append(wrong, a...), append(notes, b...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, known := want[name]; !known {
			notes = append(notes, fmt.Sprintf("the database has a table or view %s, which is not Waybill's", name))
		}
	}
	return wrong, notes
}

func compareTable(name string, want, got definition) (wrong, notes []string) {
	for _, p := range slices.Sorted(maps.Keys(want.parts)) {
		w, g := want.parts[p], got.parts[p]
		switch {
		case w == g:
		case strings.HasPrefix(p, "INDEX "):
			notes = append(notes, fmt.Sprintf("table %s: %s is not this version's, which costs time only", name, p))
		case g == "":
			wrong = append(wrong, fmt.Sprintf("table %s: column %s is missing", name, p))
		case essence(w) == essence(g):
			notes = append(notes, fmt.Sprintf("table %s: codec or comment of column %s is not this version's", name, p))
		default:
			wrong = append(wrong, fmt.Sprintf("table %s: column %s is defined as %s, and should be %s", name, p, essence(g),
				essence(w)))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(got.parts)) {
		if _, known := want.parts[p]; known {
			continue
		}
		if strings.HasPrefix(p, "INDEX ") {
			notes = append(notes, fmt.Sprintf("table %s: %s is not this version's", name, p))
			continue
		}
		wrong = append(wrong, fmt.Sprintf("table %s: %s is not this version's: %s", name, p, got.parts[p]))
	}
	if w, g := engineEssence(want.engine), engineEssence(got.engine); w != g {
		wrong = append(wrong, fmt.Sprintf("table %s is made with %s, and should be with %s", name, g, w))
	}
	return wrong, notes
}

// firstDifference shows where two texts part, with a little around it.
func firstDifference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string {
		from, to := max(0, i-20), min(len(s), i+60)
		return strings.ToValidUTF8(s[min(from, len(s)):to], "")
	}
	return fmt.Sprintf("it says … %s …, and should say … %s …", cut(got), cut(want))
}
