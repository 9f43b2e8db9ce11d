package redact

import (
	"bytes"
)

// pairs finds names that say what their value is, followed by it: headers,
// members of JSON objects, forms, key = value.
func (s *scanner) pairs() {
	done := 0
	for i := 0; i < len(s.t); i++ {
		if c := s.t[i]; c != ':' && c != '=' || i < done {
			continue
		}
		key, ok := s.keyBefore(i)
		if !ok || s.r.off[key.Kind] { // what is kept may hold pairs of its own
			continue
		}
		if from, to := s.valueAfter(i+1, key); from < to {
			s.add(key.Kind, key.What, from, to)
			done = to
		}
	}
}

// keyBefore reads the name that ends before the mark at i.
func (s *scanner) keyBefore(i int) (Key, bool) {
	j := i
	for j > 0 && i-j < 4 && (s.t[j-1] == ' ' || s.t[j-1] == '\t' || class[s.t[j-1]]&isQuote != 0 || s.t[j-1] == '\\' ||
		s.t[j-1] == ']') {
		j--
	}
	end := j
	word := func() {
		for j > 0 && end-j < maxKey && (class[s.t[j-1]]&(isWord|isHigh) != 0 || s.t[j-1] == '.') {
			j--
		}
	}
	word()
	if j == end || class[s.t[end-1]]&isJoin != 0 || class[s.t[j]]&(isLower|isUpper|isHigh|isJoin) == 0 {
		return Key{}, false
	}
	if k, ok := lookUpBytes(s.t[j:end], s.r.keys); ok && k.removes() {
		return k, true
	}
	for range 3 { // "medical record number:"
		if j == 0 || s.t[j-1] != ' ' && s.t[j-1] != '\'' {
			return Key{}, false
		}
		j--
		start := j
		word()
		if j == start {
			return Key{}, false
		}
		if k, ok := lookUpBytes(s.t[j:end], s.r.keys); ok && k.removes() {
			return k, true
		}
	}
	return Key{}, false
}

// valueAfter finds the value that begins at i.
func (s *scanner) valueAfter(i int, key Key) (from, to int) {
	t := s.t
	for i < len(t) && (t[i] == ' ' || t[i] == '\t' || t[i] == ':' || t[i] == '=' || t[i] == '>' || t[i] == '\n' &&
		key.Kind != Cookie) {
		i++
	}
	// A quote may itself be escaped, as in JSON within JSON.
	q := i
	for q < len(t) && t[q] == '\\' {
		q++
	}
	switch {
	case i == len(t):
		return i, i
	case q < len(t) && class[t[q]]&isQuote != 0:
		return q + 1, s.quoteEnd(q, q-i)
	case t[i] == '{':
		return i, i // its members are looked at
	case t[i] == '[':
		if isLabel(t[i:min(len(t), i+16)]) || s.labelAt(i) > 0 {
			return i, i
		}
		if end := bytes.IndexByte(t[i:], ']'); end >= 0 {
			return i + 1, i + end
		}
		return i + 1, len(t)
	}
	to = i
	if key.Kind == Cookie || s.headerLike(key) {
		for to < len(t) && t[to] != '\n' && t[to] != '\r' && t[to] != '<' {
			to++
		}
	} else {
		for to < len(t) && class[t[to]]&(isSpace|isQuote) == 0 && bytes.IndexByte([]byte("&,;}])<>\\"), t[to]) < 0 {
			to++
		}
		if key.Kind == Birth { // "dob: 12 March 1980"
			to = max(to, s.dateEnd(i))
		} else if class[t[i]]&isDigit != 0 { // "ssn: 078 05 1120"
			for to+1 < len(t) && (t[to] == ' ' || t[to] == '-' || t[to] == '/') && class[t[to+1]]&isDigit != 0 {
				for to++; to < len(t) && class[t[to]]&isAlnum != 0; to++ {
				}
			}
		}
	}
	if n := s.labelAt(i); n > 0 && i+n >= to {
		return i, i
	}
	switch string(t[i:to]) {
	case "", "null", "true", "false", "nil", "None", "undefined", "0", "[]":
		return i, i
	}
	return i, to
}

// headerLike says that the value goes on to the end of the line: "Authorization: Digest a, b".
func (s *scanner) headerLike(k Key) bool { return k.What == authorization }

const authorization = "an Authorization header"

// labelAt is the length of the label that stands at i; 0: none does.
func (s *scanner) labelAt(i int) int {
	rest := s.t[i:min(len(s.t), i+40)]
	end := bytes.IndexByte(rest, ']')
	if end > 0 && isLabel(rest[:end+1]) {
		return end + 1
	}
	return 0
}

// quoteEnd finds the end of a quoted value whose quote, with so many backslashes
// before it, stands at q.
func (s *scanner) quoteEnd(q, backslashes int) int {
	t, slashes := s.t, 0
	for i := q + 1; i < len(t); i++ {
		switch t[i] {
		case '\\':
			slashes++
			continue
		case t[q]:
			if slashes <= backslashes {
				return i - slashes
			}
		}
		slashes = 0
	}
	return len(t)
}

