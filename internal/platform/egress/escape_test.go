package egress

import (
	"net/url"
	"strings"
	"testing"
)

func TestAURLIsSentAsRFC3986HasIt(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"http://[::1]:8/a%2Fb/é?c=é": "http://[::1]:8/a%2Fb/%C3%A9?c=%C3%A9",
		"a=b&c=d":                    "a=b&c=d",
		"q=é":                        "q=%C3%A9",
		"q=caf%C3%A9&x=日":            "q=caf%C3%A9&x=%E6%97%A5",
		"q={a|b}^\"<>`":              "q=%7Ba%7Cb%7D%5E%22%3C%3E%60",
		"a[]=1&b=/?:@!$'()*+,;~":     "a[]=1&b=/?:@!$'()*+,;~",
		"q=100%":                     "q=100%",
		"q=\xff":                     "q=%FF",
	} {
		if got := EscapeURL(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func FuzzEscapeURL(f *testing.F) {
	f.Add("q=é&x=%C3")
	f.Fuzz(func(t *testing.T, q string) {
		got := EscapeURL(q)
		if EscapeURL(got) != got {
			t.Errorf("%q is escaped twice", q)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q becomes %q", q, got)
		}
		was, errWas := url.QueryUnescape(q)
		is, errIs := url.QueryUnescape(got)
		if (errWas == nil) != (errIs == nil) || errWas == nil && was != is {
			t.Errorf("%q is read as %q, and then as %q", q, was, is)
		}
	})
}
