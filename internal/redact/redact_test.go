package redact

import (
	"strings"
	"testing"
)

func TestSecretsAndIdentifiersAreRemoved(t *testing.T) {
	for _, tt := range []struct {
		name, in, out string
		removed       int
	}{
		{"a bearer token", "Authorization: Bearer abc.DEF-123_~+/=", "Authorization: Bearer [credentials]", 1},
		{"a bearer token in JSON", `{"auth":"bearer: zzz"}`, `{"auth":"bearer [credentials]"}`, 1},
		{"basic credentials", "basic dXNlcjpwdw==", "basic [credentials]", 1},
		{"a JSON web token", "got eyJhbGciOiJI.eyJzdWIiOi.SflKxw_-9 here", "got [jwt] here", 1},
		{"a signing secret", "key whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD,", "key [secret],", 1},
		{"a cookie", "Set-Cookie: sid=1; Path=/\nnext", "Set-Cookie: [cookie]\nnext", 1},
		{"a cookie header quoted back", `"Cookie": "a=b; c=d"`, `"Cookie": [cookie]`, 1},
		{"an e-mail address", "no such user jane.doe+x@mail.example.co.uk!", "no such user [email]!", 1},
		{"an e-mail address, encoded", "q=jane%40example.com&r=1", "q=[email]&r=1", 1},
		{"an e-mail address, JSON escapes", `"jane\u0040example.com"`, `"[email]"`, 1},
		{"an e-mail address with an umlaut", "jürgen@bücher.example", "[email]", 1},
		{"nine digits", "ssn 123456789.", "ssn [digits].", 1},
		{"a card number in groups", "card 4111 1111 1111 1111 ok", "card [digits] ok", 1},
		{"a hyphenated number", "ssn 123-45-6789", "ssn [digits]", 1},
		{"digits of another script", "no ١٢٣٤٥٦٧٨٩", "no [digits]", 1},
		{"several at once", "a@b.example and 1234567890", "[email] and [digits]", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, removed := Default().Redact([]byte(tt.in))
			if string(out) != tt.out || removed != tt.removed {
				t.Errorf("got %q (%d removed), want %q (%d)", out, removed, tt.out, tt.removed)
			}
		})
	}
}

func TestHarmlessTextIsLeftAlone(t *testing.T) {
	for _, s := range []string{
		"", "ok", `{"status":"accepted","code":12345678}`, "2026-11-02T10:00:00Z", "the basics", "line 42 of 100",
		"<html><body>502 Bad Gateway</body></html>", "key=eyes", "id 12345678", "Grüße", "forebearer",
	} {
		if out, removed := Default().Redact([]byte(s)); string(out) != s || removed != 0 {
			t.Errorf("%q became %q (%d removed)", s, out, removed)
		}
	}
}

func TestTheInputIsNotChanged(t *testing.T) {
	in := []byte("call 1234567890 or a@b.example")
	before := string(in)
	Default().Redact(in)
	if string(in) != before {
		t.Errorf("the input became %q", in)
	}
}

// FuzzRedact checks that redaction is complete in one pass, and harmless to do twice.
func FuzzRedact(f *testing.F) {
	f.Add("Bearer Bearer x 123456789 a@b whsec_1")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		once, n := Default().Redact([]byte(s))
		if n == 0 && string(once) != s {
			t.Fatalf("%q changed to %q and nothing was counted", s, once)
		}
		if run := longestDigits(string(once)); run >= 9 {
			t.Fatalf("%q still has %d digits in a row: %q", s, run, once)
		}
	})
}

func longestDigits(s string) (longest int) {
	run := 0
	for _, r := range s {
		if r < '0' || r > '9' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