// urls finds users and passwords in URLs.
func (s *scanner) urls() {
	t := s.t
	for i := 0; ; {
		n := bytes.Index(t[i:], []byte("://"))
		if n < 0 {
			return
		}
		i += n + 3
		end := i
		for end < len(t) && class[t[end]]&(isSpace|isQuote) == 0 && bytes.IndexByte([]byte("<>\\^{}|,;"), t[end]) < 0 {
			end++
		}
		authority := t[i:end]
		if n := bytes.IndexAny(authority, "/?#"); n >= 0 {
			// A password may hold such a mark by mistake; a port holds digits only.
			if colon := bytes.IndexByte(authority[:n], ':'); bytes.IndexByte(authority[:n], '@') >= 0 || colon < 0 ||
				onlyDigits(authority[colon+1:n]) {
				authority = authority[:n]
			}
		}
		if at := bytes.LastIndexByte(authority, '@'); at > 0 {
			s.add(Userinfo, "user and password in a URL", i, i+at)
		}
		i = end
	}
}

func onlyDigits(b []byte) bool {
	for _, c := range b {
		if class[c]&isDigit == 0 {
			return false
		}
	}
	return true
}

// queries finds the values of URLs' queries and fragments.
func (s *scanner) queries() {
	t := s.t
	for i := 0; i < len(t); i++ {
		if t[i] != '?' && t[i] != '#' {
			continue
		}
		for j := i + 1; ; {
			name := j
			for j < len(t) && j-name < maxKey && (class[t[j]]&(isWord|isHigh) != 0 || t[j] == '.' || t[j] == '[' ||
				t[j] == ']' || t[j] == '%') {
				j++
			}
			if j == name || j >= len(t) || t[j] != '=' {
				break
			}
			value := j + 1
			for j = value; j < len(t) && class[t[j]]&isSpace == 0 && bytes.IndexByte([]byte("&;\"'`<>)}\\#"), t[j]) < 0; {
				j++
			}
			if n := s.labelAt(value); n == 0 || value+n < j {
				s.add(Query, "a value in a URL's query", value, j)
			}
			i = j - 1
			if j < len(t) && (t[j] == '&' || t[j] == ';') {
				j++
				if bytes.HasPrefix(t[j:], []byte("amp;")) {
					j += 4
				}
				continue
			}
			break
		}
	}
}

// emails finds addresses around each @.
func (s *scanner) emails() {
	t, floor := s.t, 0
	for i := 0; i < len(t); i++ {
		if t[i] != '@' {
			continue
		}
		from := i
		if from > floor && t[from-1] == '"' { // "a quoted name"@example.com
			if n := bytes.LastIndexByte(t[max(floor, i-66):i-1], '"'); n >= 0 {
				from = max(floor, i-66) + n
			}
		}
		for from > floor && class[t[from-1]]&(isAlnum|isLocal|isHigh) != 0 {
			from--
		}
		to := i + 1
		for to < len(t) && (class[t[to]]&(isAlnum|isHigh) != 0 || t[to] == '-' || t[to] == '.') {
			to++
		}
		for to > i+1 && (t[to-1] == '.' || t[to-1] == '-') {
			to--
		}
		if from < i && to > i+1 {
			s.add(Email, "an e-mail address", from, to)
		}
		floor = i + 1
	}
}

// schemes finds credentials behind the name of an authentication scheme.
func (s *scanner) schemes() {
	t := s.t
	for i := 0; i+6 < len(t); i++ {
		if c := t[i] | 0x20; c != 'b' {
			continue
		}
		n := 0
		switch {
		case bytes.EqualFold(t[i:min(len(t), i+6)], []byte("bearer")):
			n = 6
		case bytes.EqualFold(t[i:i+5], []byte("basic")):
			n = 5
		default:
			continue
		}
		from := i + n
		for from < len(t) && (t[from] == ' ' || t[from] == '\t' || t[from] == ':' || class[t[from]]&isQuote != 0) {
			from++
		}
		if from == i+n {
			continue
		}
		to := from
		for to < len(t) && (class[t[to]]&(isWord|isB64) != 0 || t[to] == '.' || t[to] == '~') {
			to++
		}
		switch string(bytes.ToLower(bytes.TrimRight(t[from:to], ".,"))) {
		case "", "auth", "authentication", "authorization", "token", "tokens", "is", "scheme", "realm", "error", "realm=",
			"error=", "credentials", "required", "was", "or", "and":
			continue
		}
		s.add(Secret, "credentials behind "+string(bytes.ToLower(t[i:i+n])), from, to)
		i = to - 1
	}
}

// pem finds keys and certificates.
func (s *scanner) pem() {
	for i := 0; ; {
		n := bytes.Index(s.t[i:], []byte("-----BEGIN"))
		if n < 0 {
			return
		}
		from, to := i+n, len(s.t)
		if n := bytes.Index(s.t[from:], []byte("-----END")); n >= 0 {
			to = from + n + len("-----END")
			if n := bytes.Index(s.t[to:], []byte("-----")); n >= 0 {
				to += n + len("-----")
			}
		}
		s.add(PrivateKey, "a PEM block", from, to)
		i = to
	}
}
