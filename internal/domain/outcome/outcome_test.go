package outcome

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared are the constants of a type in this package's files, by value.
func declared(t *testing.T, typeName string) (values []string) {
	t.Helper()
	for _, name := range []string{"outcome.go", "reason.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typeName {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("no constant of type %s was found", typeName)
	}
	return values
}

func TestEveryOutcomeHasASentence(t *testing.T) {
	for _, code := range declared(t, "Outcome") {
		o := Outcome(code)
		if o.Sentence() == code {
			t.Errorf("outcome %s has no sentence", code)
		}
		if !slices.Contains(Outcomes(), o) {
			t.Errorf("outcome %s is not listed", code)
		}
		if o.Class() != ClassDelivered && o.Class() != ClassRetryable && o.Class() != ClassTerminal {
			t.Errorf("outcome %s has class %q", code, o.Class())
		}
	}
}

func TestEveryReasonHasASentence(t *testing.T) {
	seen := map[string]bool{}
	for _, code := range declared(t, "Reason") {
		if seen[code] {
			t.Errorf("reason %s is declared twice", code)
		}
		seen[code] = true
		if !Reason(code).Known() {
			t.Errorf("reason %s has no sentence", code)
		}
		if s := Reason(code).Sentence(); strings.HasSuffix(s, ".") || s != strings.TrimSpace(s) {
			t.Errorf("reason %s: %q is written into other sentences: no full stop, no space around it", code, s)
		}
	}
	if Reason("of_a_later_version").Sentence() != "of_a_later_version" {
		t.Error("an unknown reason does not stand for itself")
	}
}

func TestStatusesHaveTheOutcomeThatTheRFCGivesThem(t *testing.T) {
	want := map[int]Outcome{100: InformationalFinal, 199: InformationalFinal, 200: Delivered, 299: Delivered,
		300: Redirect, 399: Redirect,
		400: StatusTerminal, 408: StatusRetryable, 410: StatusTerminal, 425: StatusRetryable, 429: StatusRetryable,
		499: StatusTerminal,
		500: StatusRetryable, 599: StatusRetryable, 600: StatusRetryable, 999: StatusRetryable, 99: StatusRetryable}
	for status, o := range want {
		if got := OfStatus(status); got != o {
			t.Errorf("%d is %s, want %s", status, got, o)
		}
	}
}
