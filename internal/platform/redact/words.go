package redact

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

// brand is how the tokens of somebody begin.
type brand struct {
	prefix string
	least  int    // how many characters follow at least
	dots   bool   // what follows may hold dots
	what   string // whose it is
}

// brands by their first byte.
func brands() (t [256][]brand) {
	for _, b := range []brand{
		{"eyJ", 1, true, ""}, {"whsec_", 1, false, "a signing secret"}, {"whsk_", 1, false, "a signing secret"},
		{"AKIA", 12, false, "an AWS access key id"}, {"ASIA", 12, false, "an AWS access key id"},
		{"AIza", 20, false, "a Google API key"},
		{"ya29.", 10, true, "a Google access token"}, {"GOCSPX-", 10, false, "a Google client secret"},
		{"sk_live_", 6, false, "a Stripe key"}, {"sk_test_", 6, false, "a Stripe key"},
		{"rk_live_", 6, false, "a Stripe key"},
		{"rk_test_", 6, false, "a Stripe key"}, {"pk_live_", 6, false, "a Stripe key"},
		{"pk_test_", 6, false, "a Stripe key"},
		{"ghp_", 10, false, "a GitHub token"}, {"gho_", 10, false, "a GitHub token"}, {"ghu_", 10, false, "a GitHub token"},
		{"ghs_", 10, false, "a GitHub token"}, {"ghr_", 10, false, "a GitHub token"},
		{"github_pat_", 10, false, "a GitHub token"},
		{"glpat-", 10, false, "a GitLab token"}, {"xoxb-", 6, false, "a Slack token"}, {"xoxp-", 6, false, "a Slack token"},
		{"xoxa-", 6, false, "a Slack token"}, {"xoxr-", 6, false, "a Slack token"}, {"xoxs-", 6, false, "a Slack token"},
		{"xapp-", 6, false, "a Slack token"},
		{"SG.", 16, true, "a SendGrid key"}, {"npm_", 16, false, "an npm token"}, {"pypi-", 16, false, "a PyPI token"},
		{"dop_v1_", 16, false, "a DigitalOcean token"}, {"shpat_", 16, false, "a Shopify token"},
		{"sq0", 16, false, "a Square token"},
		{"hvs.", 16, true, "a Vault token"}, {"sk-", 16, false, "an API key"}, {"hf_", 16, false, "an API key"},
		{"key-", 20, false, "an API key"},
		{"AGE-SECRET-KEY-", 10, false, "an age key"},
	} {
		t[b.prefix[0]] = append(t[b.prefix[0]], b)
	}
	return t
}

var brandsBy = brands()

// words finds tokens, and identifiers that mix letters and digits.
func (s *scanner) words() {
	t, segment := s.t, 0 // where the segment ends that was looked at last
	for i := 0; i < len(t); {
		if class[t[i]]&isWord == 0 {
			i++
			continue
		}
		from := i
		var seen uint16
		for i < len(t) && class[t[i]]&isWord != 0 {
			seen |= class[t[i]]
			i++
		}
		if from >= segment {
			segment = s.segmentEnd(i)
			s.segment(from, segment)
		}
		switch {
		case i-from >= 8:
			s.word(from, i, seen)
		case i < len(t) && t[i] == '.' && s.branded(from, i):
		case seen&isUpper != 0 && seen&isDigit != 0:
			s.iban(from)
		}
	}
}

// segmentEnd is how far base64 may go on, its padding included.
func (s *scanner) segmentEnd(i int) int {
	for i < len(s.t) && class[s.t[i]]&(isWord|isB64) != 0 && s.t[i] != '=' {
		i++
	}
	for range 2 {
		if i < len(s.t) && s.t[i] == '=' {
			i++
		}
	}
	return i
}

// segment judges what may be base64 as a whole.
func (s *scanner) segment(from, to int) {
	w := s.t[from:to]
	if len(w) >= 40 && bytes.ContainsAny(w, "+/") && bytes.Count(w, []byte("/"))*10 <= len(w) && random(w, 40) {
		s.add(Opaque, "a long random-looking word", from, to)
		return
	}
	if len(w) >= 8 {
		s.base64(from, to)
	}
}

// word judges one word.
func (s *scanner) word(from, to int, seen uint16) {
	t := s.t
	if s.branded(from, to) {
		return
	}
	if seen&isUpper != 0 && seen&isDigit != 0 {
		s.iban(from)
		s.taxCodes(from, to)
	}
	if to-from < 20 || isUUID(t, from) || reference(t[from:to]) {
		return
	}
	if random(t[from:to], 20) || longest(t[from:to]) >= 32 && random(t[from:to], 32) {
		s.add(Opaque, "a long random-looking word", from, to)
	}
}

// branded finds tokens that begin in the word from..to, wherever that is.
func (s *scanner) branded(from, to int) bool {
	t := s.t
	for i := from; i < to; i++ {
		for _, b := range brandsBy[t[i]] {
			if !bytes.HasPrefix(t[i:], []byte(b.prefix)) {
				continue
			}
			end := i + len(b.prefix)
			for end < len(t) && (class[t[end]]&isWord != 0 || class[t[end]]&isB64 != 0 && b.prefix != "eyJ" || b.dots &&
				t[end] == '.') {
				end++
			}
			if end-i-len(b.prefix) < b.least {
				continue
			}
			if b.what == "" {
				if bytes.IndexByte(t[i:end], '.') < 0 && end < len(t) {
					continue // the start of some base64; it may be looked into
				}
				s.add(JWT, "a JSON web token", i, end)
			} else {
				s.add(Secret, b.what, i, end)
			}
			return true
		}
	}
	return false
}

