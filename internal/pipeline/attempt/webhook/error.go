package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

const earlyText = "the receiver sent an answer before the request"

// setInterim records that something spoke HTTP although no final response came.
func setInterim(r *attempt.Result, x *exchange) {
	n, code := x.interimSeen()
	r.GotResponse = n > 0
	if r.Outcome == outcome.InformationalFinal {
		r.Status = code
	}
}

// ended returns the outcome of an attempt that failed because its time was over or
// its caller cancelled it. Dials have the same limit as the attempt but a timer of
// their own, so theirs may fire first: the clock decides, not the timer.
func ended(ctx context.Context, limit time.Time) (o outcome.Outcome, why string, ok bool) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errAttemptTimeout), cause == nil && !time.Now().Before(limit):
		return outcome.Timeout, "no complete answer in time", true
	case cause != nil:
		return outcome.Interrupted, "the attempt was cancelled before it ended", true
	}
	return "", "", false
}

// outcomeOf classifies a request that got no response. The text never quotes what
// the receiver sent.
func outcomeOf(ctx context.Context, err error, x *exchange) (outcome.Outcome, string) {
	if o, why, ok := ended(ctx, x.limit); ok {
		return o, why
	}
	var (
		blocked   *egress.BlockedError
		dns       *net.DNSError
		handshake *tlsError
		proxy     *egress.ProxyError
	)
	interim, _ := x.interimSeen()
	switch {
	case errors.As(err, &proxy):
		return outcome.ConnectionFailed, text.Spaced(proxy.Error())
	case errors.As(err, &blocked):
		return outcome.AddressBlocked, text.Spaced(blocked.Error())
	case errors.As(err, &dns):
		return outcome.DNSFailure, dnsText(dns)
	case errors.As(err, &handshake):
		return handshakeOutcome(handshake.err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome.ConnectionRefused, "the receiver refused the connection"
	case interim > maxInterim: // HTTP/2 does not hand our own error back.
		return outcome.BadResponse, "the receiver sent too many informational responses"
	case interim > 0 && isEOF(err):
		return outcome.InformationalFinal, "the connection ended after an informational response"
	case isReset(err) || isEOF(err):
		return outcome.ConnectionReset, "the connection ended before the response"
	case isTimeout(err):
		return outcome.Timeout, "no connection in time"
	}
	return otherOutcome(err, x)
}

// otherOutcome tells a connection that could not be made, or not be written to,
// from an answer that is not HTTP.
func otherOutcome(err error, x *exchange) (outcome.Outcome, string) {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "remote error":
		// In TLS 1.3 a receiver refuses a client certificate after the handshake.
		return outcome.TLSFailure, text.Spaced(fmt.Sprintf("the receiver refused the TLS connection: %v", op.Err))
	case errors.As(err, &op):
		return outcome.ConnectionFailed, text.Spaced(fmt.Sprintf("%s failed: %v", op.Op, op.Err))
	case strings.Contains(err.Error(), "connection error:"): // HTTP/2: the peer broke the protocol.
		return outcome.BadResponse, "the answer is not valid HTTP/2, or its headers are larger than the limit"
	case strings.Contains(err.Error(), "headers exceeded"), strings.Contains(err.Error(), "header list"):
		return outcome.BadResponse, "the headers of the response are larger than the limit"
	case strings.Contains(err.Error(), "readLoopPeekFail"):
		return outcome.BadResponse, earlyText
	case x.answered():
		return outcome.BadResponse, "the answer is not valid HTTP"
	}
	if x.connected() { // how much of the request left, nobody knows
		return outcome.ConnectionReset, text.Spaced("the connection failed before the response: " + err.Error())
	}
	return outcome.ConnectionFailed, text.Spaced(err.Error())
}

func handshakeOutcome(err error) (outcome.Outcome, string) {
	if errors.Is(err, syscall.ECONNRESET) {
		return outcome.ConnectionReset, "the connection was reset during the TLS handshake"
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		return outcome.TLSFailure, "TLS handshake failed: the receiver does not speak TLS on this port"
	}
	return outcome.TLSFailure, text.Spaced("TLS handshake failed: " + err.Error())
}

func dnsText(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return text.Spaced("DNS: no such host: " + e.Name)
	case e.IsTimeout:
		return text.Spaced("DNS: no answer in time for " + e.Name)
	}
	return text.Spaced("DNS: " + e.Err + ": " + e.Name)
}

// isEOF reports an orderly end of the connection. net/http has an unexported
// error for the end of a reused connection, told apart by its text only.
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// isReset reports a broken connection, or an HTTP/2 stream or connection that the
// receiver ended (RST_STREAM, GOAWAY), which net/http also tells by text only.
func isReset(err error) bool {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return true
	}
	s := err.Error()
	return strings.Contains(s, "stream error:") || strings.Contains(s, "GOAWAY") ||
		strings.Contains(s, "after Request.Body was written") || strings.Contains(s, "client connection lost")
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
