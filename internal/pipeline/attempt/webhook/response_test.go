package webhook

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

func TestRetryAfterIsReadFromSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"120":                            2 * time.Minute,
		" 120 ":                          2 * time.Minute,
		"86400":                          24 * time.Hour,
		"86401":                          0, // Beyond what a receiver may ask for.
		"-5":                             0,
		"1.5":                            0,
		"soon":                           0,
		"99999999999999999999999":        0,
		"9223372036854775807":            0,
		"Sun, 01 Mar 2026 12:05:00 GMT":  5 * time.Minute,
		"Sunday, 01-Mar-26 12:05:00 GMT": 5 * time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0, // Over already.
		"Sun, 01 Mar 2099 12:00:00 GMT":  0,
	} {
		if got := parseRetryAfter(v, now); got != want {
			t.Errorf("Retry-After %q reads as %s, want %s", v, got, want)
		}
	}
}

func TestRetryAfterCountsOn429And503Only(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"429 Too Many Requests": 7 * time.Second, "503 Service Unavailable": 7 * time.Second,
		"500 Internal Server Error": 0, "200 OK": 0, "301 Moved": 0,
	} {
		r := listen(t, answer("HTTP/1.1 "+line+"\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"))
		if res := try(t, newTestClient(t, Options{}), post("http://"+r.addr, patient)); res.RetryAfter != want ||
			res.Facts().RetryAfter != want {
			t.Errorf("%s: wait %s, want %s", line, res.RetryAfter, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sun, 01 Mar 2026 12:05:00 GMT")
	f.Fuzz(func(t *testing.T, v string) {
		if d := parseRetryAfter(v, time.Date(2026, 9, 29, 12, 0, 0, 0, time.UTC)); d < 0 || d > maxRetryAfter {
			t.Fatalf("%q reads as %s", v, d)
		}
	})
}

func TestOnlyHeadersWorthKeepingAreKept(t *testing.T) {
	h := http.Header{
		"Content-Type": {"text/plain", "second"}, "Set-Cookie": {"session=hush"}, "Authorization": {"hush"},
		"Server": {"nginx Bearer abcdefgh123"}, "X-Request-Id": {"123456789012"}, "Location": {"https://x/?hush"},
		"Via": {"a\x01b" + strings.Repeat("é", 400)}, "X-Error": {"no jane@example.com"}, "Request-Id": {"jane@example.com"},
		"Date":           {"today"},
		"Content-Length": {"17"},
	}
	policy, err := redact.New(redact.Policy{Headers: []string{"x-error"}, DropHeaders: []string{"Date"}})
	if err != nil {
		t.Fatal(err)
	}
	var counts redact.Counts
	got := keepHeaders(h, cleaner{policy, redact.Known{}, &counts})
	if got["x-error"] != "no [email]" || got["request-id"] != "[email]" || counts["email"] != 2 ||
		got["content-length"] != "17" {
		t.Errorf("kept %v, counted %v", got, counts)
	}
	if got["content-type"] != "text/plain" || got["server"] != "nginx Bearer [secret]" ||
		got["x-request-id"] != "123456789012" {
		t.Errorf("kept %v", got)
	}
	if v := got["via"]; !strings.HasPrefix(v, "a b") || len(v) > maxHeaderValue || !utf8.ValidString(v) {
		t.Errorf("via is %q", v)
	}
	if len(got) != 7 {
		t.Errorf("kept %v", got)
	}
}

func TestABodyIsReadUpToTheLimit(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name    string
		r       io.Reader
		limit   int64
		n, kept int
		err     error
	}{
		{"an empty body", strings.NewReader(""), 100, 0, 0, nil},
		{"a short body", strings.NewReader("hello"), 100, 5, 5, nil},
		{"a body as long as the limit", strings.NewReader("hello"), 5, 5, 5, nil},
		{"a body longer than the limit", strings.NewReader("hello"), 4, 4, 4, errBodyTooLong},
		{"a body longer than the window", strings.NewReader(strings.Repeat("x", 9000)), 10000, 9000, excerptWindow, nil},
		{"an endless body", endless{}, 10000, 10000, excerptWindow, errBodyTooLong},
		{"a body that breaks", io.MultiReader(strings.NewReader("hel"), iotest.ErrReader(broken)), 100, 3, 3, broken},
		{"a body that comes byte by byte", iotest.OneByteReader(strings.NewReader("hello")), 100, 5, 5, nil},
		{"an end together with data", iotest.DataErrReader(strings.NewReader("hello")), 100, 5, 5, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head, n, err := readBody(tt.r, new(bodyBuffer), tt.limit)
			if n != int64(tt.n) || len(head) != tt.kept || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("read %d, kept %d, error %v", n, len(head), err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestAnExcerptNeverEndsWithinASecret(t *testing.T) {
	r := redact.Default()
	clean := func(b []byte) []byte { out, _ := r.Redact(b); return out }
	const secret = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.s"
	for pad := 0; pad < 1200; pad += 13 {
		body := strings.Repeat(".", pad/2) + strings.Repeat(" ", pad-pad/2) + secret + " tail"
		got := excerpt([]byte(body), false, maxExcerpt, clean)
		if strings.Contains(got, "eyJh") || len(got) > maxExcerpt {
			t.Fatalf("with %d bytes before it, the secret shows: %q", pad, got)
		}
		for cut := pad + 4; cut < pad+len(secret); cut += 11 {
			if got := excerpt([]byte(body[:cut]), true, maxExcerpt, clean); strings.Contains(got, "eyJ") {
				t.Fatalf("cut at %d of %d, the secret shows: %q", cut, len(body), got)
			}
		}
	}
}

func TestANumberCutOffByTheEndIsDroppedWithItsFirstGroups(t *testing.T) {
	for body, want := range map[string]string{
		"card 4111 1111":             "card ",
		"card (4111) 1111 1":         "card (",
		"no such order: o_1, retry ": "no such order: o_1, retry ",
		`{"code":"E1","card":"4111`:  `{"code":"E1","card":"`,
	} {
		if got := excerpt([]byte(body), true, maxExcerpt, func(b []byte) []byte { return b }); got != want {
			t.Errorf("%q gives %q, want %q", body, got, want)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("caf\xe9 123456789"), true)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		got := excerpt(b, cut, maxExcerpt, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("é"), []byte("\xff")) })
		if !utf8.ValidString(got) || len(got) > maxExcerpt {
			t.Fatalf("%q", got)
		}
	})
}
