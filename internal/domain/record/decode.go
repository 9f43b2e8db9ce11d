package record

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// decodePlain reads the JSON that Encode writes, in a fifth of the time that
// encoding/json takes: catching up is mostly decoding. It knows no space
// between tokens, no null, no key that is not a field's name, and says false to
// whatever else it is not sure of; then encoding/json decides. Where it says
// true, both agree.
func decodePlain(b []byte) (r Record, ok bool) {
	p := plain{rest: string(b)}
	fields := fieldsByName()
	v := reflect.ValueOf(&r).Elem()
	if !p.take('{') {
		return r, false
	}
	for {
		key, ok := p.text()
		if !ok || !p.take(':') {
			return r, false
		}
		i, known := fields[key]
		if !known || !p.value(v.Field(i).Addr().Interface()) {
			return r, false
		}
		if p.take('}') {
			return r, p.rest == ""
		}
		if !p.take(',') {
			return r, false
		}
	}
}

// fieldsByName is made once and only read.
var fieldsByName = sync.OnceValue(func() map[string]int {
	t := reflect.TypeFor[Record]()
	m := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		m[name] = i
	}
	return m
})

// plain is what is left to read.
type plain struct{ rest string }

func (p *plain) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// value reads one into a field.
func (p *plain) value(into any) bool {
	switch f := into.(type) {
	case *string:
		s, ok := p.text()
		*f = s
		return ok || p.other(f)
	case *Kind:
		s, ok := p.text()
		*f = Kind(s)
		return ok
	case *time.Time:
		s, ok := p.text()
		return ok && f.UnmarshalText([]byte(s)) == nil
	case *int:
		n, err := strconv.Atoi(p.digits())
		*f = n
		return err == nil
	case *int64:
		n, err := strconv.ParseInt(p.digits(), 10, 64)
		*f = n
		return err == nil
	case *uint64:
		n, err := strconv.ParseUint(p.digits(), 10, 64)
		*f = n
		return err == nil
	case *[]string:
		return p.list(f) || p.other(f)
	case *map[string]string:
		return p.texts(f) || p.other(f)
	case *bool:
		rest, yes := strings.CutPrefix(p.rest, "true")
		*f, p.rest = yes, rest
		return yes
	}
	return p.other(into)
}

// text reads a string without escapes.
func (p *plain) text() (string, bool) {
	if p.rest == "" || p.rest[0] != '"' {
		return "", false
	}
	ascii := true
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			s := p.rest[1:i]
			if !ascii && !utf8.ValidString(s) {
				return "", false
			}
			p.rest = p.rest[i+1:]
			return s, true
		case c == '\\' || c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// list reads strings without escapes; if there is anything else, it reads nothing.
func (p *plain) list(into *[]string) bool {
	q := *p
	out := []string{}
	for ok := q.take('['); ok && !q.take(']'); {
		if len(out) > 0 && !q.take(',') {
			return false
		}
		s, isText := q.text()
		if !isText {
			return false
		}
		out = append(out, s)
	}
	if q.rest == p.rest {
		return false
	}
	*into, *p = out, q
	return true
}

// texts reads an object of strings without escapes; if there is anything else,
// it reads nothing.
func (p *plain) texts(into *map[string]string) bool {
	if *into != nil {
		return false // said twice: encoding/json merges
	}
	q := *p
	out := map[string]string{}
	for ok := q.take('{'); ok && !q.take('}'); {
		if len(out) > 0 && !q.take(',') {
			return false
		}
		key, isKey := q.text()
		if !isKey || !q.take(':') {
			return false
		}
		value, isText := q.text()
		if _, again := out[key]; !isText || again {
			return false
		}
		out[key] = value
	}
	if q.rest == p.rest {
		return false
	}
	*into, *p = out, q
	return true
}

// digits reads a whole number; what it leaves decides whether it was one.
func (p *plain) digits() string {
	i := 0
	if strings.HasPrefix(p.rest, "-") {
		i = 1
	}
	first := i
	for i < len(p.rest) && '0' <= p.rest[i] && p.rest[i] <= '9' {
		i++
	}
	n := p.rest[:i]
	p.rest = p.rest[i:]
	if i-first > 1 && n[first] == '0' {
		return "" // 01 is no number in JSON
	}
	return n
}

// other leaves a string with escapes, a list or an object to encoding/json.
func (p *plain) other(into any) bool {
	end := p.valueEnd()
	if end < 0 || json.Unmarshal([]byte(p.rest[:end]), into) != nil {
		return false
	}
	p.rest = p.rest[end:]
	return true
}

// valueEnd is where the string, list or object at the front ends; -1: it does not.
func (p *plain) valueEnd() int {
	depth, inText := 0, false
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth < 0 {
			return -1
		}
		if depth == 0 && !inText {
			return i + 1
		}
	}
	return -1
}
