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

// bodyBuffer has room for the excerpt's window and for a piece of what follows,
// which is only counted.
type bodyBuffer [excerptWindow + 1024]byte

// readResponse reads a bounded part of the body, so that the connection can be
// used again after a normal answer, and closes it. Closing with data left drops
// the connection (HTTP/1) or resets the stream (HTTP/2); nothing is drained.
func (c *Client) readResponse(ctx context.Context, resp *http.Response, limit time.Time, sensitive []string, res *Result) {
	res.GotResponse = true
	res.Status = resp.StatusCode
	res.HTTPVersion = strconv.Itoa(resp.ProtoMajor) + "." + strconv.Itoa(resp.ProtoMinor)
	res.setOutcome(StatusOutcome(resp.StatusCode))
	clean := func(b []byte) []byte {
		b, own := withoutValues(b, sensitive)
		out, removed := c.opts.Redact(b)
		res.Redactions += own + removed
		return out
	}
	res.ResponseHeaders = keepHeaders(resp.Header, clean)
	for name, v := range res.ResponseHeaders {
		if cut, n := withoutValues([]byte(v), sensitive); n > 0 {
			res.ResponseHeaders[name] = string(cut)
			res.Redactions += n
		}
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		res.RetryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), c.opts.Now())
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		res.Err = "the receiver switched to another protocol"
		return // The body is the raw connection now; there is no answer in it.
	}

	buf := c.buffers.Get().(*bodyBuffer)
	defer c.buffers.Put(buf)
	head, n, err := readBody(resp.Body, buf, c.opts.MaxResponse)
	res.ResponseBytes = n
	switch {
	case errors.Is(err, errBodyTooLong):
		res.Truncated = true
	case err != nil:
		res.Truncated = true
		// A success needs its headers and the first part of its body. Without a byte
		// of a body that was announced, the receiver has not finished saying yes.
		if n == 0 && res.Outcome == OutcomeDelivered {
			res.fail(bodyOutcome(ctx, limit, err))
		}
	}
	if e := resp.Header.Get("Content-Encoding"); e == "" || strings.EqualFold(e, "identity") {
		res.Excerpt = excerpt(head, res.Truncated || n > int64(len(head)), clean)
	}
}

// minSensitive keeps a header's value such as "1" from being cut out of all text.
const minSensitive = 6

// sensitiveStart is how much of a value at the end of the window is known for it.
const sensitiveStart = 64

// withoutValues cuts out what the endpoint keeps secret, which receivers that
// echo a request would put on record.
func withoutValues(b []byte, values []string) (out []byte, removed int) {
	for _, v := range values {
		if len(v) < minSensitive {
			continue
		}
		if n := bytes.Count(b, []byte(v)); n > 0 {
			b, removed = bytes.ReplaceAll(b, []byte(v), []byte("[redacted]")), removed+n
		}
		// A long one may be cut off by the window.
		if i := bytes.Index(b, []byte(v[:min(len(v), sensitiveStart)])); i >= 0 && strings.HasPrefix(v, string(b[i:])) {
			b, removed = append(b[:i:i], "[redacted]"...), removed+1
		}
	}
	return b, removed
}

var errBodyTooLong = errors.New("the body is longer than the limit")

// readBody reads at most limit bytes. It returns the first of them, which it keeps
// in buf, and how many there were. A nil error means that the body ended there.
func readBody(r io.Reader, buf *bodyBuffer, limit int64) (head []byte, n int64, err error) {
	kept := 0
	for {
		m, err := r.Read(buf[kept:])
		kept = min(kept+m, excerptWindow)
		if n += int64(m); n > limit {
			return buf[:min(int64(kept), limit)], limit, errBodyTooLong
		}
		if errors.Is(err, io.EOF) {
			return buf[:kept], n, nil
		}
		if err != nil {
			return buf[:kept], n, err
		}
	}
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

// keptHeader says whether a response header goes on record, and whether its value
// is free text and must be redacted. The others are dates, numbers and ids, in
// which long digit runs are normal.
func keptHeader(name string) (keep, free bool) {
	switch name {
	case "Content-Type", "Content-Encoding", "Server", "Via":
		return true, true
	case "Content-Length", "Date", "Retry-After", "X-Request-Id", "Request-Id",
		"X-Correlation-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "Cf-Ray", "Traceparent":
		return true, false
	}
	return false, false
}

func keepHeaders(h http.Header, redact func([]byte) []byte) map[string]string {
	kept := make(map[string]string, 4)
	for name, values := range h {
		keep, free := keptHeader(name)
		if !keep || len(values) == 0 {
			continue
		}
		clean := redact
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
func bodyOutcome(ctx context.Context, limit time.Time, err error) (Outcome, string) {
	if o, text, ok := ended(ctx, limit); ok {
		return o, text
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		return OutcomeConnectionReset, "the connection ended before the body of the response began"
	}
	return OutcomeBadResponse, "the body of the response could not be read"
}