// reference says that a word is an id as this product makes them, which is kept:
// evt_ and 26 characters, or those 26 alone.
func reference(w []byte) bool {
	i := bytes.IndexByte(w, '_')
	if i > 6 || len(w)-i-1 != 26 {
		return false
	}
	for _, c := range w[i+1:] {
		if class[c]&(isUpper|isDigit) == 0 {
			return false
		}
	}
	return w[i+1] <= '7'
}

// random says that somewhere in a word so many characters in a row change
// between upper case, lower case and digits as words of people do not.
func random(w []byte, least int) bool {
	if len(w) < least {
		return false
	}
	var in window
	for i := range w {
		in.count(w, i, 1)
		if i >= least {
			in.count(w, i-least, -1)
		}
		if i >= least-1 && in.random(least) {
			return true
		}
	}
	return false
}

// window counts what is in a piece of a word.
type window struct{ upper, lower, digits, changes int }

func (x *window) count(w []byte, i, by int) {
	k := class[w[i]]
	switch {
	case k&isUpper != 0:
		x.upper += by
	case k&isLower != 0:
		x.lower += by
	case k&isDigit != 0:
		x.digits += by
	}
	if i == 0 {
		return
	}
	// A capital letter begins a word: that is no change.
	if last := class[w[i-1]]; last&isAlnum != 0 && k&isAlnum != 0 && last&isAlnum != k&isAlnum &&
		!(last&isUpper != 0 && k&isLower != 0) {
		x.changes += by
	}
}

func (x *window) random(least int) bool {
	if x.upper+x.lower == 0 {
		return false
	}
	single := least >= 32 // of one case: hexadecimal, base32
	if x.digits > 0 && (single || x.upper > 0 && x.lower > 0) {
		return x.changes*6 >= least
	}
	return x.digits == 0 && x.changes*3 >= least
}

// longest is the length of the longest part without joins.
func longest(w []byte) int {
	most, n := 0, 0
	for _, c := range w {
		if class[c]&isAlnum == 0 {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

// iban finds an account number that begins the word, in groups or not.
func (s *scanner) iban(from int) {
	t := s.t
	if from+15 > len(t) || class[t[from]]&isUpper == 0 || class[t[from+1]]&isUpper == 0 || !onlyDigits(t[from+2:from+4]) {
		return
	}
	var buf [34]byte
	n, end := 0, 0
	for i := from; i < len(t) && n < len(buf); i++ {
		c := t[i]
		if (c == ' ' || c == '-') && i+1 < len(t) && class[t[i+1]]&(isUpper|isDigit) != 0 {
			continue
		}
		if class[c]&(isUpper|isDigit) == 0 {
			break
		}
		buf[n] = c
		n++
		if n >= 15 && iban(buf[:n]) {
			end = i + 1
		}
	}
	if end > 0 {
		s.add(IBAN, "an account number", from, end)
	}
}

// taxCodes finds identifiers of upper-case letters and digits, anywhere in a word.
func (s *scanner) taxCodes(from, to int) {
	t := s.t
	for i := from; i+10 <= to; i++ {
		if class[t[i]]&isUpper == 0 {
			continue
		}
		if i+16 <= to && codiceFiscale(t[i:i+16]) {
			s.add(NationalID, "Italian codice fiscale", i, i+16)
		}
		if shaped(t[i:], "LLLLLDDDDL") && bytes.IndexByte([]byte("ABCFGHLJPTK"), t[i+3]) >= 0 {
			s.add(NationalID, "Indian PAN", i, i+10)
		}
		if i+18 <= to && shaped(t[i:], "LLLLDDDDDDLLLLLLXD") && (t[i+10] == 'H' || t[i+10] == 'M') {
			s.add(NationalID, "Mexican CURP", i, i+18)
		}
	}
}

// shaped compares with a form: L an upper-case letter, D a digit, X either.
func shaped(t []byte, form string) bool {
	if len(t) < len(form) {
		return false
	}
	for i := range len(form) {
		k := class[t[i]]
		switch form[i] {
		case 'L':
			if k&isUpper == 0 {
				return false
			}
		case 'D':
			if k&isDigit == 0 {
				return false
			}
		default:
			if k&(isUpper|isDigit) == 0 {
				return false
			}
		}
	}
	return true
}

// base64 looks into what may be text in base64.
func (s *scanner) base64(from, to int) {
	if s.depth > 1 {
		return
	}
	w := bytes.TrimRight(s.t[from:to], "=")
	if len(w) < 8 || len(w)%4 == 1 {
		return
	}
	enc := base64.RawStdEncoding
	if bytes.IndexByte(w, '-') >= 0 || bytes.IndexByte(w, '_') >= 0 {
		enc = base64.RawURLEncoding
	}
	// The first characters say whether it is text at all.
	var head [6]byte
	if n, err := enc.Decode(head[:], w[:8]); err != nil || !printable(head[:n]) {
		return
	}
	text, err := enc.DecodeString(string(w))
	if err != nil || !utf8.Valid(text) || !printable(text) {
		return
	}
	if colon := bytes.IndexByte(text, ':'); colon > 0 && colon < len(text)-1 && bytes.IndexByte(text, ' ') < 0 &&
		!bytes.HasPrefix(text, []byte("{")) {
		s.add(Secret, "base64 of a user and a password", from, to)
		return
	}
	if len(s.r.find(text, s.known, s.depth+1)) > 0 {
		s.add(Encoded, "base64 that holds what must not be kept", from, to)
	}
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && class[c]&isSpace == 0 || c == 0x7f {
			return false
		}
	}
	return true
}
