package egress

import "strings"

const upperHex = "0123456789ABCDEF"

// EscapeURL percent-encodes what the path and query of a URL may not hold as they
// are (RFC 3986, section 3): bytes beyond ASCII, and " < > ^ ` { | }. Some servers
// answer 400 to any of them. Whoever decodes it reads the same as before.
//
// net/url leaves a query as it is, and writes a path that has both an escape and
// such a byte anew, in which %2F becomes a slash. An escape that is there stays;
// so do [ and ], which net/url leaves in paths too. The host is not looked at:
// ParseURL takes it in ASCII only.
func EscapeURL(raw string) string {
	n := 0
	for i := range len(raw) {
		if escaped(raw[i]) {
			n++
		}
	}
	if n == 0 {
		return raw
	}
	var b strings.Builder
	b.Grow(len(raw) + 2*n)
	for i := range len(raw) {
		if c := raw[i]; escaped(c) {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escaped(c byte) bool { return c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>^`{|}", c) >= 0 }
