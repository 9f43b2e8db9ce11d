package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rule about one file.
type Rule struct {
	Name  string
	Why   string
	Check func(File) []Found
}

// Found is where a file breaks a rule.
type Found struct {
	Line int
	What string
}

// Rules of the project about single files, besides ImportRules.
func Rules() []Rule {
	return []Rule{
		{"package-names", "a name that fits anything tells a reader nothing", vaguePackages},
		{"no-init", "what runs before main cannot be seen, ordered or given other values by a test", initFunctions},
		{"no-sleep-in-tests", "a sleep is too short on a loaded machine and too long on any other: wait on a signal, or " +
			"use testing/synctest",
			calls(inTests, "time", "Sleep")},
		{"no-skipped-tests", "a test that is skipped is believed to pass", skippedTests},
		{"one-settler", "only internal/jetstream/stage settles a message, so that the order publish, wait, settle is " +
			"written once", settles},
		{"one-speller", "only streams spells a subject: writers and readers agree because they call the same function",
			subjects},
		{"log-events-have-a-name", "an operator searches for it, and docs/logs.md says what it means: use a constant of " +
			"internal/platform/logevent", unnamedEvents},
		{"no-markers", "what is not done belongs in an issue, where it is seen", pattern(markers)},
		{"no-registry-hosts", "which mirror is used is the machine's affair: a host in the tree breaks whoever is behind " +
			"another", pattern(registryHosts)},
		{"short-files", "a file should be read in one sitting; split it, or say why not in a //lint:long comment", longFiles},
		{"short-lines", "a line over 120 characters does not fit beside another file", longLines},
		{"short-functions", "a function should fit in the head; split it, or say why not in a //lint:long comment",
			longFunctions},
	}
}

func vaguePackages(f File) []Found {
	vague := []string{"util", "utils", "common", "models", "types", "helpers", "misc"}
	if f.Go == nil || !slices.Contains(vague, strings.TrimSuffix(f.Go.Name, "_test")) {
		return nil
	}
	return []Found{{f.Go.line(f.Go.Syntax.Name.Pos()), "package " + f.Go.Name}}
}

func initFunctions(f File) []Found {
	if f.Go == nil || f.Go.Test {
		return nil
	}
	var out []Found
	for _, d := range f.Go.Syntax.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			out = append(out, Found{f.Go.line(fn.Pos()), "func init"})
		}
	}
	return out
}

func inTests(g *GoFile) bool {
	return g.Test || matchesAny([]string{"./test/testkit/...", "./test/..."}, g.Package)
}

// calls finds uses of pkg.name in the files that where chooses.
func calls(where func(*GoFile) bool, pkg, name string) func(File) []Found {
	return func(f File) []Found {
		if f.Go == nil || !where(f.Go) {
			return nil
		}
		return selectors(f.Go, func(s *ast.SelectorExpr) bool {
			x, ok := s.X.(*ast.Ident)
			return ok && x.Name == pkg && s.Sel.Name == name
		})
	}
}

func selectors(g *GoFile, want func(*ast.SelectorExpr) bool) []Found {
	var out []Found
	for n := range ast.Preorder(g.Syntax) {
		if s, ok := n.(*ast.SelectorExpr); ok && want(s) {
			out = append(out, Found{g.line(s.Sel.Pos()), "." + s.Sel.Name})
		}
	}
	return out
}

func skippedTests(f File) []Found {
	if f.Go == nil || !inTests(f.Go) {
		return nil
	}
	return selectors(f.Go, func(s *ast.SelectorExpr) bool {
		x, ok := s.X.(*ast.Ident)
		if ok && x.Name == "testing" {
			return s.Sel.Name == "Short"
		}
		return ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) &&
			slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name)
	})
}

// settles finds acknowledgements of JetStream messages. Only files that import
// the client can hold one; a method of another type with such a name needs
// another name there.
func settles(f File) []Found {
	if f.Go == nil || inTests(f.Go) || f.Go.Package == "./internal/jetstream/stage" {
		return nil
	}
	nats := func(i Import) bool { return matches("github.com/nats-io/nats.go/...", i.Path) }
	if !slices.ContainsFunc(f.Go.Imports, nats) {
		return nil
	}
	verbs := []string{"Ack", "AckSync", "DoubleAck", "Nak", "NakWithDelay", "Term", "TermWithReason", "InProgress"}
	var out []Found
	for n := range ast.Preorder(f.Go.Syntax) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(verbs, s.Sel.Name) {
			out = append(out, Found{f.Go.line(s.Sel.Pos()), "." + s.Sel.Name + "()"})
		}
	}
	return out
}

// subjectLiteral is a subject or a piece of one: with a wildcard, a verb, an
// open end or three tokens. "ledger.gap" is none: kinds of records and log
// events are named so too.
var subjectLiteral = regexp.MustCompile(`^(events|deliveries|retry|ledger|replays|claims|escalations)\.($|[^ ]*\.$|[^ ]*[*>%]|[^ .]+\.[^ .]+)`)

func subjects(f File) []Found {
	if f.Go == nil || inTests(f.Go) || f.Go.Package == "./streams" || f.Go.Package == "./test/lint" {
		return nil
	}
	var out []Found
	for n := range ast.Preorder(f.Go.Syntax) {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && subjectLiteral.MatchString(s) {
			out = append(out, Found{f.Go.line(lit.Pos()), fmt.Sprintf("subject %q", s)})
		}
	}
	return out
}

// The brackets keep the expressions from finding themselves.
var (
	markers       = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b`)
	registryHosts = regexp.MustCompile(`(proxy|sum)\.gol[a]ng\.org|regist[r]y\.npmjs\.org|regist[r]y\.yarnpkg\.com|(deb|security|ftp)\.deb[i]an\.org|\b(docker|gcr|ghcr|quay)\.i[o]/|regist[r]y-1\.docker`)
)

// pattern finds an expression in any text file.
func pattern(re *regexp.Regexp) func(File) []Found {
	return func(f File) []Found {
		if !re.MatchString(f.Text) {
			return nil
		}
		var out []Found
		line := 0
		for text := range strings.Lines(f.Text) {
			line++
			if m := re.FindString(text); m != "" {
				out = append(out, Found{line, strconv.Quote(m)})
			}
		}
		return out
	}
}
