package webhook

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/test/testkit"
)

// secureReceiver is a TLS server that says which client called.
type secureReceiver struct {
	*httptest.Server
	requests atomic.Int64
}

func newSecure(t *testing.T, cert testkit.Pair, alter func(*tls.Config)) *secureReceiver {
	t.Helper()
	r := &secureReceiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		_, _ = io.Copy(io.Discard, req.Body)
		name := "nobody"
		if len(req.TLS.PeerCertificates) > 0 {
			name = req.TLS.PeerCertificates[0].Subject.CommonName
		}
		fmt.Fprint(w, name)
	}))
	r.TLS = &tls.Config{Certificates: []tls.Certificate{cert.TLS(t)}}
	if alter != nil {
		alter(r.TLS)
	}
	r.EnableHTTP2 = true
	r.Config.ErrorLog = discardLog()
	r.StartTLS()
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func in(d time.Duration) time.Time { return time.Now().Add(d) }

func as(t *testing.T, owner, id string, ca *testkit.CA, client *testkit.Pair) func(*attempt.Request) {
	t.Helper()
	via := &registry.Connection{ID: id}
	if ca != nil {
		via.CAs = append(via.CAs, ca.Cert)
	}
	if client != nil {
		c := client.TLS(t)
		via.Certificate = &c
	}
	return func(r *attempt.Request) { r.Owner, r.Connection = owner, via }
}

func (r *secureReceiver) post(how ...func(*attempt.Request)) attempt.Request {
	req := post(r.URL, patient)
	for _, f := range how {
		f(&req)
	}
	return req
}

func TestAReceiverIsCalledWithTheIdentityOfItsEndpointOrNotAtAll(t *testing.T) {
	ours, theirs := testkit.NewCA(t, "ours"), testkit.NewCA(t, "theirs")
	server := ours.Server(in(time.Hour))
	good, foreign, expired := ours.Client("good", in(time.Hour)), theirs.Client("foreign", in(time.Hour)),
		ours.Client("expired", in(-time.Minute))
	require := func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, ours.Pool() }
	const refused = outcome.Outcome("refused")
	require12 := func(c *tls.Config) { require(c); c.MaxVersion = tls.VersionTLS12 }
	for name, tt := range map[string]struct {
		server  testkit.Pair
		alter   func(*tls.Config)
		ca      *testkit.CA
		client  *testkit.Pair
		outcome outcome.Outcome
		excerpt string
	}{
		"a private issuer that the endpoint names": {server, nil, ours, nil, outcome.Delivered, "nobody"},
		"a private issuer that it does not name":   {server, nil, nil, nil, outcome.TLSFailure, ""},
		"another private issuer than it names":     {server, nil, theirs, nil, outcome.TLSFailure, ""},
		"a server certificate that has expired": {ours.Server(in(-time.Minute)), nil, ours, nil,
			outcome.TLSFailure, ""},
		"a client certificate that is asked for": {server, require, ours, &good, outcome.Delivered, "good"},
		"the same with TLS 1.2":                  {server, require12, ours, &good, outcome.Delivered, "good"},
		"none, where one is asked for":           {server, require, ours, nil, refused, ""},
		"none with TLS 1.2":                      {server, require12, ours, nil, outcome.TLSFailure, ""},
		"one of another issuer":                  {server, require, ours, &foreign, refused, ""},
		"one that has expired":                   {server, require, ours, &expired, refused, ""},
		"one that nobody asks for":               {server, nil, ours, &good, outcome.TLSFailure, ""},
		"one that nobody asks for, TLS 1.2": {server,
			func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, ours, &good, outcome.TLSFailure, ""},
		"a server of TLS 1.1": {server,
			func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, ours, nil,
			outcome.TLSFailure, ""},
		"one that is asked for and not checked is presented": {server,
			func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert }, ours, &foreign, outcome.Delivered, "foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSecure(t, tt.server, tt.alter)
			req := r.post()
			if tt.ca != nil || tt.client != nil {
				req = r.post(as(t, "ep_1", "1", tt.ca, tt.client))
			}
			res := try(t, newTestClient(t, Options{}), req)
			if tt.outcome == refused {
				// In TLS 1.3 the refusal comes after the handshake, and races with
				// the request for the end of the connection.
				if res.Class != outcome.ClassRetryable || res.GotResponse {
					t.Errorf("got %s (%s), want a failure of the connection", res.Outcome, res.Err)
				}
			} else if res.Outcome != tt.outcome || res.Excerpt != tt.excerpt {
				t.Errorf("got %s (%s) %q, want %s %q", res.Outcome, res.Err, res.Excerpt, tt.outcome, tt.excerpt)
			}
			if strings.Contains(res.Err, "[secret]") {
				t.Errorf("our own words are taken for a credential: %s", res.Err)
			}
			if n := r.requests.Load(); (n > 0) != (tt.outcome == outcome.Delivered) {
				t.Errorf("%d requests got through", n)
			}
		})
	}
}

