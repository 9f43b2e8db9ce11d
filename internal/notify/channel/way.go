package channel

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// Way is how messages leave: under the egress policy, through the proxy if there
// is one, over verified TLS. Package sender makes it.
type Way struct {
	HTTP *http.Client
	// Dial connects where the server speaks first, as mail's does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS verifies a server of that name.
	TLS      func(name string) *tls.Config
	NC       *nats.Conn    // nil: this process has none
	Timeout  time.Duration // of one try
	Software string        // the User-Agent
}

const (
	// MaxError bounds what goes on record of an error, in bytes.
	MaxError = 300
	// maxAnswer is how much of an answer is read: enough for an error's text.
	maxAnswer = 4 << 10
	// maxRetryAfter keeps a server from silencing us for longer than people wait.
	maxRetryAfter = 5 * time.Minute
)

// Post makes the request and sorts the answer.
func (w *Way) Post(ctx context.Context, to string, header http.Header, body []byte) Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, egress.EscapeURL(to), bytes.NewReader(body))
	if err != nil {
		return Misconfigured("the address cannot be read")
	}
	req.Header = header
	req.Header.Set("User-Agent", w.Software)
	res, err := w.HTTP.Do(req)
	if err != nil {
		// Its text quotes the whole address, which may be a secret.
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return Failed(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	r := ofStatus(res.StatusCode, answer)
	if err != nil && r.Class == outcome.ClassDelivered {
		// Accepted is what the status says; a body that breaks off changes nothing.
		return r
	}
	r.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	return r
}

func ofStatus(status int, answer []byte) Result {
	r := Result{Status: status, Class: outcome.ClassTerminal, Outcome: outcome.Rejected}
	switch {
	case status >= 200 && status < 300:
		r.Class, r.Outcome = outcome.ClassDelivered, outcome.Delivered
		return r
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500:
		r.Class, r.Outcome = outcome.ClassRetryable, outcome.Busy
	}
	r.Error = fmt.Sprintf("answered %d", status)
	if text := strings.TrimSpace(Clip(string(answer), MaxError)); text != "" {
		r.Error += ": " + text
	}
	return r
}

func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	return 0
}
