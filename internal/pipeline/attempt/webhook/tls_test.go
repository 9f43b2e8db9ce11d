package webhook

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

func TestTLSFactsAreOnRecord(t *testing.T) {
	for name, http2 := range map[string]bool{"1.1": false, "2.0": true} {
		t.Run("HTTP/"+name, func(t *testing.T) {
			s, o := newTLS(t, http2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "12345678901234567890")
				io.Copy(io.Discard, r.Body)
				io.WriteString(w, "fine")
			}))
			c := newTestClient(t, o)
			sum := sha256.Sum256(s.Certificate().Raw)
			for i := range 3 {
				res := try(t, c, post(s.URL, patient))
				if res.Outcome != outcome.Delivered || res.HTTPVersion != name || res.TLSVersion != "TLS 1.3" ||
					res.PeerFingerprint != hex.EncodeToString(sum[:]) || res.Excerpt != "fine" || res.Reused != (i > 0) {
					t.Errorf("attempt %d: %+v", i, res)
				}
				if (res.TLS > 0) != (i == 0) || res.ResponseHeaders["x-request-id"] != "12345678901234567890" {
					t.Errorf("attempt %d: TLS took %s, headers %v", i, res.TLS, res.ResponseHeaders)
				}
			}
		})
	}
}

func TestConcurrentAttemptsShareAnHTTP2Connection(t *testing.T) {
	s, o := newTLS(t, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	c := newTestClient(t, o)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if res := try(t, c, post(s.URL, patient)); res.Outcome != outcome.Delivered || res.ResponseBytes != 24 {
				t.Errorf("got %s %s", res.Outcome, res.Err)
			}
		})
	}
	all.Wait()
}

func TestTLSIsAlwaysVerified(t *testing.T) {
	s, trusted := newTLS(t, true, http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		t.Error("a request got through")
	}))
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for name, tt := range map[string]struct {
		roots *x509.CertPool
		host  string
	}{
		"an unknown issuer":      {x509.NewCertPool(), "127.0.0.1"},
		"the system's roots":     {nil, "127.0.0.1"},
		"a certificate not ours": {trusted.RootCAs, "localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			res := try(t, newTestClient(t, Options{RootCAs: tt.roots}), post("https://"+tt.host+":"+port+"/", patient))
			if res.Outcome != outcome.TLSFailure || res.GotResponse {
				t.Errorf("got %s %s", res.Outcome, res.Err)
			}
		})
	}
}

func TestHandshakesThatFail(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, tt := range []misbehaviour{
		{"a receiver without TLS is a TLS failure", once("HTTP/1.1 400 Bad Request\r\n\r\n"), patient, outcome.TLSFailure, 0,
			nil},
		{"a receiver that hangs up is a TLS failure", func(p *peer) { p.start() }, patient, outcome.TLSFailure, 0, nil},
		{"a receiver that resets is a reset", func(p *peer) { p.start(); p.reset() }, patient, outcome.ConnectionReset, 0,
			nil},
		{"a receiver that stays silent times out", func(p *peer) { p.hold() }, quick, outcome.Timeout, 0, nil},
		{"a receiver that drips its handshake times out", func(p *peer) { p.start(); p.drip("\x16\x03\x03\x00\x01\x00") },
			quick, "", 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := listen(t, tt.script)
			res := try(t, newTestClient(t, Options{}), post("https://"+r.addr, tt.timeout))
			if tt.outcome != "" && res.Outcome != tt.outcome || res.Class != outcome.ClassRetryable {
				t.Errorf("got %s %s, want %s", res.Outcome, res.Err, tt.outcome)
			}
		})
	}
	expectGoroutines(t, before)
}

// An HTTP/2 answer that misbehaves, as a handler sees it.
func TestHTTP2ReceiversThatMisbehave(t *testing.T) {
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		outcome outcome.Outcome
		status  int
	}{
		{"silence times out", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, outcome.Timeout, 0},
		{"a 200 whose body never starts times out", func(w http.ResponseWriter,
			r *http.Request) {
			flush(w)
			<-r.Context().Done()
		}, outcome.Timeout, 200},
		{"a 200 whose body hangs is delivered", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "first part")
			flush(w)
			<-r.Context().Done()
		}, outcome.Delivered, 200},
		{"an endless body is delivered", func(w http.ResponseWriter, r *http.Request) {
			for _, err := w.Write(make([]byte, 4096)); err == nil; _, err = w.Write(make([]byte, 4096)) {
			}
		}, outcome.Delivered, 200},
		{"headers beyond the limit are a bad response", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("a", 200_000))
		}, outcome.BadResponse, 0},
		{"an aborted stream is a reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			outcome.ConnectionReset, 0},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, outcome.Redirect, 307},
		{"a 1xx flood is a bad response", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, outcome.BadResponse, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, o := newTLS(t, true, tt.handler)
			c := newTestClient(t, o)
			timeout := patient
			if tt.outcome == outcome.Timeout || tt.name == "a 200 whose body hangs is delivered" {
				timeout = unhurried
			}
			res := try(t, c, post(s.URL, timeout))
			if res.Outcome != tt.outcome || res.Status != tt.status {
				t.Errorf("got %s %d %s, want %s %d", res.Outcome, res.Status, res.Err, tt.outcome, tt.status)
			}
		})
	}
}
