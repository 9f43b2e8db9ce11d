package ledger

import (
	"encoding/binary"
	"reflect"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/record"
)

// matcher compares the stored columns of a row with its body without decoding
// it: it reads the JSON that record.Encode writes, in the order in which it
// writes it, and says no to whatever else it is not sure of; then the record is
// decoded. Where it says yes, the decoded record says the same.
type matcher struct {
	fields []matchField
}

type fieldKind int

const (
	isOther fieldKind = iota
	isText
	isWhole
	isBool
	isInstant
	isList
	isMap
)

type matchField struct {
	key      string // with quotes and colon, as in the JSON
	kind     fieldKind
	required bool
	version  bool
	column   columnReader // nil: only derived from body
}

// newMatcher knows the fields of the record by their names in JSON, which are
// the names of the columns too.
func newMatcher(columns map[string]columnReader) *matcher {
	m := &matcher{}
	t := reflect.TypeFor[record.Record]()
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		f := matchField{key: `"` + name + `":`, required: options == "", version: name == "v", column: columns[name], kind: kindOf(t.Field(i).Type)}
		m.fields = append(m.fields, f)
	}
	return m
}

func kindOf(t reflect.Type) fieldKind {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return isInstant
	case t.Kind() == reflect.String:
		return isText
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64, t.Kind() == reflect.Uint64:
		return isWhole
	case t.Kind() == reflect.Bool:
		return isBool
	case t == reflect.TypeFor[[]string]():
		return isList
	case t == reflect.TypeFor[map[string]string]():
		return isMap
	}
	return isOther
}

// row says whether every stored column of row i says what body says. No may also
// mean: cannot tell from here.
func (m *matcher) row(i int, body []byte) bool {
	if len(body) < 2 || body[0] != '{' || body[len(body)-1] != '}' {
		return false
	}
	rest := body[1:]
	next := 0
	for {
		f := m.skipTo(&next, i, rest)
		if f == nil {
			return false
		}
		rest = rest[len(f.key):]
		n := valueEnd(rest, f.kind)
		if n <= 0 || !f.holds(i, rest[:n]) {
			return false
		}
		rest = rest[n:]
		if len(rest) == 1 { // the closing brace
			return m.end(next, i)
		}
		if rest[0] != ',' {
			return false
		}
		rest = rest[1:]
	}
}

// skipTo finds the field whose key comes next; those passed over must be absent
// in their columns too.
func (m *matcher) skipTo(next *int, i int, rest []byte) *matchField {
	for *next < len(m.fields) {
		f := &m.fields[*next]
		*next++
		if len(rest) > len(f.key) && string(rest[:len(f.key)]) == f.key {
			return f
		}
		if f.required || f.column != nil && !f.column.absent(i) {
			return nil
		}
	}
	return nil
}

func (m *matcher) end(next, i int) bool {
	for _, f := range m.fields[next:] {
		if f.required || f.column != nil && !f.column.absent(i) {
			return false
		}
	}
	return true
}

func (f *matchField) holds(i int, raw []byte) bool {
	switch {
	case f.version:
		n, ok := wholeNumber(raw)
		return ok && n >= 1 && n <= record.Version
	case f.required && len(raw) <= 2: // ""
		return false
	case f.column != nil:
		return f.column.plain(i, raw)
	case f.kind == isWhole:
		n, ok := wholeNumber(raw)
		return ok && n >= 0
	case f.kind == isInstant:
		_, ok := plainInstant(raw)
		return ok
	}
	return true // valueEnd has seen that it is one
}

// valueEnd is the length of the value at the front; 0: it is not of that kind,
// or not written as usual.
func valueEnd(b []byte, kind fieldKind) int {
	switch kind {
	case isText, isInstant:
		return textEnd(b)
	case isWhole:
		n := 0
		for n < len(b) && (b[n] == '-' || '0' <= b[n] && b[n] <= '9') {
			n++
		}
		return n
	case isBool:
		if len(b) >= 4 && string(b[:4]) == "true" {
			return 4
		}
	case isList:
		return sequenceEnd(b, '[', ']', false)
	case isMap:
		return sequenceEnd(b, '{', '}', true)
	}
	return 0
}

// textEnd is the length of a valid JSON string.
func textEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		for i+8 <= len(b) && ordinary(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		if i >= len(b) {
			return 0
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			if i++; i >= len(b) {
				return 0
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(b) || !isHex(b[i]) {
						return 0
					}
				}
			default:
				return 0
			}
		}
	}
	return 0
}

// ordinary says that none of eight bytes ends a string, begins an escape or is a
// control character. It may say no of others.
func ordinary(x uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((quote-ones)&^quote|(slash-ones)&^slash|(x-ones*' ')&^x)&tops == 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// sequenceEnd is the length of a list of strings, or of an object of them.
func sequenceEnd(b []byte, open, end byte, pairs bool) int {
	if len(b) < 2 || b[0] != open {
		return 0
	}
	if b[1] == end {
		return 2
	}
	for i := 1; i < len(b); i++ {
		n := textEnd(b[i:])
		if n == 0 {
			return 0
		}
		i += n
		if pairs {
			if i >= len(b) || b[i] != ':' {
				return 0
			}
			if n = textEnd(b[i+1:]); n == 0 {
				return 0
			}
			i += 1 + n
		}
		if i >= len(b) || b[i] == end {
			return min(i+1, len(b))
		}
		if b[i] != ',' {
			return 0
		}
	}
	return 0
}
