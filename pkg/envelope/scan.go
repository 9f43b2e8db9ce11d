package envelope

import (
	"fmt"
	"unicode/utf8"
)

// scanner checks JSON (RFC 8259) in one pass: grammar, UTF-8 and depth. It
// builds nothing. encoding/json would check the same, but takes unknown
// spellings of keys, replaces invalid UTF-8 silently and lets depth run to
// 10,000.
type scanner struct {
	b     []byte
	i     int // the next byte to read
	depth int // arrays and objects open now
}

// syntax is the error for what is wrong at the current byte.
func (s *scanner) syntax(what string) *FieldError {
	return s.syntaxAt(s.i, what)
}

func (s *scanner) syntaxAt(offset int, what string) *FieldError {
	if offset >= len(s.b) {
		what = "unexpected end"
	}
	return fieldErrorf("event", "not valid JSON at byte %d: %s", offset, what)
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// next is the byte at the cursor, or 0 at the end. A NUL byte is no legal start
// of anything, so the two need not be told apart.
func (s *scanner) next() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value passes over one value of any kind. The cursor must be on its first byte.
func (s *scanner) value() *FieldError {
	switch c := s.next(); {
	case c == '"':
		return s.skipString()
	case c == '{' || c == '[':
		return s.container(c)
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	}
	return s.syntax(s.unexpected("a value"))
}

func (s *scanner) container(open byte) *FieldError {
	if err := s.enter(); err != nil {
		return err
	}
	closing := open + 2 // '[' and ']', '{' and '}' are two apart
	s.space()
	if s.next() == closing {
		s.leave()
		return nil
	}
	for {
		if open == '{' {
			if err := s.key(); err != nil {
				return err
			}
		}
		if err := s.value(); err != nil {
			return err
		}
		more, err := s.separator(closing)
		if err != nil {
			return err
		}
		if !more {
			s.leave()
			return nil
		}
	}
}

// enter passes an opening bracket; leave passes the closing one.
func (s *scanner) enter() *FieldError {
	if s.depth++; s.depth > MaxDepth {
		return fieldErrorf("event", "nested deeper than %d levels at byte %d", MaxDepth, s.i)
	}
	s.i++
	return nil
}

func (s *scanner) leave() {
	s.depth--
	s.i++
}

// key passes over a member's name and colon, up to the value's first byte.
func (s *scanner) key() *FieldError {
	if s.next() != '"' {
		return s.syntax(s.unexpected("a key in double quotes"))
	}
	if err := s.skipString(); err != nil {
		return err
	}
	return s.colon()
}

func (s *scanner) colon() *FieldError {
	if s.space(); s.next() != ':' {
		return s.syntax(s.unexpected("':'"))
	}
	s.i++
	s.space()
	return nil
}

// separator passes a comma and says true, or stops on the closing bracket and
// says false.
func (s *scanner) separator(closing byte) (more bool, err *FieldError) {
	s.space()
	switch s.next() {
	case ',':
		s.i++
		s.space()
		return true, nil
	case closing:
		return false, nil
	}
	return false, s.syntax(s.unexpected(fmt.Sprintf("',' or '%c'", closing)))
}

// skipString passes over a string, both quotes included.
func (s *scanner) skipString() *FieldError {
	_, err := s.string()
	return err
}

// string passes over a string and says whether it holds a backslash, in which
// case its text differs from its bytes.
func (s *scanner) string() (escaped bool, err *FieldError) {
	s.i++
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return escaped, err
			}
		case c < ' ':
			return escaped, s.syntax(fmt.Sprintf("control character 0x%02x inside a string; escape it", c))
		case c < utf8.RuneSelf:
			s.i++
		default:
			r, size := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && size == 1 {
				return escaped, s.invalidUTF8()
			}
			s.i += size
		}
	}
	return escaped, s.syntax("")
}

func (s *scanner) invalidUTF8() *FieldError {
	return fieldErrorf("event", "invalid UTF-8 (0x%02x) at byte %d; receivers that decode the body as text could not "+
		"verify its signature", s.b[s.i], s.i)
}

func (s *scanner) escape() *FieldError {
	s.i++
	switch s.next() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		s.i++
		for range 4 {
			if !isHex(s.next()) {
				return s.syntax(s.unexpected("four hexadecimal digits after \\u"))
			}
			s.i++
		}
		return nil
	}
	return s.syntax(s.unexpected("a known escape after the backslash"))
}

func (s *scanner) number() *FieldError {
	if s.next() == '-' {
		s.i++
	}
	switch c := s.next(); {
	case c == '0':
		s.i++
	case '1' <= c && c <= '9':
		s.digits()
	default:
		return s.syntax(s.unexpected("a digit"))
	}
	if s.next() == '.' {
		s.i++
		if !s.digits() {
			return s.syntax(s.unexpected("a digit after the decimal point"))
		}
	}
	if c := s.next(); c == 'e' || c == 'E' {
		s.i++
		if c := s.next(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.syntax(s.unexpected("a digit in the exponent"))
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

func (s *scanner) literal(word string) *FieldError {
	for i := range len(word) {
		if s.next() != word[i] {
			return s.syntax(s.unexpected(word))
		}
		s.i++
	}
	return nil
}

// unexpected says what was found where something else should be.
func (s *scanner) unexpected(want string) string {
	if s.i >= len(s.b) {
		return "unexpected end"
	}
	return describe(string(s.b[s.i:min(len(s.b), s.i+utf8.UTFMax)])) + " where " + want + " should be"
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
