// Package redact removes what looks like a secret or a personal identifier from
// text that somebody else wrote, before it is put on record. It errs on the side
// of removing too much: an excerpt is a hint for debugging, not evidence.
//
// Every detector is a scan that visits each byte a bounded number of times: no
// input makes it slow. Text is looked at as it came and as it reads once its
// escapes (JSON, percent, HTML) are undone, up to maxLayers deep, so that an
// escape hides nothing.
package redact

import (
	"bytes"
	"slices"
	"strings"
)

// Kind says what was removed. The names are the ledger's and never change.
type Kind string

// The kinds.
const (
	Secret     Kind = "secret"      // a value whose name or shape says that it is one: password, API key, token
	JWT        Kind = "jwt"         // a JSON web token
	PrivateKey Kind = "private_key" // a PEM block
	Opaque     Kind = "opaque"      // a long random-looking word: a key or token of nobody we know
	Cookie     Kind = "cookie"
	Userinfo   Kind = "userinfo" // user and password of a URL
	Query      Kind = "query"    // a value of a URL's query
	Email      Kind = "email"
	Phone      Kind = "phone"
	Card       Kind = "card"
	IBAN       Kind = "iban"
	NationalID Kind = "national_id" // of a person, by form and check digit
	Number     Kind = "number"      // nine digits or more: an account, a medical record number
	Birth      Kind = "birth"       // a date of birth
	Personal   Kind = "personal"    // a value whose name says that it is about a person, or their health
	Encoded    Kind = "encoded"     // base64 of one of the others
	Payload    Kind = "payload"     // what we sent, sent back
	Own        Kind = "own"         // a value that the endpoint keeps secret, sent back
)

// Kinds are all that the policy knows by itself.
func Kinds() []Kind {
	return []Kind{Secret, JWT, PrivateKey, Opaque, Cookie, Userinfo, Query, Email, Phone, Card, IBAN, NationalID, Number,
		Birth, Personal, Encoded, Payload, Own}
}

// Finding is one piece of a text that MUST NOT be kept.
type Finding struct {
	Kind       Kind
	What       string // for people: "a US social security number"
	Start, End int    // bytes of the text
}

// Counts says how many pieces were removed, by kind. nil is none.
type Counts map[string]int

// Add counts what was found.
func (c *Counts) Add(found []Finding) {
	for _, f := range found {
		c.AddKind(f.Kind, 1)
	}
}

// AddKind counts n more of one kind.
func (c *Counts) AddKind(k Kind, n int) {
	if n == 0 {
		return
	}
	if *c == nil {
		*c = Counts{}
	}
	(*c)[string(k)] += n
}

// Total of all kinds.
func (c Counts) Total() int {
	n := 0
	for _, v := range c {
		n += v
	}
	return n
}

// Redactor carries out a policy. It is immutable and safe for concurrent use.
type Redactor struct {
	off      map[Kind]bool
	keys     map[string]Key // names besides the vocabulary's
	patterns []compiled
	excerpt  int
	headers  map[string]bool
	only     map[string]int // excerpt length by endpoint
	digest   string
}

// Redact returns b with what was found replaced by its kind in brackets, and how
// many pieces were. b is not changed; the result shares its memory when nothing
// was found.
func (r *Redactor) Redact(b []byte) (out []byte, removed int) {
	out, found := r.Clean(b, Known{})
	return out, len(found)
}

// Clean is Redact, also of what is known to be secret, and says what was removed.
func (r *Redactor) Clean(b []byte, known Known) ([]byte, []Finding) {
	found := r.Find(b, known)
	return Replace(b, found), found
}

// Text cleans one line of text that goes on record, such as an error.
func (r *Redactor) Text(s string) (string, Counts) {
	out, found := r.Clean([]byte(s), Known{})
	if len(found) == 0 {
		return s, nil
	}
	var c Counts
	c.Add(found)
	return string(out), c
}

