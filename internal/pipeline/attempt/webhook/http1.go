package webhook

import (
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// http1For is how long a receiver that asked for HTTP/1.1 gets it before HTTP/2
	// is offered again: what it costs then is one attempt, which is made again at once.
	http1For = time.Hour
	// maxHTTP1Hosts bounds what is remembered; forgetting costs the same.
	maxHTTP1Hosts = 10_000
)

// http1Hosts are receivers that answered HTTP/2 with HTTP_1_1_REQUIRED (RFC 9113,
// section 7), as some do for requests that want a client certificate.
type http1Hosts struct {
	mu    sync.Mutex
	until map[string]time.Time // by scheme and authority
}

func (h *http1Hosts) has(raw string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.until) == 0 {
		return false
	}
	until, ok := h.until[origin(raw)]
	return ok && now.Before(until)
}

func (h *http1Hosts) add(raw string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil || len(h.until) >= maxHTTP1Hosts {
		h.until = map[string]time.Time{}
	}
	h.until[origin(raw)] = now.Add(http1For)
}

func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}

// wantsHTTP1 finds the code in the error of net/http, which tells it by text only,
// for a stream and for a connection.
func wantsHTTP1(err error) bool { return strings.Contains(err.Error(), "HTTP_1_1_REQUIRED") }
