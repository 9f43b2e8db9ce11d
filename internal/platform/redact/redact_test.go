package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

func TestEachKnownSecretIsRemovedAndNamed(t *testing.T) {
	for _, s := range known() {
		t.Run(s.name, func(t *testing.T) {
			out, found := redact.Default().Clean([]byte(s.text), redact.Known{})
			if len(found) == 0 || string(found[0].Kind) != s.kind || found[0].What == "" {
				t.Errorf("%q gives %+v, want %s", s.text, found, s.kind)
			}
			survives(t, s, string(out))
		})
	}
}

func survives(t *testing.T, s sample, out string) {
	t.Helper()
	for _, c := range s.core() {
		if strings.Contains(out, c) {
			t.Errorf("%s: %q survives in %q", s.name, c, out)
		}
	}
}

func TestAnEscapeHidesNothing(t *testing.T) {
	unicodeEscapes := func(s string) string {
		var b strings.Builder
		for _, r := range s {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		return b.String()
	}
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ways := map[string]func(string) string{
		"as a JSON string": quoted,
		"as JSON in JSON":  func(s string) string { return quoted(quoted(s)) },
		"all in \\u":       unicodeEscapes,
		"percent-encoded":  func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
		"as a form":        url.QueryEscape,
		"percent twice":    func(s string) string { return url.PathEscape(url.PathEscape(s)) },
		"HTML entities": func(s string) string {
			var b strings.Builder
			for _, r := range s {
				fmt.Fprintf(&b, "&#%d;", r)
			}
			return b.String()
		},
		"in full width": func(s string) string {
			return strings.Map(func(r rune) rune {
				if r > ' ' && r < 0x7f && r != '\n' {
					return r - '!' + 0xff01
				}
				return r
			}, s)
		},
		"with what does not show": func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b") },
		"with broken bytes":       func(s string) string { return s[:len(s)/2] + "\xff\x00" + s[len(s)/2:] },
		"in base64":               func(s string) string { return base64.StdEncoding.EncodeToString([]byte("a=x " + s)) },
	}
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		t.Run(name, func(t *testing.T) {
			for _, s := range known() {
				in := "before " + ways[name](s.text) + " after"
				if out, n := redact.Default().Redact([]byte(in)); n == 0 {
					t.Errorf("%s: %q is kept: %q", s.name, in, out)
				} else {
					survives(t, s, string(out))
				}
			}
		})
	}
}

// bodies are answers as receivers give them.
func bodies() []string {
	return []string{
		`{"status":"accepted","id":"evt_01JQ8Z6T5V3N9W2X4Y7R8S1M6K","at":"2026-11-02T10:04:05.123456Z","count":17}`,
		"<html><head><title>502 Bad Gateway</title></head><body><center>nginx/1.24.0</center></body></html>",
		"upstream 10.20.30.40:8443 refused; request 550e8400-e29b-41d4-a716-446655440000 at 2026-11-02 10:00:00, try " +
			"again in 30 s",
		"", " ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ünïcödé täxt — “quoted” 漢字",
	}
}

func TestASecretAtAnyOffsetIsRemoved(t *testing.T) {
	for _, s := range known() {
		if s.name == "base64 of credentials" { // shifted, it reads as something else; a scheme names it
			continue
		}
		for _, body := range bodies() {
			for at := 0; at <= len(body); at++ {
				in := body[:at] + s.text + body[at:]
				if needsRoom(s) {
					in = body[:at] + " " + s.text + "\n" + body[at:]
				}
				out, _ := redact.Default().Redact([]byte(in))
				for _, c := range s.core() {
					if strings.Contains(string(out), c) {
						t.Fatalf("%s at %d: %q became %q", s.name, at, in, out)
					}
				}
			}
		}
	}
}

// needsRoom says that letters or digits right beside the sample make it
// something else: a name of its value, or a code by its first letter.
func needsRoom(s sample) bool {
	return slices.Contains([]string{"cookie", "birth", "personal", "userinfo", "phone", "national_id", "iban"}, s.kind) ||
		strings.ContainsAny(s.text, ":=&")
}

