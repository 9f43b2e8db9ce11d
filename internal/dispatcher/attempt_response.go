package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxExcerpt = 1 << 10

	// excerptWindow is how much of the body is redacted to yield the excerpt. It is
	// larger than the excerpt, so that a secret at the excerpt's end is seen whole.
	excerptWindow = 4 << 10

	// maxRetryAfter is the longest wait that a receiver may ask for. A longer one
	// would outlast the default window, and is more likely a mistake than a wish.
	maxRetryAfter = 24 * time.Hour

	maxHeaderValue = 256
)

// readResponse reads a bounded part of the body, so that the connection can be
// used again after a normal answer, and closes it. Closing with data left drops
// the connection (HTTP/1) or resets the stream (HTTP/2); nothing is drained.
func (c *Client) readResponse(ctx context.Context, resp *http.Response, res *Result) {
	res.GotResponse = true
	res.Status = resp.StatusCode
	res.HTTPVersion = strconv.Itoa(resp.ProtoMajor) + "." + strconv.Itoa(resp.ProtoMinor)
	res.setOutcome(StatusOutcome(resp.StatusCode))
	res.ResponseHeaders = keepHeaders(resp.Header, c.opts.Redact)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		res.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), c.opts.Now())
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return // The body is the raw connection now; there is no answer in it.
	}

	var head bytes.Buffer
	n, err := io.Copy(&headWriter{buf: &head}, io.LimitReader(resp.Body, c.opts.MaxResponse+1))
	if n > c.opts.MaxResponse {
		n, res.Truncated = c.opts.MaxResponse, true
	}
	res.ResponseBytes = n
	if err != nil {
		res.Truncated = true
		// A success needs its headers and the first part of its body. Without a byte
		// of a body that was announced, the receiver has not finished saying yes.
		if n == 0 && res.Outcome == OutcomeDelivered {
			res.fail(bodyOutcome(ctx, err))
		}
	}
	if e := resp.Header.Get("Content-Encoding"); e == "" || strings.EqualFold(e, "identity") {
		cut := res.Truncated || n > excerptWindow
		res.Excerpt = excerpt(head.Bytes()[:min(int64(head.Len()), n)], cut, c.opts.Redact)
	}
}

// headWriter keeps the first excerptWindow bytes and counts the rest.
type headWriter struct{ buf *bytes.Buffer }

func (w *headWriter) Write(p []byte) (int, error) {
	if room := excerptWindow - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// excerpt returns up to 1 KiB of b after redaction. When b is itself cut off, its
// last word is dropped: it may be the start of a secret too short to recognise.
func excerpt(b []byte, cut bool, redact func([]byte) []byte) string {
	if len(b) == 0 {
		return ""
	}
	b = redact(bytes.ToValidUTF8(b, []byte("\uFFFD")))
	if cut {
		b = bytes.TrimRightFunc(b, func(r rune) bool { return !strings.ContainsRune(" \t\r\n\"'<>,;{}[]()", r) })
	}
	return truncate(strings.ToValidUTF8(string(b), "\uFFFD"), maxExcerpt)
}

// truncate cuts s to at most n bytes without splitting a character.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// keptHeaders are the response headers that go on record. Those marked true have
// free text in them and are redacted; the others are dates, numbers and ids, in
// which long digit runs are normal.
func keptHeaders() map[string]bool {
	return map[string]bool{
		"Content-Type": true, "Content-Encoding": true, "Server": true, "Via": true,
		"Content-Length": false, "Date": false, "Retry-After": false,
		"X-Request-Id": false, "Request-Id": false, "X-Correlation-Id": false,
		"X-Amzn-Trace-Id": false, "X-Amz-Cf-Id": false, "Cf-Ray": false, "Traceparent": false,
	}
}

func keepHeaders(h http.Header, redact func([]byte) []byte) map[string]string {
	kept := map[string]string{}
	for name, free := range keptHeaders() {
		clean := redact
		values := h[name]
		if len(values) == 0 {
			continue
		}
		if !free {
			clean = nil
		}
		kept[strings.ToLower(name)] = truncate(printable(values[0], clean), maxHeaderValue)
	}
	return kept
}

// printable makes text from a stranger safe to store and to show: valid UTF-8, no
// control characters, redacted.
func printable(s string, redact func([]byte) []byte) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if redact != nil {
		s = strings.ToValidUTF8(string(redact([]byte(s))), "\uFFFD")
	}
	return strings.TrimSpace(s)
}

func safeText(s string, redact func([]byte) []byte) string {
	return truncate(printable(s, redact), 300)
}

// parseRetryAfter reads seconds or an HTTP date. What is negative, unreadable or
// beyond maxRetryAfter counts as absent.
func parseRetryAfter(v string, now time.Time) time.Duration {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0
	}
	var d time.Duration
	if secs, err := strconv.ParseInt(v, 10, 64); err == nil {
		if secs < 0 || secs > int64(maxRetryAfter/time.Second) {
			return 0
		}
		d = time.Duration(secs) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	if d < 0 || d > maxRetryAfter {
		return 0
	}
	return d
}

// bodyOutcome is the outcome of a success that broke off before its body began.
func bodyOutcome(ctx context.Context, err error) (Outcome, string) {
	if o, text, ended := contextOutcome(ctx); ended {
		return o, text
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		return OutcomeConnectionReset, "the connection ended before the body of the response began"
	}
	return OutcomeBadResponse, "the body of the response could not be read"
}
