// Package lint holds the project's own rules about its source, each with its
// reason, and the test that applies them. It reads the files itself: what a
// subprocess such as go list reads is invisible to Go's test cache, which would
// go on reporting a pass after a rule is broken.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Module is the path of the main module; local packages are written "./…".
const Module = "github.com/waybill-dev/waybill"

// File is one text file of the repository.
type File struct {
	Path string // from the root, with slashes
	Text string
	Go   *GoFile // nil unless it is Go source
}

// GoFile is what the rules need to know about a Go file.
type GoFile struct {
	Package string // its directory, "./internal/jetstream/stage"
	Name    string // of the package clause
	Test    bool   // ends in _test.go
	Imports []Import
	Fset    *token.FileSet
	Syntax  *ast.File
}

// Import of a package: "./streams" for one of ours, else the path as written.
type Import struct {
	Path string
	Line int
}

// Violation of a rule.
type Violation struct {
	Path string
	Line int
	Rule string
	What string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", v.Path, v.Line, v.Rule, v.What)
}

// notOurs are directories whose contents are built or fetched, never committed.
var notOurs = []string{".git", "bin", "node_modules", "waybill-data"}

// Read reads every text file of the tree below root, in the order of their paths.
func Read(root string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && slices.Contains(notOurs, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f, err := Parse(filepath.ToSlash(rel), string(text))
		files = append(files, f)
		return err
	})
	return files, err
}

// Parse makes a File of a path and its text.
func Parse(name, text string) (File, error) {
	f := File{Path: name, Text: text}
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return f, nil
	}
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return f, err
	}
	g := &GoFile{
		Package: "./" + path.Dir(name), Name: syntax.Name.Name,
		Test: strings.HasSuffix(name, "_test.go"), Fset: fset, Syntax: syntax,
	}
	for _, spec := range syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, err
		}
		if rest, ok := strings.CutPrefix(p, Module+"/"); ok {
			p = "./" + rest
		}
		g.Imports = append(g.Imports, Import{p, fset.Position(spec.Pos()).Line})
	}
	f.Go = g
	return f, nil
}

// line of a position in the file.
func (g *GoFile) line(p token.Pos) int { return g.Fset.Position(p).Line }

// matches reports whether a package is one that a pattern names: "./streams"
// itself, "./internal/..." and all below it, "std" the standard library, "any"
// every package.
func matches(pattern, pkg string) bool {
	switch {
	case pattern == "any":
		return true
	case pattern == "std":
		first, _, _ := strings.Cut(pkg, "/")
		return !strings.Contains(first, ".")
	case strings.HasSuffix(pattern, "/..."):
		prefix := strings.TrimSuffix(pattern, "/...")
		return pkg == prefix || strings.HasPrefix(pkg, prefix+"/")
	}
	return pattern == pkg
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}
