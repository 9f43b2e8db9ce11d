package redact

import "bytes"

// fewest is from how many digits on a number is removed, whatever it may be.
const fewest = 9

// number is a run of digits in groups.
type number struct {
	digits     [40]byte // the first of them, as values
	n          int      // how many there are
	start, end int
	groups     [8]int // lengths of the first groups
	ngroups    int
	corsica    byte // the letter of a French number, else 0
}

// separator may stand between groups of digits.
func separator(c byte) bool {
	switch c {
	case ' ', '\t', '.', '-', '/', '(', ')', '+', '_':
		return true
	}
	return false
}

// numbers finds identifiers that are made of digits, whatever stands between
// their groups.
func (s *scanner) numbers() {
	for i := 0; i < len(s.t); {
		if class[s.t[i]]&isDigit == 0 {
			i++
			continue
		}
		if n := s.harmless(i); n > 0 {
			i += n
			continue
		}
		num := s.number(i)
		s.judge(&num)
		i = num.end
	}
}

// number reads the run that begins at i.
func (s *scanner) number(i int) number {
	t := s.t
	num := number{start: i, end: i + 1}
	seps := 0
	for j := i; j < len(t); j++ {
		c := t[j]
		switch {
		case class[c]&isDigit != 0:
			if seps > 0 && s.harmless(j) > 0 {
				return num
			}
			if seps > 0 || j == i {
				if num.ngroups++; num.ngroups <= len(num.groups) {
					num.groups[num.ngroups-1] = 0
				}
			}
			if num.ngroups <= len(num.groups) {
				num.groups[num.ngroups-1]++
			}
			if num.n < len(num.digits) {
				num.digits[num.n] = c - '0'
			}
			num.n++
			num.end, seps = j+1, 0
		case num.n >= 6 && t[j-1] == '2' && num.corsica == 0 && (c|0x20 == 'a' || c|0x20 == 'b') && j+1 < len(t) &&
			(class[t[j+1]]&isDigit != 0 || separator(t[j+1])):
			num.corsica = c | 0x20
		case separator(c) && seps < 2:
			seps++
		default:
			return num
		}
	}
	return num
}

// harmless is the length of a date, time or IP address that begins at i; 0:
// none does. They would look like numbers of people otherwise.
func (s *scanner) harmless(i int) int {
	t := s.t
	if n := isoDate(t[i:]); n > 0 {
		return n
	}
	if i > 0 && (class[t[i-1]]&isAlnum != 0 || t[i-1] == '.' || t[i-1] == '-') {
		return 0
	}
	return ipv4(t[i:])
}

// isoDate reads 2026-11-02 and what may follow: T or a space, 10:04:05, up to
// microseconds, or to nanoseconds before a zone (nine digits alone might be anything).
func isoDate(t []byte) int {
	if len(t) < 10 || t[4] != '-' || t[7] != '-' || t[0] != '1' && t[0] != '2' || t[1] != '9' && t[1] != '0' ||
		!onlyDigits(t[:4]) || !onlyDigits(t[5:7]) || !onlyDigits(t[8:10]) {
		return 0
	}
	if m, d := two(t[5:]), two(t[8:]); m < 1 || m > 12 || d < 1 || d > 31 {
		return 0
	}
	n := 10
	if len(t) > n && class[t[n]]&isDigit != 0 {
		return 0
	}
	if len(t) < 19 || t[10] != 'T' && t[10] != ' ' || t[13] != ':' || t[16] != ':' ||
		!onlyDigits(t[11:13]) || !onlyDigits(t[14:16]) || !onlyDigits(t[17:19]) {
		return n
	}
	n = 19
	if len(t) > n && t[n] == '.' {
		f := n + 1
		for f < len(t) && class[t[f]]&isDigit != 0 {
			f++
		}
		if f-n-1 <= 6 || f-n-1 <= 9 && zone(t[f:]) {
			n = f
		}
	}
	if len(t) > n && class[t[n]]&isDigit != 0 {
		return 0
	}
	return n
}

