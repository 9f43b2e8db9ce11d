package redact

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// view is a text with its escapes undone, and where each byte came from.
type view struct {
	text []byte
	from []int32 // byte i is made of the source from from[i] to to[i]; nil: text is the source
	to   []int32
}

func (v *view) source(i int) int {
	if v.from == nil {
		return i
	}
	return int(v.from[i])
}

// sourceEnd maps the end of a piece of the text.
func (v *view) sourceEnd(i int) int {
	if v.from == nil || i == 0 {
		return i
	}
	return int(v.to[i-1])
}

// decode undoes one layer of escapes, drops what does not show, and writes digits
// and marks of other scripts as ASCII does.
func (v *view) decode() (view, bool) {
	if !v.escaped() {
		return *v, false
	}
	n := len(v.text)
	out := view{text: make([]byte, 0, n), from: make([]int32, 0, n), to: make([]int32, 0, n)}
	changed := false
	for i := 0; i < n; {
		r, size := undo(v.text[i:])
		if v.text[i] == '+' && i > 0 && i+1 < n && class[v.text[i-1]]&isAlnum != 0 && class[v.text[i+1]]&isAlnum != 0 {
			r, size = ' ', 1 // a space, in a form
		}
		if size == 0 {
			out.put(v, v.text[i], i, i+1)
			i++
			continue
		}
		changed = true
		if r >= 0 {
			var buf [utf8.UTFMax]byte
			b := buf[:1]
			if r > 0xff || r >= 0x80 && v.text[i] >= 0x80 || v.text[i] == '\\' || v.text[i] == '&' {
				b = buf[:utf8.EncodeRune(buf[:], r)]
			} else {
				b[0] = byte(r) // a byte, as %C3 is
			}
			for _, c := range b {
				out.put(v, c, i, i+size)
			}
		}
		i += size
	}
	return out, changed
}

func (v *view) put(of *view, c byte, from, to int) {
	v.text = append(v.text, c)
	v.from = append(v.from, int32(of.source(from)))
	v.to = append(v.to, int32(of.sourceEnd(to)))
}

func (v *view) escaped() bool {
	if bytes.IndexByte(v.text, '\\') >= 0 || bytes.IndexByte(v.text, '%') >= 0 || bytes.IndexByte(v.text, '&') >= 0 ||
		bytes.IndexByte(v.text, '+') >= 0 {
		return true
	}
	for _, c := range v.text {
		if c >= 0x80 || c < ' ' && class[c]&isSpace == 0 || c == 0x7f {
			return true
		}
	}
	return false
}

// undo reads one escape: the rune it stands for, -1 for nothing, and its
// length; 0: there is none.
func undo(t []byte) (rune, int) {
	c := t[0]
	switch {
	case c == '%':
		if len(t) > 2 {
			if n, err := strconv.ParseUint(string(t[1:3]), 16, 8); err == nil {
				return rune(n), 3
			}
		}
	case c == '\\':
		return undoBackslash(t)
	case c == '&':
		return undoEntity(t)
	case c >= 0x80:
		return plainRune(t)
	case c < ' ' && class[c]&isSpace == 0, c == 0x7f:
		return -1, 1
	}
	return 0, 0
}

func undoBackslash(t []byte) (rune, int) {
	if len(t) < 2 {
		return 0, 0
	}
	hex := map[byte]int{'u': 4, 'U': 8, 'x': 2}[t[1]]
	if hex > 0 && len(t) >= 2+hex {
		if n, err := strconv.ParseUint(string(t[2:2+hex]), 16, 32); err == nil {
			return visible(rune(n)), 2 + hex
		}
	}
	switch t[1] {
	case 'n', 'r':
		return '\n', 2
	case 't':
		return '\t', 2
	case '/', '"', '\'', '\\':
		return rune(t[1]), 2
	}
	return 0, 0
}

func undoEntity(t []byte) (rune, int) {
	end := bytes.IndexByte(t[:min(len(t), 10)], ';')
	if end < 2 {
		return 0, 0
	}
	name := string(t[1:end])
	if name[0] == '#' {
		digits, base := name[1:], 10
		if len(digits) > 1 && (digits[0] == 'x' || digits[0] == 'X') {
			digits, base = digits[1:], 16
		}
		if n, err := strconv.ParseUint(digits, base, 21); err == nil {
			return visible(rune(n)), end + 1
		}
		return 0, 0
	}
	if r, ok := map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "nbsp": ' ', "commat": '@',
		"period": '.',
		"colon":  ':', "equals": '=', "hyphen": '-', "dash": '-', "shy": -1, "sol": '/', "lowbar": '_', "num": '#',
		"quest": '?'}[name]; ok {
		return r, end + 1
	}
	return 0, 0
}

// plainRune writes a character outside ASCII as ASCII does, where there is such
// a one; a broken byte hides nothing either.
func plainRune(t []byte) (rune, int) {
	r, size := utf8.DecodeRune(t)
	if r == utf8.RuneError {
		return -1, size
	}
	if p := visible(r); p != r {
		return p, size
	}
	return 0, 0
}

// visible gives the ASCII character that r looks like or means, r if there is
// none, or -1 if it does not show.
func visible(r rune) rune {
	switch {
	case r < 0x80:
		return r
	case r == '\u00a0', r >= 0x2000 && r <= 0x200a, r == 0x202f, r == 0x205f, r == 0x3000:
		return ' '
	case r >= 0x2010 && r <= 0x2015, r == 0x2212, r == 0xfe63:
		return '-'
	case r >= 0xff01 && r <= 0xff5e: // full width
		return r - 0xff01 + '!'
	case r == 0xfe6b:
		return '@'
	case r == 0x00b7, r == 0x2024, r == 0x3002:
		return '.'
	case unicode.Is(unicode.Nd, r):
		return digitOf(r)
	case unicode.In(r, unicode.Cf, unicode.Cc, unicode.Mn, unicode.Variation_Selector), r == utf8.RuneError:
		return -1
	}
	return r
}

// digitOf finds a digit's value: each script has its ten in one row.
func digitOf(r rune) rune {
	for _, span := range unicode.Nd.R16 {
		if r <= rune(span.Hi) {
			return '0' + (r-rune(span.Lo))%10
		}
	}
	for _, span := range unicode.Nd.R32 {
		if r <= rune(span.Hi) {
			return '0' + (r-rune(span.Lo))%10
		}
	}
	return '0'
}
