package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

const (
	maxExcerpt = redact.MaxExcerpt

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
func (c *Client) readResponse(ctx context.Context, resp *http.Response, limit time.Time, r request,
	res *attempt.Result) {
	res.GotResponse = true
	res.Status = resp.StatusCode
	res.HTTPVersion = strconv.Itoa(resp.ProtoMajor) + "." + strconv.Itoa(resp.ProtoMinor)
	res.SetOutcome(outcome.OfStatus(resp.StatusCode))
	clean := c.cleaner(r, res)
	res.ResponseHeaders = keepHeaders(resp.Header, clean)
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
		if n == 0 && res.Outcome == outcome.Delivered {
			res.Fail(bodyOutcome(ctx, limit, err))
		}
	}
	most := c.opts.Redact.Excerpt(r.Owner)
	if e := resp.Header.Get("Content-Encoding"); most > 0 && (e == "" || strings.EqualFold(e, "identity")) {
		res.Excerpt = excerpt(head, res.Truncated || n > int64(len(head)), most, clean.text)
	}
}

// cleaner takes out of a receiver's words what must not go on record, and counts it.
type cleaner struct {
	policy *redact.Redactor
	known  redact.Known
	count  *redact.Counts
}

func (c *Client) cleaner(r request, res *attempt.Result) cleaner {
	return cleaner{c.opts.Redact, redact.Known{Values: r.Sensitive, Payload: r.Payload}, &res.Redacted}
}

func (c cleaner) text(b []byte) []byte {
	out, found := c.policy.Clean(b, c.known)
	c.count.Add(found)
	return out
}

// id cleans a value in which long numbers and random words are what it is for.
func (c cleaner) id(b []byte) []byte {
	found := slices.DeleteFunc(c.policy.Find(b, c.known),
		func(f redact.Finding) bool { return f.Kind == redact.Number || f.Kind == redact.Opaque })
	c.count.Add(found)
	return redact.Replace(b, found)
}

// cleanError is the error as it may go on record: it may quote a URL, a
// certificate or a name that a receiver chose.
func (c *Client) cleanError(r request, res *attempt.Result) {
	if res.Err != "" {
		res.Err = text.Truncate(string(c.cleaner(r, res).text([]byte(text.Truncate(res.Err, excerptWindow)))),
			attempt.MaxErrorText)
	}
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

// excerpt returns up to most bytes of b after redaction. When b is itself cut
// off, its end is dropped: it may be the start of a secret too short to recognise.
func excerpt(b []byte, cut bool, most int, redact func([]byte) []byte) string {
	if len(b) == 0 {
		return ""
	}
	b = redact(bytes.ToValidUTF8(b, []byte("\uFFFD")))
	if cut {
		b = withoutEnd(b)
	}
	return text.Truncate(strings.ToValidUTF8(string(b), "\uFFFD"), most)
}

// withoutEnd drops the last word, and before it groups of digits, which may be
// the first ones of a number.
func withoutEnd(b []byte) []byte {
	between := func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'<>,;{}[]()", r) }
	b = bytes.TrimRightFunc(b, func(r rune) bool { return !between(r) })
	for {
		word := bytes.TrimRight(b, " \t()")
		rest := bytes.TrimRightFunc(word, func(r rune) bool { return !between(r) })
		if len(word) == len(rest) || bytes.IndexFunc(word[len(rest):], unicode.IsDigit) < 0 {
			return b
		}
		b = rest
	}
}

// keptHeader says whether a response header goes on record if the policy says
// nothing, and whether its value is free text. The others are dates, numbers and
// ids, in which long digit runs are normal.
func keptHeader(name string) (keep, free bool) {
	switch name {
	case "Content-Type", "Content-Encoding", "Server", "Via":
		return true, true
	case "Content-Length", "Date", "Retry-After", "X-Request-Id", "Request-Id",
		"X-Correlation-Id", "X-Amzn-Trace-Id", "X-Amz-Cf-Id", "Cf-Ray", "Traceparent":
		return true, false
	}
	return false, true
}

func keepHeaders(h http.Header, clean cleaner) map[string]string {
	kept := make(map[string]string, 4)
	for name, values := range h {
		keep, free := keptHeader(name)
		if yes, set := clean.policy.Header(name); set {
			keep = yes
		}
		if !keep || len(values) == 0 {
			continue
		}
		way := clean.id
		if free {
			way = clean.text
		}
		value := text.Spaced(string(way([]byte(text.Spaced(values[0])))))
		kept[strings.ToLower(name)] = text.Truncate(value, maxHeaderValue)
	}
	return kept
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
func bodyOutcome(ctx context.Context, limit time.Time, err error) (outcome.Outcome, string) {
	if o, why, ok := ended(ctx, limit); ok {
		return o, why
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
		return outcome.ConnectionReset, "the connection ended before the body of the response began"
	}
	return outcome.BadResponse, "the body of the response could not be read"
}
