// Package text makes what strangers wrote safe to show. A receiver's answer, a
// producer's id or a person's note may hold escape sequences that steer a
// terminal, C1 controls that some terminals obey as well, characters that reorder
// what is read (U+202E), and ones that nobody sees (U+200B), with which two names
// look like one. None of them reaches a terminal, a table, CSV, JSON or a page.
//
// Everybody who prints or takes in text asks here.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	joiner         = '\u200d'
	emojiSelector  = '\ufe0f'
	noBreak        = '\u00a0'
	narrowNoBreak  = '\u202f'
	ideographSpace = '\u3000'
)

// Shown says whether a character may be shown as it is: not a control, not a
// character that only formats, nothing that is not assigned. Line breaks and tabs
// are the caller's matter.
func Shown(r rune) bool {
	switch r {
	case noBreak, narrowNoBreak, ideographSpace: // spaces, which move nothing
		return true
	case unicode.ReplacementChar:
		return true
	}
	return unicode.IsPrint(r) && !blank(r)
}

// blank are letters and symbols that show nothing at all.
func blank(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return false
}

// Line is s on one line: line breaks and tabs become spaces, what may not be shown
// becomes U+FFFD.
func Line(s string) string { return clean(s, ' ', ' ') }

// Lines is Line that keeps line breaks and tabs. A carriage return is not kept: on
// a terminal it writes over what stands there.
func Lines(s string) string { return clean(s, '\n', '\t') }

func clean(s string, newline, tab rune) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	before := rune(0)
	for i, r := range s {
		switch {
		case r == '\n':
			r = newline
		case r == '\t':
			r = tab
		case r == '\r' && newline == ' ':
			r = ' '
		case r == joiner && joins(before, s[i+utf8.RuneLen(joiner):]):
		case !Shown(r):
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

// plain is the common case: printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// joins says whether a joiner holds an emoji together, which is the one use of it
// that shows.
func joins(before rune, after string) bool {
	next, _ := utf8.DecodeRuneInString(after)
	return (unicode.In(before, unicode.So, unicode.Sk) || before == emojiSelector) && unicode.Is(unicode.So, next)
}

// JSON is JSON in which what may not be shown is escaped, as \u009b. It is the same
// JSON to whoever reads it.
func JSON(b []byte) []byte {
	if clear(b) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == '\n' || r == '\t' || r == '\r' || Shown(r) {
			out = append(out, b[:n]...)
		} else {
			out = appendEscape(out, r)
		}
		b = b[n:]
	}
	return out
}

func clear(b []byte) bool {
	for _, c := range b {
		if c >= 0x7f || c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func appendEscape(out []byte, r rune) []byte {
	if hi, lo := utf16.EncodeRune(r); hi != unicode.ReplacementChar {
		return appendEscape(appendEscape(out, hi), lo)
	}
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// Fault names the first character of s that a name or a note on one line may not
// have; empty: there is none.
func Fault(s string) string {
	for i, r := range s {
		if r == unicode.ReplacementChar || !Shown(r) {
			return "the character " + name(r, s[i:]) + " at byte " + strconv.Itoa(i)
		}
	}
	return ""
}

// FaultInLines is Fault for a text of several lines.
func FaultInLines(s string) string {
	return Fault(strings.NewReplacer("\r\n", "  ", "\n", " ", "\t", " ").Replace(s))
}

func name(r rune, at string) string {
	if _, n := utf8.DecodeRuneInString(at); r == unicode.ReplacementChar && n <= 1 {
		return "that is no UTF-8 (0x" + strconv.FormatUint(uint64(at[0]), 16) + ")"
	}
	return "U+" + strings.ToUpper(leftPad(strconv.FormatInt(int64(r), 16)))
}

func leftPad(s string) string { return strings.Repeat("0", max(0, 4-len(s))) + s }