// Replace puts each finding's kind, in brackets, in its place. found MUST be in
// order and not overlap, as Find gives it.
func Replace(b []byte, found []Finding) []byte {
	if len(found) == 0 {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	last := 0
	for _, f := range found {
		out = append(out, b[last:f.Start]...)
		out = append(append(append(out, '['), f.Kind...), ']')
		last = f.End
	}
	return append(out, b[last:]...)
}

// maxLayers is how many times an escape may be escaped.
const maxLayers = 3

// shortest is the length of the shortest text in which the built-in rules can
// find anything.
const shortest = 5

// Find says what of b must not be kept, in order and without overlaps.
func (r *Redactor) Find(b []byte, known Known) []Finding {
	if len(b) < shortest && len(r.patterns) == 0 {
		return nil
	}
	return r.find(b, known, 0)
}

func (r *Redactor) find(b []byte, known Known, depth int) []Finding {
	s := scanner{r: r, t: b, known: known, depth: depth}
	s.scan()
	v := view{text: b}
	for range maxLayers {
		next, changed := v.decode()
		if !changed {
			break
		}
		v = next
		layer := scanner{r: r, t: v.text, known: known, depth: depth}
		layer.scan()
		for _, f := range layer.found {
			f.Start, f.End = v.source(f.Start), v.sourceEnd(f.End)
			s.found = append(s.found, f)
		}
	}
	return merge(s.found)
}

// merge orders findings and joins those that overlap; the one that begins first,
// and of two the longer one, names the whole.
func merge(found []Finding) []Finding {
	if len(found) < 2 {
		return found
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	out := found[:1]
	for _, f := range found[1:] {
		last := &out[len(out)-1]
		if f.Start >= last.End {
			out = append(out, f)
			continue
		}
		last.End = max(last.End, f.End)
	}
	return out
}

// scanner looks at one layer of a text.
type scanner struct {
	r     *Redactor
	t     []byte
	known Known
	has   [256]bool // bytes that occur
	depth int       // of base64 within base64
	found []Finding
}

func (s *scanner) add(k Kind, what string, from, to int) {
	if from >= to || s.r.off[k] || isLabel(s.t[from:to]) {
		return
	}
	s.found = append(s.found, Finding{k, what, from, to})
}

func (s *scanner) scan() {
	digits, longest, run := 0, 0, 0
	for _, c := range s.t {
		s.has[c] = true
		k := class[c]
		if k&isDigit != 0 {
			digits++
		}
		if k&isWord != 0 {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	s.values()
	s.payload()
	if s.has['-'] {
		s.pem()
	}
	if s.has[':'] || s.has['='] {
		s.pairs()
		s.urls()
	}
	if s.has['?'] || s.has['#'] {
		s.queries()
	}
	if s.has['@'] {
		s.emails()
	}
	if (s.has[' '] || s.has['\t'] || s.has[':']) && (s.has['r'] || s.has['R'] || s.has['c'] || s.has['C']) {
		s.schemes()
	}
	if digits >= 6 {
		low := lower(s.t)
		s.births(low)
		s.records(low)
		s.numbers()
	}
	if longest >= 8 || digits >= 6 {
		s.words()
	}
	for _, p := range s.r.patterns {
		for _, m := range p.re.FindAllIndex(s.t, -1) {
			s.add(p.kind, "matches a pattern of the policy", m[0], m[1])
		}
	}
}

// Classes of bytes.
const (
	isDigit = 1 << iota
	isUpper
	isLower
	isJoin  // _ and -
	isB64   // what base64 has besides letters, digits and joins
	isLocal // of an e-mail address before its @, besides letters and digits
	isHigh  // outside ASCII
	isSpace
	isQuote
	isAlnum = isDigit | isUpper | isLower
	isWord  = isAlnum | isJoin
)

var class = classes()

func classes() (t [256]uint16) {
	for c := range 256 {
		b := byte(c)
		switch {
		case b >= '0' && b <= '9':
			t[c] = isDigit
		case b >= 'A' && b <= 'Z':
			t[c] = isUpper
		case b >= 'a' && b <= 'z':
			t[c] = isLower
		case b >= 0x80:
			t[c] = isHigh
		}
		if strings.IndexByte("_-", b) >= 0 {
			t[c] |= isJoin
		}
		if strings.IndexByte("+/=", b) >= 0 {
			t[c] |= isB64
		}
		if strings.IndexByte("._%+'!#$*-", b) >= 0 {
			t[c] |= isLocal
		}
		if strings.IndexByte(" \t\r\n\v\f", b) >= 0 {
			t[c] |= isSpace
		}
		if strings.IndexByte("\"'`", b) >= 0 {
			t[c] |= isQuote
		}
	}
	return t
}

// isLabel says that a text is what Replace wrote, so that redacting twice
// changes nothing.
func isLabel(b []byte) bool {
	if len(b) < 3 || b[0] != '[' {
		return false
	}
	end := bytes.IndexByte(b, ']')
	if end < 0 {
		end = len(b) // a value that ends before the bracket
	} else if end != len(b)-1 {
		return false
	}
	for _, c := range b[1:end] {
		if class[c]&isLower == 0 && c != '_' {
			return false
		}
	}
	return true
}
