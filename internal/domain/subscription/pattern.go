// Package subscription decides who receives what: pure functions of event types
// and the patterns that endpoints subscribe to.
package subscription

import (
	"cmp"
	"fmt"
	"strings"
)

// MaxPatterns bounds the patterns of one endpoint, so that matching an event
// stays cheap.
const MaxPatterns = 256

const (
	maxLength = 128 // an event type's own bound
	maxTokens = 16  // likewise
)

// Validate says what is wrong with a pattern. A pattern is dot-separated
// tokens of letters, digits, _ and -; a token may be * (exactly one token), and
// the last may be > (one or more tokens).
func Validate(pattern string) error {
	if pattern == "" {
		return fmt.Errorf("types: a pattern is empty; use > for every type")
	}
	tokens := strings.Split(pattern, ".")
	if len(pattern) > maxLength || len(tokens) > maxTokens {
		return fmt.Errorf("types: %.40q… is longer than %d characters or %d tokens", pattern, maxLength, maxTokens)
	}
	for i, t := range tokens {
		switch {
		case t == "*":
		case t == ">":
			if i != len(tokens)-1 {
				return fmt.Errorf("types: %q has > before its end; > stands for the rest, so it comes last", pattern)
			}
		case t == "":
			return fmt.Errorf("types: %q has an empty token", pattern)
		default:
			if j := strings.IndexFunc(t, notToken); j >= 0 {
				return fmt.Errorf("types: %q has %q in a token; use letters, digits, _ and -, or * for one whole token, > for "+
					"the rest", pattern, t[j:j+1])
			}
		}
	}
	return nil
}

func notToken(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-')
}

// Match says whether an event type matches a valid pattern.
func Match(pattern, eventType string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		if p == ">" {
			return eventType != ""
		}
		t, trest, tmore := strings.Cut(eventType, ".")
		if p != "*" && p != t || t == "" {
			return false
		}
		if !pmore || !tmore {
			return pmore == tmore
		}
		pattern, eventType = prest, trest
	}
}

// Compare orders patterns by how closely they fit: of two that match the same
// type, the one that comes first names it more closely. Token by token from the
// left, a name goes before *, and * before >. 0 only for equal patterns.
func Compare(a, b string) int {
	for {
		x, xrest, xmore := strings.Cut(a, ".")
		y, yrest, ymore := strings.Cut(b, ".")
		if c := cmp.Compare(width(x), width(y)); c != 0 {
			return c
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		if !xmore || !ymore {
			return cmp.Compare(map[bool]int{true: 1}[xmore], map[bool]int{true: 1}[ymore])
		}
		a, b = xrest, yrest
	}
}

func width(token string) int {
	switch token {
	case "*":
		return 1
	case ">":
		return 2
	}
	return 0
}

// MatchAny says whether an event type matches any of the patterns.
func MatchAny(patterns []string, eventType string) bool {
	for _, p := range patterns {
		if Match(p, eventType) {
			return true
		}
	}
	return false
}
