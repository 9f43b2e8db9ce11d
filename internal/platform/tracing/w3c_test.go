package tracing

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const goodParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestOnlyWellFormedTraceContextIsPassedOn(t *testing.T) {
	good := Context{goodParent, "a=1,b@c=2"}
	cases := map[string]struct{ in, want Context }{
		"both":                      {good, good},
		"a parent alone":            {Context{Parent: goodParent}, Context{Parent: goodParent}},
		"nothing":                   {},
		"a control character":       {Context{"x\x7fy", "a=1"}, Context{}},
		"a state without a parent":  {Context{"", "a=1"}, Context{}},
		"a state that is no list":   {Context{goodParent, "a\x01b"}, Context{Parent: goodParent}},
		"a state with a line break": {Context{goodParent, "a=1\r\nX: y"}, Context{Parent: goodParent}},
		"a state of 60,000 bytes":   {Context{goodParent, "a=" + strings.Repeat("x", 60_000)}, Context{Parent: goodParent}},
		"a parent of 60,000 bytes":  {Context{goodParent + "-" + strings.Repeat("x", 60_000), "a=1"}, Context{}},
		"a parent with upper case":  {Context{strings.ToUpper(goodParent), ""}, Context{}},
		"a parent of a later version": {Context{"01" + goodParent[2:] + "-what", ""},
			Context{"01" + goodParent[2:] + "-what", ""}},
	}
	for name, c := range cases {
		if got := c.in.WellFormed(); got != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func FuzzWellFormed(f *testing.F) {
	f.Add(goodParent, "a=1")
	f.Add("x\x7fy", "a\x01b")
	f.Fuzz(func(t *testing.T, parent, state string) {
		c := Context{parent, state}.WellFormed()
		if c.WellFormed() != c {
			t.Errorf("%q is well formed and changes", c)
		}
		for _, s := range []string{c.Parent, c.State} {
			if len(s) > maxState || !utf8.ValidString(s) ||
				strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q would be passed on", s)
			}
		}
		if c.Parent == "" && c.State != "" {
			t.Errorf("a state without a parent: %q", c)
		}
	})
}
