package lint

import (
	"fmt"
	"go/doc"
	"maps"
	"path"
	"slices"
	"strings"
)

// wings are the folders of the house from the top down, each with what it holds.
var wings = []struct{ dir, holds string }{
	{"cmd", "one main per process: flags, signals, one call"},
	{"internal/app", "wiring: what every process shares, everything in one process, the command line"},
	{"internal/operator", "what people may do and ask, and the API to it"},
	{"internal/pipeline", "the stages, which meet only on streams"},
	{"internal/ledger", "the facts: storing, keeping and proving them"},
	{"internal/notify", "who is told, how, and what becomes of an incident"},
	{"internal/registry", "endpoints, event types and their health, as they are set"},
	{"internal/events", "the stream EVENTS and whose an event's id is"},
	{"internal/jetstream", "how messages are taken, published and settled, and who writes first"},
	{"internal/domain", "what the product speaks of: pure rules and values"},
	{"internal/platform", "what any service needs, and nothing of ours"},
	{"streams", "the topology as data"},
	{"pkg", "what others import"},
}

// Picture is the house as its imports show it: docs/house.md.
func Picture(files []File) string {
	at := func(pkg string) string {
		for _, w := range wings {
			if matches("./"+w.dir+"/...", pkg) {
				return w.dir
			}
		}
		return ""
	}
	arrows := map[string]map[string]map[string]bool{} // wing -> wing -> the packages that import
	says := map[string]string{}                       // by package
	for _, f := range files {
		if f.Go == nil || f.Go.Test || at(f.Go.Package) == "" {
			continue
		}
		from := at(f.Go.Package)
		if f.Go.Syntax.Doc != nil || says[f.Go.Package] == "" {
			text := ""
			if f.Go.Syntax.Doc != nil {
				text = new(doc.Package).Synopsis(f.Go.Syntax.Doc.Text())
			}
			says[f.Go.Package] = text
		}
		for _, i := range f.Go.Imports {
			to := at(i.Path)
			if to == "" || to == from {
				continue
			}
			if arrows[from] == nil {
				arrows[from] = map[string]map[string]bool{}
			}
			if arrows[from][to] == nil {
				arrows[from][to] = map[string]bool{}
			}
			arrows[from][to][f.Go.Package] = true
		}
	}
	var b strings.Builder
	b.WriteString("# The house\n\nMade from the imports by `make docs`; a test compares it with them. An arrow says: " +
		"imports. " +
		"The rules behind it, each with its reason, are in `test/lint/imports.go`. To change a thing, see " +
		"[CONTRIBUTING](../CONTRIBUTING.md).\n\n" +
		"Everybody may import the ground (`internal/platform`, `streams`, `pkg`), and almost everybody does: those arrows " +
		"are left out.\n\n```mermaid\nflowchart TD\n")
	ground := []string{"internal/platform", "streams", "pkg"}
	for _, w := range wings {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", node(w.dir), path.Base(w.dir))
	}
	for _, w := range wings {
		for _, to := range wings {
			if len(arrows[w.dir][to.dir]) > 0 && !slices.Contains(ground, to.dir) {
				fmt.Fprintf(&b, "  %s --> %s\n", node(w.dir), node(to.dir))
			}
		}
	}
	b.WriteString("```\n")
	for _, w := range wings {
		fmt.Fprintf(&b, "\n## %s\n\n`%s`: %s.\n\n| Package | What it is |\n| --- | --- |\n",
			strings.ToUpper(path.Base(w.dir)[:1])+path.Base(w.dir)[1:], w.dir, w.holds)
		for _, pkg := range slices.Sorted(maps.Keys(says)) {
			if at(pkg) == w.dir {
				fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimPrefix(pkg, "./"), strings.ReplaceAll(says[pkg], "|", `\|`))
			}
		}
	}
	return b.String()
}

func node(dir string) string { return strings.ReplaceAll(path.Base(dir), "-", "_") }