func TestHarmlessTextIsLeftAlone(t *testing.T) {
	for _, s := range append(bodies(),
		"ok", "OK\n", `{"ok":true}`, `{"status":"accepted","code":12345678}`, "2026-11-02T10:00:00Z",
		"2026-11-02 10:00:00.123456", "the basics",
		"line 42 of 100", "key=eyes", "id 12345678", "Grüße", "Basic authentication required", "Bearer token is missing",
		"Why? a = b",
		`{"error":{"type":"InvalidRequestError","message":"The field customer_reference is required","param":"items[0].quantity"}}`,
		`{"token_type":"bearer","expires_in":3600,"password":null,"secret":false}`,
		"dial tcp 203.0.113.177:443: connect: connection refused",
		"at com.example.webhooks.InternalServerErrorHandler.handleRequest(InternalServerErrorHandler.java:1234)",
		"https://docs.example.com/errors/webhooks/v2/signature-mismatch",
		`{"file_name":"a.txt","ip_address":"10.0.0.1","event_name":"order.paid"}`,
		"100% sure & 50% off \\o/ a%zz", "order-2026-11-02-000123", "v1.2.3-rc.4+build.5", "Retry after 120 seconds, 3 of 8",
	) {
		if out, n := redact.Default().Redact([]byte(s)); string(out) != s || n != 0 {
			t.Errorf("%q became %q (%d removed)", s, out, n)
		}
	}
}

func TestWhatIsRemovedIsCountedByKind(t *testing.T) {
	_, found := redact.Default().Clean([]byte(`a@b.example, c@d.example; card 4111111111111111; password=x1`),
		redact.Known{})
	var c redact.Counts
	c.Add(found)
	c.AddKind(redact.Payload, 0)
	if want := (redact.Counts{"email": 2, "card": 1, "secret": 1}); !maps.Equal(c, want) || c.Total() != 4 {
		t.Errorf("counted %v, want %v", c, want)
	}
}

func TestTheInputIsNotChanged(t *testing.T) {
	in := []byte(`call 1234567890 or a\u0040b.example`)
	before := string(in)
	redact.Default().Redact(in)
	if string(in) != before {
		t.Errorf("the input became %q", in)
	}
}

// FuzzRedact checks that redaction is complete in one pass, harmless to do
// twice, and that no input breaks it.
func FuzzRedact(f *testing.F) {
	f.Add([]byte("Bearer Bearer x 123456789 a@b whsec_1"))
	for _, s := range known() {
		f.Add([]byte(s.text))
	}
	for _, b := range bodies() {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once, found := redact.Default().Clean(b, redact.Known{})
		if len(found) == 0 && string(once) != string(b) {
			t.Fatalf("%q changed to %q and nothing was counted", b, once)
		}
		last := 0
		for _, x := range found {
			if x.Start < last || x.End <= x.Start || x.End > len(b) {
				t.Fatalf("%q: finding %+v after %d", b, x, last)
			}
			last = x.End
		}
		if run := longestDigits(uuid.ReplaceAllString(string(once), "")); run >= 9 {
			t.Fatalf("%q still has %d digits in a row: %q", b, run, once)
		}
	})
}

// uuid is kept: it refers to something.
var uuid = regexp.MustCompile(`(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func longestDigits(s string) (longest int) {
	run := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// FuzzPlanted puts a known secret into any text, apart from it by a line end.
func FuzzPlanted(f *testing.F) {
	for i := range known() {
		f.Add(bodies()[i%len(bodies())], uint8(i), uint16(i*7))
	}
	f.Fuzz(func(t *testing.T, body string, which uint8, at uint16) {
		s := known()[int(which)%len(known())]
		n := int(at) % (len(body) + 1)
		in := body[:n] + "\n" + s.text + "\n" + body[n:]
		out, _ := redact.Default().Redact([]byte(in))
		for _, c := range s.core() {
			if strings.Contains(string(out), c) && !strings.Contains(body, c) {
				t.Fatalf("%s in %q: %q", s.name, in, out)
			}
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	kilobyte := func(s string) string { return strings.Repeat(s, 1+1024/len(s))[:1024] }
	for _, c := range []struct{ name, text string }{
		{"ok", "ok"}, {"short JSON", `{"received":true}`}, {"1 KiB of JSON", kilobyte(bodies()[0] + ",")},
		{"1 KiB of HTML", kilobyte(bodies()[1])},
		{"1 KiB of prose", kilobyte(bodies()[2] + " ")},
		{"1 KiB of escaped JSON", kilobyte(strings.ReplaceAll(bodies()[0], `"`, `\"`) + ",")},
		{"1 KiB of secrets", kilobyte(known()[0].text + " jane@example.com 4111 1111 1111 1111 " + `"password":"x" `)},
		{"1 KiB of one digit", kilobyte("1")}, {"1 KiB of @", kilobyte("@")},
		{"1 KiB of base64", kilobyte("aGVsbG8gd29ybGQg")},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := redact.Default()
			in := []byte(c.text)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				r.Redact(in)
			}
		})
	}
}
