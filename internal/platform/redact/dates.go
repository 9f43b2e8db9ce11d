package redact

import "bytes"

// lower makes ASCII letters small; the rest stays, and so does every position.
func lower(t []byte) []byte {
	out := make([]byte, len(t))
	for i, c := range t {
		if class[c]&isUpper != 0 {
			c |= 0x20
		}
		out[i] = c
	}
	return out
}

// births finds dates behind words that say that somebody was born: "born on 12
// March 1980". Names of members ("birthdate") are pairs.
func (s *scanner) births(lower []byte) {
	for _, word := range []string{"born", "birth", "dob", "geboren", "geb.", "nacid", "nato il", "nata il", "nascid"} {
		s.behind(lower, word, 24, func(i int) int { return s.dateEnd(i) }, Birth, "a date of birth")
	}
	if s.has[0xc3] {
		s.behind(lower, "né", 24, func(i int) int { return s.dateEnd(i) }, Birth, "a date of birth")
	}
}

// records finds numbers behind words that say whose they are: "MRN 4711123".
func (s *scanner) records(lower []byte) {
	for _, word := range []string{"mrn", "medical record", "patient", "chart no", "fallnummer"} {
		s.behind(lower, word, 16, func(i int) int {
			end := i
			for end < len(s.t) && class[s.t[end]]&isWord != 0 {
				end++
			}
			if end-i < 5 {
				return i
			}
			return end
		}, Personal, "an identifier of a patient")
	}
}

// behind finds the first digit within so many bytes of word, and what end says
// belongs to it.
func (s *scanner) behind(lower []byte, word string, within int, end func(int) int, k Kind, what string) {
	for i := 0; ; {
		n := bytes.Index(lower[i:], []byte(word))
		if n < 0 {
			return
		}
		i += n + len(word)
		for j := i; j < min(len(s.t), i+within) && s.t[j] != '\n'; j++ {
			if class[s.t[j]]&isDigit != 0 {
				if to := end(j); to > j {
					s.add(k, what, j, to)
				}
				break
			}
		}
	}
}

// dateEnd is where the date ends that begins at i; i: none does.
func (s *scanner) dateEnd(i int) int {
	t, digits, end := s.t, 0, i
	for j := i; j < len(t) && j-i < 28; j++ {
		c := t[j]
		switch {
		case class[c]&isDigit != 0:
			digits++
			end = j + 1
		case class[c]&(isLower|isUpper|isHigh) != 0, c == ' ', c == '.', c == '/', c == '-', c == ',', c == '\'':
			if digits >= 8 || digits >= 4 && (c == ' ' || c == ',') && isYear(t[i:end]) {
				return end
			}
		default:
			j = len(t)
		}
	}
	if digits >= 4 {
		return end
	}
	return i
}

// isYear says that a text ends with a year.
func isYear(t []byte) bool {
	n := len(t)
	return n > 4 && onlyDigits(t[n-4:]) && (t[n-4] == '1' || t[n-4] == '2')
}
