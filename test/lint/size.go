package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
	"unicode/utf8"
)

// Sizes that a reader can hold: see CONTRIBUTING.md.
const (
	maxFileLines     = 400
	maxFunctionLines = 100
)

// excuse is the comment that allows a long file (anywhere before the package
// clause) or function (in its documentation), with its reason.
const excuse = "//lint:long "

func longFiles(f File) []Found {
	if f.Go == nil || ast.IsGenerated(f.Go.Syntax) {
		return nil
	}
	lines := strings.Count(f.Text, "\n")
	if lines <= maxFileLines || excused(f.Go.Syntax.Comments,
		func(c *ast.Comment) bool { return c.Pos() < f.Go.Syntax.Package }) {
		return nil
	}
	return []Found{{1, fmt.Sprintf("%d lines, more than %d", lines, maxFileLines)}}
}

func longFunctions(f File) []Found {
	if f.Go == nil || ast.IsGenerated(f.Go.Syntax) {
		return nil
	}
	var out []Found
	for _, d := range f.Go.Syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := f.Go.line(fn.End()) - f.Go.line(fn.Pos()) + 1
		var doc []*ast.CommentGroup
		if fn.Doc != nil {
			doc = append(doc, fn.Doc)
		}
		if lines > maxFunctionLines && !excused(doc, func(*ast.Comment) bool { return true }) {
			out = append(out, Found{f.Go.line(fn.Pos()),
				fmt.Sprintf("%s has %d lines, more than %d", fn.Name.Name, lines, maxFunctionLines)})
		}
	}
	return out
}

func excused(groups []*ast.CommentGroup, in func(*ast.Comment) bool) bool {
	for _, g := range groups {
		for _, c := range g.List {
			if in(c) && strings.HasPrefix(c.Text, excuse) && len(strings.TrimSpace(c.Text)) > len(excuse) {
				return true
			}
		}
	}
	return false
}

const (
	// maxLine is what fits beside another file on a screen.
	maxLine = 120
	// maxText is a text that may stand on a longer line: broken, nobody finds it.
	maxText = 60
)

// longLines finds lines over maxLine characters, a tab counting as one, but for
// those in a raw text, such as a query, and those with a text that is long itself.
func longLines(f File) []Found {
	if f.Go == nil {
		return nil
	}
	free := map[int]bool{}
	ast.Inspect(f.Go.Syntax, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || lit.Value[0] != '`' && len(lit.Value) < maxText {
			return true
		}
		for l := f.Go.line(lit.Pos()); l <= f.Go.line(lit.End()); l++ {
			free[l] = true
		}
		return true
	})
	var out []Found
	n := 0
	for line := range strings.Lines(f.Text) {
		n++
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > maxLine && !free[n] {
			out = append(out, Found{n, fmt.Sprintf("%d characters", width)})
		}
	}
	return out
}