// zone says that a text begins with a time zone: Z, +01:00, of which a form makes
// a space of the plus.
func zone(t []byte) bool {
	if len(t) > 0 && t[0]|0x20 == 'z' {
		return len(t) == 1 || class[t[1]]&isAlnum == 0
	}
	return len(t) >= 6 && (t[0] == '+' || t[0] == '-' || t[0] == ' ') && onlyDigits(t[1:3]) && t[3] == ':' &&
		onlyDigits(t[4:6]) && (len(t) == 6 || class[t[6]]&isAlnum == 0)
}

func two(t []byte) int { return int(t[0]-'0')*10 + int(t[1]-'0') }

func ipv4(t []byte) int {
	i := 0
	for octet := range 4 {
		from, v := i, 0
		for i < len(t) && i-from < 3 && class[t[i]]&isDigit != 0 {
			v = v*10 + int(t[i]-'0')
			i++
		}
		if i == from || v > 255 || i-from > 1 && t[from] == '0' {
			return 0
		}
		if octet == 3 {
			break
		}
		if i >= len(t) || t[i] != '.' {
			return 0
		}
		i++
	}
	if i < len(t) && (class[t[i]]&isAlnum != 0 || separator(t[i]) && t[i] != ' ' && t[i] != ')' && t[i] != '/' &&
		(t[i] != '.' || i+1 < len(t) && class[t[i+1]]&isDigit != 0)) {
		return 0
	}
	return i
}

// judge says what a number is, and whether it may stay.
func (s *scanner) judge(num *number) {
	t := s.t
	before, after := byte(' '), byte(' ')
	if num.start > 0 {
		before = t[num.start-1]
	}
	if num.end < len(t) {
		after = t[num.end]
	}
	if num.corsica != 0 {
		if num.n >= 12 {
			s.add(NationalID, "French NIR", num.start, num.end)
			return
		}
		num.corsica = 0
	}
	if s.lettered(num, before, after) {
		return
	}
	if num.ngroups > 1 && num.n < fewest+fewest {
		if last := s.lastGroup(num); s.lettered(&last, t[last.start-1], after) && num.n < fewest {
			return
		}
	}
	if num.n < fewest {
		if num.n >= 7 && (before == '+' || before == '(' && num.ngroups > 1) {
			s.add(Phone, "a phone number", num.start-1, num.end)
		}
		return
	}
	if s.inUUID(num.start, num.end) {
		return
	}
	if before == '+' || before == '(' {
		s.add(Phone, "a phone number", num.start-1, num.end)
		return
	}
	kind, what := Number, "a number of nine digits or more"
	if num.n <= 19 {
		kind, what = identify(num)
	}
	s.add(kind, what, num.start, num.end)
}

// lastGroup is the end of a number behind its last separator: what stands
// before may be something else.
func (s *scanner) lastGroup(num *number) number {
	last := number{start: num.end, end: num.end}
	for last.start > num.start && class[s.t[last.start-1]]&isDigit != 0 {
		last.start--
	}
	last.n = last.end - last.start
	for i := range min(last.n, len(last.digits)) {
		last.digits[i] = s.t[last.start+i] - '0'
	}
	return last
}

