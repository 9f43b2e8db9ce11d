package ledger

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// matcher compares the stored columns of a row with its body without decoding
// it: it reads the JSON that record.Encode writes, in the order in which it
// writes it, and says no to whatever else it is not sure of; then the record is
// decoded. Where it says yes, the decoded record says the same.
type matcher struct {
	fields []matchField
	// follows says which field came behind field n-1 last time: mostly it does again.
	follows []int
	// held are the fields that a body cannot leave out without a look at row i:
	// those of columns that hold anything, and those that every record has.
	held []int
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
		f := matchField{key: `"` + name + `":`, required: options == "", version: name == "v", column: columns[name],
			kind: kindOf(t.Field(i).Type)}
		m.fields = append(m.fields, f)
		if f.required || f.column != nil {
			m.held = append(m.held, i)
		}
	}
	m.follows = make([]int, len(m.fields)+1)
	return m
}

// begin looks at the columns of a block. In most of them most columns hold
// nothing at all, and then no row needs to be asked.
func (m *matcher) begin() {
	m.held = m.held[:0]
	for i, f := range m.fields {
		if f.required || f.column != nil && !f.column.empty() {
			m.held = append(m.held, i)
		}
	}
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
	if len(body) == 0 || body[0] != '{' {
		return false
	}
	rest, held := body[1:], m.held
	for next := 0; ; next++ {
		if next = m.find(next, rest); next < 0 {
			return false
		}
		for ; len(held) > 0 && held[0] <= next; held = held[1:] {
			if held[0] < next && !m.fields[held[0]].absent(i) {
				return false
			}
		}
		f := &m.fields[next]
		rest = rest[len(f.key):]
		n := f.front(i, rest)
		if n <= 0 || n >= len(rest) {
			return false
		}
		switch end := rest[n]; {
		case end == '}' && n == len(rest)-1:
			return m.allAbsent(held, i)
		case end != ',':
			return false
		}
		rest = rest[n+1:]
	}
}

// find says which field's key comes next, from field first on; -1: none's.
func (m *matcher) find(first int, rest []byte) int {
	if n := m.follows[first]; n >= first && n < len(m.fields) && m.fields[n].leads(rest) {
		return n
	}
	for n := first; n < len(m.fields); n++ {
		if m.fields[n].leads(rest) {
			m.follows[first] = n
			return n
		}
	}
	return -1
}

func (m *matcher) allAbsent(fields []int, i int) bool {
	for _, n := range fields {
		if !m.fields[n].absent(i) {
			return false
		}
	}
	return true
}

func (f *matchField) leads(rest []byte) bool {
	return len(rest) > len(f.key) && string(rest[:len(f.key)]) == f.key
}

// absent says whether a body may lack the field, going by what row i holds.
func (f *matchField) absent(i int) bool { return !f.required && f.column.absent(i) }

// front is the length of the value at the front, if it is what row i holds, or
// if there is no column, what can be decoded. 0: it is not, or cannot be told.
func (f *matchField) front(i int, rest []byte) int {
	switch {
	case f.column != nil:
		n := f.column.front(i, rest)
		if f.required && n <= len(`""`) {
			return 0
		}
		return n
	case f.kind == isWhole:
		value, n := frontNumber(rest)
		if f.version && (value < 1 || value > record.Version) {
			return 0
		}
		return n
	case f.kind == isInstant:
		_, n := frontInstant(rest)
		return n
	case f.kind == isText:
		return textEnd(rest)
	case f.kind == isBool && bytes.HasPrefix(rest, []byte("true")):
		return len("true")
	case f.kind == isList:
		return sequenceEnd(rest, '[', ']', false)
	case f.kind == isMap:
		return sequenceEnd(rest, '{', '}', true)
	}
	return 0
}

// textEnd is the length of a valid JSON string at the front; 0: there is none.
func textEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; ; i++ {
		if i += ordinary(b[i:]); i >= len(b) {
			return 0
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			n := escapeEnd(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		default: // a control character
			return 0
		}
	}
}

// escapeEnd is the length of a valid escape at the front; 0: there is none.
func escapeEnd(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]) {
			return 6
		}
	}
	return 0
}

// ordinary counts the bytes at the front that neither end a string nor begin an
// escape and are no control characters.
func ordinary(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if odd := special(binary.LittleEndian.Uint64(b[i:])); odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

// isLiteral says whether text between quotes is JSON that stands for just that text.
func isLiteral(text []byte) bool { return ordinary(text) == len(text) && utf8.Valid(text) }

const ones, tops = 0x0101010101010101, 0x8080808080808080

// special sets the top bit of the first of eight bytes that is a quote, a
// backslash or a control character; of those behind it, it may set any. 0: none is.
func special(x uint64) uint64 {
	quote, slash := x^ones*'"', x^ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*' ')&^x) & tops
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
