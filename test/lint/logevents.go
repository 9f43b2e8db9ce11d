package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// logEvents is where the names of what is logged are.
const logEvents = "./internal/platform/logevent"

var eventName = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)+(: |$)`)

// unnamedEvents finds what is logged under a name that is written in place.
func unnamedEvents(f File) []Found {
	if f.Go == nil || f.Go.Test || !matchesAny([]string{"./internal/...", "./cmd/..."}, f.Go.Package) {
		return nil
	}
	var out []Found
	ast.Inspect(f.Go.Syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || method(call) != "Msg" {
			return true
		}
		if s, ok := leftmost(call.Args[0]).(*ast.BasicLit); ok && s.Kind == token.STRING {
			if text, err := strconv.Unquote(s.Value); err == nil && eventName.MatchString(text) {
				out = append(out, Found{f.Go.line(s.Pos()), text})
			}
		}
		return true
	})
	return out
}

// leftmost is the first part of a text that is put together.
func leftmost(e ast.Expr) ast.Expr {
	for {
		b, ok := e.(*ast.BinaryExpr)
		if !ok {
			return e
		}
		e = b.X
	}
}

// method is the name of the method that a call calls; "": it calls none.
func method(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// levelOf is the level of log.Warn().Str(…).Msg(…): that of the call at its
// beginning. "": it is chosen while the program runs.
func levelOf(msg *ast.CallExpr) string {
	for call := msg; ; {
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return ""
		}
		switch s.Sel.Name {
		case "Debug", "Info", "Warn", "Error":
			return strings.ToLower(s.Sel.Name)
		}
		if call, ok = s.X.(*ast.CallExpr); !ok {
			return ""
		}
	}
}

// LogEvents is docs/logs.md, made from the names of what is logged, and the names
// that nothing uses.
func LogEvents(files []File) (page string, unused []string) {
	uses, levels := map[string]int{}, map[string]map[string]bool{}
	for _, f := range files {
		if f.Go == nil || f.Go.Test {
			continue
		}
		ast.Inspect(f.Go.Syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "logevent" {
					uses[n.Sel.Name]++
				}
			case *ast.CallExpr:
				if len(n.Args) != 1 || method(n) != "Msg" {
					return true
				}
				if s, ok := leftmost(n.Args[0]).(*ast.SelectorExpr); ok {
					if levels[s.Sel.Name] == nil {
						levels[s.Sel.Name] = map[string]bool{}
					}
					levels[s.Sel.Name][levelOf(n)] = true
				}
			}
			return true
		})
	}
	var b strings.Builder
	b.WriteString(logsBegin)
	for _, f := range files {
		if f.Go == nil || f.Go.Test || f.Go.Package != logEvents {
			continue
		}
		for _, d := range f.Go.Syntax.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			fmt.Fprintf(&b, "\n## %s\n\n| Message | Level | What happened, and what to do |\n| --- | --- | --- |\n",
				strings.TrimSuffix(strings.TrimSpace(g.Doc.Text()), "."))
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				name := v.Names[0].Name
				if uses[name] == 0 {
					unused = append(unused, name)
				}
				text, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value) // the compiler has read it
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", text, said(levels[name]), strings.Join(strings.Fields(v.Doc.Text()), " "))
			}
		}
	}
	return b.String(), unused
}

// said names levels, from the quietest on.
func said(levels map[string]bool) string {
	if len(levels) == 0 || levels[""] {
		return "as it is"
	}
	order := []string{"debug", "info", "warn", "error"}
	return strings.Join(slices.SortedFunc(maps.Keys(levels),
		func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) }), ", ")
}

const logsBegin = `# What is logged

For whoever reads the logs: each message by its name, with what happened and what to do. The table is made from the program by
` + "`make docs`" + `; a test compares it.

A log line is one JSON object on standard error. With ` + "`--log-format text`" + ` it is a line for people. Every line has:

| Field | Meaning |
| --- | --- |
| ` + "`level`" + ` | ` + "`debug`, `info`, `warn` or `error`. `error`: somebody should look. `warn`: it heals by itself, or a receiver failed" + ` |
| ` + "`time`" + ` | When it was logged, UTC, to the millisecond |
| ` + "`message`" + ` | The name below. A sentence may follow it after a colon |
| ` + "`stage`" + ` | Which stage says so, where one does; ` + "`part`" + ` for the NATS server and ClickHouse |
| ` + "`error`" + ` | What went wrong, in words |

Other fields are called as on record: ` + "`tenant`, `event_id`, `endpoint_id`, `attempt_id`, `incident_id`" + `. A secret or a
payload is never logged. ` + "`WAYBILL_LOG_LEVEL`" + ` says from which level on is logged. "As it is" stands where the level depends
on what happened: a ` + "`delivered`" + ` attempt is ` + "`info`" + `, a failed one ` + "`warn`" + `.
`