func TestAnEndpointWithACertificateIsNeverCalledOverPlainHTTP(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	client := ca.Client("good", in(time.Hour))
	r := listen(t, answer(ok))
	req := post("http://"+r.addr, patient)
	as(t, "ep_1", "1", nil, &client)(&req)
	if res := try(t, newTestClient(t, Options{}), req); res.Outcome != outcome.ConnectionFailed || r.conns.Load() != 0 {
		t.Errorf("%s %s, %d connections", res.Outcome, res.Err, r.conns.Load())
	}
}

// Attempts of many identities at once, on HTTP/2, where connections are shared
// the most: each request arrives under its own.
func TestConnectionsOfTwoIdentitiesAreNeverShared(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	r := newSecure(t, ca.Server(in(time.Hour)), func(c *tls.Config) {
		c.ClientAuth,
			c.ClientCAs = tls.VerifyClientCertIfGiven, ca.Pool()
	})
	c := newTestClient(t, Options{RootCAs: ca.Pool()})
	var wg sync.WaitGroup
	for i := range 6 {
		name := fmt.Sprintf("client-%d", i)
		pair := ca.Client(name, in(time.Hour))
		how := as(t, "ep_"+name, "1", ca, &pair)
		for range 4 {
			wg.Go(func() {
				for range 5 {
					if res := try(t, c, r.post(how)); res.Excerpt != name {
						t.Errorf("%s arrived as %q (%s %s)", name, res.Excerpt, res.Outcome, res.Err)
					}
					if res := try(t, c, r.post()); res.Excerpt != "nobody" {
						t.Errorf("an endpoint without a certificate arrived as %q (%s)", res.Excerpt, res.Err)
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestAChangedIdentityTakesEffectAtOnceAndTheOldConnectionsAreClosed(t *testing.T) {
	before := runtime.NumGoroutine()
	ca := testkit.NewCA(t, "ours")
	open := map[string]bool{}
	var mu sync.Mutex
	r := newSecure(t, ca.Server(in(time.Hour)), func(c *tls.Config) {
		c.ClientAuth,
			c.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool()
	})
	c := newTestClient(t, Options{})
	for i := range 20 {
		name := fmt.Sprint("revision-", i)
		pair := ca.Client(name, in(time.Hour))
		res := try(t, c, r.post(as(t, "ep_1", name, ca, &pair)))
		if res.Excerpt != name {
			t.Fatalf("%s arrived as %q (%s)", name, res.Excerpt, res.Err)
		}
		mu.Lock()
		open[name] = true
		mu.Unlock()
	}
	c.pool.mu.Lock()
	kept := len(c.pool.by)
	conns := len(c.pool.by["ep_1"].conns.all)
	c.pool.mu.Unlock()
	if kept != 1 || conns != 1 {
		t.Errorf("%d transports and %d connections are kept", kept, conns)
	}
	c.Close()
	r.CloseClientConnections()
	r.Close()
	expectGoroutines(t, before)
}

func TestTheNumberOfIdentitiesKeptIsBoundedAndAttemptsUnderWayGoOn(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Slow") != "" {
			started <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "fine")
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Server(in(time.Hour)).TLS(t)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	c := newTestClient(t, Options{})
	c.pool.most = 3
	slow := post(s.URL, patient)
	slow.Header.Set("X-Slow", "1")
	as(t, "ep_slow", "1", ca, nil)(&slow)
	done := make(chan attempt.Result)
	go func() { done <- try(t, c, slow) }()
	<-started
	for i := range 10 {
		req := post(s.URL, patient)
		as(t, fmt.Sprint("ep_", i), "1", ca, nil)(&req)
		if res := try(t, c, req); res.Outcome != outcome.Delivered {
			t.Fatalf("%s %s", res.Outcome, res.Err)
		}
		c.pool.mu.Lock()
		if n := c.pool.recent.Len(); n > 3 || n != len(c.pool.by) {
			t.Errorf("%d transports are kept, %d of them by owner", n, len(c.pool.by))
		}
		c.pool.mu.Unlock()
	}
	close(release)
	if res := <-done; res.Outcome != outcome.Delivered {
		t.Errorf("the attempt whose transport was retired: %s %s", res.Outcome, res.Err)
	}
}

// Nothing in the product can turn verification off.
func TestNoCodeTurnsTLSVerificationOff(t *testing.T) {
	files := 0
	for _, dir := range []string{"cmd", "internal", "pkg", "streams"} {
		err := filepath.WalkDir(testkit.Path(t, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files++
			for _, banned := range []string{"Insecure" + "SkipVerify", "VersionTLS10", "VersionTLS11", "VersionSSL30",
				"VerifyPeerCertificate:", "VerifyConnection:"} {
				if strings.Contains(string(text), banned) {
					t.Errorf("%s has %s", path, banned)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("looked at %d files", files)
	}
}
