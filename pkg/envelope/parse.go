package envelope

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
)

// The keys of an event, as bits of a set. Case matters.
const (
	keyID = 1 << iota
	keyType
	keyTimestamp
	keyDeliverBy
	keySubject
	keyData
)

// Parse reads an event as a producer publishes it: a JSON object with exactly
// the keys id, type, timestamp and data, and optionally deliver_by (RFC 3339)
// and subject ({"type","id"}). The returned event's Data aliases b.
//
// Everything else is refused, with a *FieldError for the first fault: other or
// repeated keys, invalid UTF-8, nesting beyond MaxDepth, bytes after the object.
func Parse(b []byte) (Event, error) {
	return parse(b, keyID|keyType|keyTimestamp|keyData)
}

// ParseDraft is Parse for an event whose id or timestamp somebody is about to
// fill in: either may be left out, and is then empty and zero.
func ParseDraft(b []byte) (Event, error) {
	return parse(b, keyType|keyData)
}

func parse(b []byte, required int) (Event, error) {
	p := parser{scanner: scanner{b: b}}
	if err := p.event(); err != nil {
		return Event{}, err
	}
	if err := p.require(required); err != nil {
		return Event{}, err
	}
	return p.e, nil
}

type parser struct {
	scanner
	e    Event
	seen int // set of keys
}

func (p *parser) event() error {
	if p.space(); p.next() != '{' {
		if err := p.value(); err != nil {
			return err
		}
		return &FieldError{"event", "not a JSON object"}
	}
	if err := p.object(p.eventMember); err != nil {
		return err
	}
	if p.space(); p.i < len(p.b) {
		return fieldErrorf("event", "more bytes after the object, at byte %d; publish one event per message", p.i)
	}
	return nil
}

// object passes over an object and hands each member to member, with the
// cursor on the value's first byte; member must pass over the value.
func (p *parser) object(member func(key []byte) error) error {
	if err := p.enter(); err != nil {
		return err
	}
	if p.space(); p.next() == '}' {
		p.leave()
		return nil
	}
	for {
		if p.next() != '"' {
			return p.syntax(p.unexpected("a key in double quotes"))
		}
		key, err := p.text()
		if err != nil {
			return err
		}
		if err := p.colon(); err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
		more, ferr := p.separator('}')
		if ferr != nil {
			return ferr
		}
		if !more {
			p.leave()
			return nil
		}
	}
}

// text passes over a string and returns what it says, which aliases the input
// where no escape has to be undone.
func (p *parser) text() ([]byte, error) {
	start := p.i
	escaped, err := p.string()
	if err != nil {
		return nil, err
	}
	if !escaped {
		return p.b[start+1 : p.i-1], nil
	}
	var decoded string
	if err := json.Unmarshal(p.b[start:p.i], &decoded); err != nil {
		return nil, p.syntaxAt(start, err.Error())
	}
	return []byte(decoded), nil
}

// textOf is text for a member whose value must be a string.
func (p *parser) textOf(field, hint string) (string, error) {
	if p.next() != '"' {
		kind := kindOf(p.next())
		if err := p.value(); err != nil {
			return "", err
		}
		return "", fieldErrorf(field, "%s, not a string%s", kind, hint)
	}
	text, err := p.text()
	return string(text), err
}

func (p *parser) eventMember(key []byte) (err error) {
	switch string(key) {
	case "id":
		if err = p.once(keyID, "id"); err == nil {
			if p.e.ID, err = p.textOf("id", ""); err == nil {
				err = ValidateID(p.e.ID)
			}
		}
	case "type":
		if err = p.once(keyType, "type"); err == nil {
			if p.e.Type, err = p.textOf("type", ""); err == nil {
				err = ValidateType(p.e.Type)
			}
		}
	case "timestamp":
		if err = p.once(keyTimestamp, "timestamp"); err == nil {
			if p.e.RawTimestamp, err = p.textOf("timestamp", ""); err == nil {
				p.e.Timestamp, err = parseTime("timestamp", p.e.RawTimestamp)
				p.e.RawTimestamp = strings.ToUpper(p.e.RawTimestamp) // t and z, which not every receiver reads
			}
		}
	case "deliver_by":
		err = p.deliverBy()
	case "subject":
		err = p.subject()
	case "data":
		err = p.data()
	default:
		err = unknownKey(key)
	}
	return err
}

// deliverBy refuses null: whether it was meant as "no deadline" or is a
// deadline that got lost, only the producer can say.
func (p *parser) deliverBy() error {
	if err := p.once(keyDeliverBy, "deliver_by"); err != nil {
		return err
	}
	text, err := p.textOf("deliver_by", "; leave the key out when there is no deadline")
	if err != nil {
		return err
	}
	p.e.DeliverBy, err = parseTime("deliver_by", text)
	return err
}

func (p *parser) data() error {
	if err := p.once(keyData, "data"); err != nil {
		return err
	}
	start := p.i
	if err := p.value(); err != nil {
		return err
	}
	p.e.Data = p.b[start:p.i:p.i]
	return nil
}

func (p *parser) subject() error {
	if err := p.once(keySubject, "subject"); err != nil {
		return err
	}
	if p.next() != '{' {
		kind := kindOf(p.next())
		if err := p.value(); err != nil {
			return err
		}
		return fieldErrorf("subject", `%s, not an object {"type","id"}; leave the key out when there is no subject`, kind)
	}
	sub, seen := &Subject{}, 0
	err := p.object(func(key []byte) (err error) {
		switch string(key) {
		case "type":
			seen, err = addKey(seen, keyType, "subject.type")
			if err == nil {
				sub.Type, err = p.textOf("subject.type", "")
			}
		case "id":
			seen, err = addKey(seen, keyID, "subject.id")
			if err == nil {
				sub.ID, err = p.textOf("subject.id", "")
			}
		default:
			err = fieldErrorf("subject", "unknown key %s; a subject has type and id", clip(key))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := missing(seen, keyType, "subject.type"); err != nil {
		return err
	}
	if err := missing(seen, keyID, "subject.id"); err != nil {
		return err
	}
	p.e.Subject = sub
	return sub.validate()
}

func (p *parser) once(key int, name string) (err error) {
	p.seen, err = addKey(p.seen, key, name)
	return err
}

func addKey(seen, key int, name string) (int, error) {
	if seen&key != 0 {
		return seen, &FieldError{name, "more than once; receivers would disagree on which one counts"}
	}
	return seen | key, nil
}

func (p *parser) require(keys int) error {
	for _, k := range []struct {
		key  int
		name string
	}{{keyID, "id"}, {keyType, "type"}, {keyTimestamp, "timestamp"}, {keyData, "data"}} {
		if keys&k.key != 0 {
			if err := missing(p.seen, k.key, k.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func missing(seen, key int, name string) error {
	if seen&key != 0 {
		return nil
	}
	if key == keyData {
		return &FieldError{name, "missing; use null for an event without data"}
	}
	return &FieldError{name, "missing"}
}

func unknownKey(key []byte) error {
	return &FieldError{clip(key), "unknown key; put it inside data (were unknown keys passed over, a misspelt " +
		"deliver_by would silently lose the promise)"}
}

// clip makes a producer's key fit to name in an error message.
func clip(key []byte) string {
	const most = 64
	s := string(key)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// kindOf names the kind of the value that starts with c.
func kindOf(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