// lettered finds identifiers with a letter before or behind their digits.
func (s *scanner) lettered(num *number, before, after byte) bool {
	d, upper := num.digits[:min(num.n, len(num.digits))], func(c byte) byte {
		if class[c]&isLower != 0 {
			return c - 0x20
		}
		return c
	}
	end := num.end
	if after == '-' || after == ' ' { // 12345678-Z
		if end+1 < len(s.t) && (end+2 >= len(s.t) || class[s.t[end+2]]&isAlnum == 0) {
			after, end = s.t[end+1], end+1
		}
	}
	a := upper(after)
	const dni, hetu, pps = "TRWAGMYFPDXBNJZSQVHLCKE", "0123456789ABCDEFHJKLMNPRSTUVWXY", "WABCDEFGHIJKLMNOPQRSTUV"
	switch {
	case num.n == 9 && class[before]&isUpper != 0 && kvnr(before, d):
		s.add(NationalID, "German KVNR", num.start-1, num.end)
	case num.n == 8 && class[a]&isUpper != 0 && dni[value(d)%23] == a:
		s.add(NationalID, "Spanish DNI", num.start, end+1)
	case num.n == 7 && upper(before) >= 'X' && upper(before) <= 'Z' && class[a]&isUpper != 0 &&
		dni[(int(upper(before)-'X')*10_000_000+value(d))%23] == a:
		s.add(NationalID, "Spanish NIE", num.start-1, end+1)
	case num.n == 7 && class[a]&isUpper != 0 && irish(d, s.t[end:], pps):
		s.add(NationalID, "Irish PPS number", num.start, min(len(s.t), end+2))
	case num.n == 6 && class[a]&isUpper != 0 && a <= 'D' && num.start >= 2 && nino(s.t[:num.start]) > 0:
		s.add(NationalID, "UK National Insurance number", num.start-nino(s.t[:num.start]), end+1)
	case num.n == 6 && num.end+5 <= len(s.t) && onlyDigits(s.t[num.end+1:num.end+4]) && class[s.t[num.end]]&isUpper != 0:
		serial := s.t[num.end+1 : num.end+4]
		v := value(d)*1000 + int(serial[0]-'0')*100 + two(serial[1:])
		if hetu[v%31] != upper(s.t[num.end+4]) {
			return false
		}
		s.add(NationalID, "Finnish HETU", num.start, num.end+5)
	default:
		return false
	}
	return true
}

func value(digits []byte) int {
	v := 0
	for _, d := range digits {
		v = v*10 + int(d)
	}
	return v
}

func kvnr(letter byte, d []byte) bool {
	sum := 0
	n := int(letter - 'A' + 1)
	for i, v := range append([]byte{byte(n / 10), byte(n % 10)}, d[:8]...) {
		p := int(v) * (1 + i%2)
		sum += p/10 + p%10
	}
	return sum%10 == int(d[8])
}

func irish(d []byte, behind []byte, letters string) bool {
	sum := 0
	for i, v := range d {
		sum += int(v) * (8 - i)
	}
	if len(behind) > 1 && class[behind[1]]&isUpper != 0 && behind[1] <= 'W' {
		sum += int(behind[1]-'A'+1) * 9
	}
	return letters[sum%23] == behind[0]&^0x20
}

// nino is how much of the end of t are the two letters of a UK National
// Insurance number, a space included; 0: they are none.
func nino(t []byte) int {
	n := 2
	if t[len(t)-1] == ' ' {
		n++
	}
	if len(t) < n {
		return 0
	}
	p := t[len(t)-n:]
	if class[p[0]]&isUpper == 0 || class[p[1]]&isUpper == 0 || bytes.IndexByte([]byte("DFIQUV"), p[0]) >= 0 &&
		p[0] != 'Q' || bytes.IndexByte([]byte("DFIQUVO"), p[1]) >= 0 && p[1] != 'Q' {
		return 0
	}
	return n
}

// inUUID says whether the piece is part of a UUID: those are references.
func (s *scanner) inUUID(start, end int) bool {
	from := start
	for from > 0 && start-from < 36 && class[s.t[from-1]]&isWord != 0 {
		from--
	}
	return isUUID(s.t, from) && end <= from+36
}

func isUUID(t []byte, at int) bool {
	if at+36 > len(t) || at+36 < len(t) && class[t[at+36]]&isWord != 0 {
		return false
	}
	for i, c := range t[at : at+36] {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if class[c]&isDigit == 0 && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}
