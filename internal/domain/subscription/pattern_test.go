package subscription_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		name, pattern, eventType string
		want                     bool
	}{
		{"an exact pattern matches its type", "lab_result.critical", "lab_result.critical", true},
		{"an exact pattern matches nothing longer", "lab_result", "lab_result.critical", false},
		{"an exact pattern matches nothing shorter", "lab_result.critical", "lab_result", false},
		{"a star is exactly one token", "lab_result.*", "lab_result.critical", true},
		{"a star is not two tokens", "lab_result.*", "lab_result.critical.again", false},
		{"a star is not none", "lab_result.*", "lab_result", false},
		{"a star may stand first", "*.critical", "lab_result.critical", true},
		{"a star may stand in the middle", "a.*.c", "a.b.c", true},
		{"a star in the middle still needs the rest", "a.*.c", "a.b", false},
		{"the rest is one token", "lab_result.>", "lab_result.critical", true},
		{"the rest is several tokens", "lab_result.>", "lab_result.critical.again", true},
		{"the rest is not none", "lab_result.>", "lab_result", false},
		{"the rest alone is everything", ">", "consent.withdrawn", true},
		{"case counts", "Consent.*", "consent.withdrawn", false},
		{"a star is not part of a token", "con*", "consent", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := subscription.Match(c.pattern, c.eventType); got != c.want {
				t.Errorf("Match(%q, %q) = %v", c.pattern, c.eventType, got)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct{ name, pattern, want string }{
		{"an exact pattern is valid", "lab_result.critical", ""},
		{"wildcards are valid", "a.*.>", ""},
		{"an empty pattern is not", "", "empty"},
		{"an empty token is not", "a..b", "empty token"},
		{"the rest comes last", "a.>.b", "comes last"},
		{"a space is not a token", "a b", `" "`},
		{"half a star is not", "con*", `"*"`},
		{"a very long pattern is not", strings.Repeat("a", 200), "longer"},
		{"a very deep pattern is not", strings.Repeat("a.", 40) + "a", "longer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := subscription.Validate(c.pattern)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Validate(%q) = %v", c.pattern, err)
			}
		})
	}
}

// slow is Match by definition: token by token over split slices.
func slow(pattern, eventType []string) bool {
	switch {
	case len(pattern) == 1 && pattern[0] == ">":
		return len(eventType) > 0
	case len(pattern) == 0 || len(eventType) == 0:
		return len(pattern) == len(eventType)
	case pattern[0] == "*" || pattern[0] == eventType[0]:
		return slow(pattern[1:], eventType[1:])
	}
	return false
}

func FuzzMatchAgreesWithItsDefinition(f *testing.F) {
	f.Add("a.*.>", "a.b.c")
	f.Add("*", "a")
	f.Add("a", "a.b")
	f.Fuzz(func(t *testing.T, pattern, eventType string) {
		if subscription.Validate(pattern) != nil || subscription.Validate(eventType) != nil ||
			strings.ContainsAny(eventType, "*>") {
			return
		}
		want := slow(strings.Split(pattern, "."), strings.Split(eventType, "."))
		if got := subscription.Match(pattern, eventType); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, eventType, got, want)
		}
	})
}
