package text

import (
	"strings"
	"unicode/utf8"
)

// Spaced is text from a stranger as it may be stored: valid UTF-8, and a space for
// each character that may not be shown.
func Spaced(s string) string {
	s = strings.Map(func(r rune) rune {
		if !Shown(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.TrimSpace(s)
}

// Truncate cuts s to at most n bytes without splitting a character.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
