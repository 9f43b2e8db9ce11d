package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// tokenEndpoint is a real one, over TLS: token-1, token-2 …, each valid until revoked.
type tokenEndpoint struct {
	*httptest.Server
	t      *testing.T
	issued atomic.Int64
	life   atomic.Int64 // seconds

	mu    sync.Mutex
	valid map[string]bool
	fail  func(http.ResponseWriter, *http.Request) bool // true: it answered
	last  url.Values
	basic string
}

func newTokenEndpoint(t *testing.T, cert testkit.Pair) *tokenEndpoint {
	t.Helper()
	e := &tokenEndpoint{t: t, valid: map[string]bool{}}
	e.life.Store(3600)
	e.Server = newSecure(t, cert, nil).Server
	e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		user, password, _ := r.BasicAuth()
		e.mu.Lock()
		e.last, e.basic = form, user+" "+password
		fail := e.fail
		e.mu.Unlock()
		n := e.issued.Add(1)
		if fail != nil && fail(w, r) {
			return
		}
		value := fmt.Sprint("token-", n)
		e.mu.Lock()
		e.valid[value] = true
		e.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","expires_in":%d}`, value, e.life.Load())
	})
	return e
}

func (e *tokenEndpoint) failWith(f func(http.ResponseWriter, *http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = f
}

func (e *tokenEndpoint) revokeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.valid)
}

// guarded is a receiver that takes valid tokens alone, and echoes what it got.
func (e *tokenEndpoint) guarded(cert testkit.Pair) *secureReceiver {
	r := newSecure(e.t, cert, nil)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		w.Header().Set("X-Request-Id", "you sent "+token)
		e.mu.Lock()
		fine := e.valid[token]
		e.mu.Unlock()
		if !fine {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "got %s", req.Header.Get("Authorization"))
	})
	return r
}

func (e *tokenEndpoint) client(alter func(*registry.ClientCredentials)) func(*attempt.Request) {
	o := &registry.ClientCredentials{OAuth2: registry.OAuth2{TokenURL: e.URL + "/token", ClientID: "way bill",
		Auth: registry.AuthBasic},
		ClientSecret: "s:crt/+", ID: "1"}
	if alter != nil {
		alter(o)
	}
	return func(r *attempt.Request) { r.Owner, r.OAuth2 = "ep_1", o }
}

func TestATokenIsFetchedOnceAndUsedUntilItEnds(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	e := newTokenEndpoint(t, ca.Server(in(time.Hour)))
	r := e.guarded(ca.Server(in(time.Hour)))
	c := newTestClient(t, Options{RootCAs: ca.Pool()})
	how := e.client(func(o *registry.ClientCredentials) { o.Scopes, o.Audience = []string{"a", "b"}, "https://aud" })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			res := try(t, c, r.post(how))
			if res.Outcome != outcome.Delivered || strings.Contains(fmt.Sprintf("%+v", res), "token-1") ||
				res.Redacted.Total() != 2 {
				t.Errorf("%+v", res)
			}
		})
	}
	wg.Wait()
	if n := e.issued.Load(); n != 1 {
		t.Errorf("%d tokens were fetched", n)
	}
	// RFC 6749, section 2.3.1: form encoding before Basic.
	if e.basic != "way+bill s%3Acrt%2F%2B" || e.last.Get("grant_type") != "client_credentials" ||
		e.last.Get("scope") != "a b" || e.last.Get("audience") != "https://aud" || e.last.Has("client_secret") {
		t.Errorf("the client came as %q with %v", e.basic, e.last)
	}
	// A token that has less than its margin left is replaced before it ends.
	c.tokens.mu.Lock()
	left := time.Until(c.tokens.by["ep_1"].until)
	c.tokens.by["ep_1"].until = time.Now()
	c.tokens.mu.Unlock()
	if left > time.Hour-tokenMargin || left < time.Hour-2*tokenMargin {
		t.Errorf("a token of an hour is used for %s", left)
	}
	if res := try(t, c, r.post(how)); res.Outcome != outcome.Delivered || e.issued.Load() != 2 || res.Auth == 0 ||
		res.Auth > res.Total {
		t.Errorf("%+v after %d tokens", res, e.issued.Load())
	}
	post := e.client(func(o *registry.ClientCredentials) { o.Auth, o.ID = registry.AuthPost, "2" })
	if res := try(t, c, r.post(post)); res.Outcome != outcome.Delivered || e.issued.Load() != 3 ||
		e.last.Get("client_id") != "way bill" || e.last.Get("client_secret") != "s:crt/+" ||
		strings.TrimSpace(e.basic) != "" {
		t.Errorf("changed credentials: %+v, %v", res, e.last)
	}
}

func TestATokenThatWasWithdrawnIsReplacedAtTheNextAttempt(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	e := newTokenEndpoint(t, ca.Server(in(time.Hour)))
	r := e.guarded(ca.Server(in(time.Hour)))
	c := newTestClient(t, Options{RootCAs: ca.Pool()})
	attempt := func(outcome outcome.Outcome, status int, tokens, requests int64) {
		t.Helper()
		res := try(t, c, r.post(e.client(nil)))
		if res.Outcome != outcome || res.Status != status || e.issued.Load() != tokens || r.requests.Load() != requests {
			t.Errorf("got %s %d (%s) after %d tokens and %d requests, want %s %d, %d, %d", res.Outcome, res.Status, res.Err,
				e.issued.Load(), r.requests.Load(), outcome, status, tokens, requests)
		}
	}
	attempt(outcome.Delivered, 200, 1, 1)
	e.revokeAll()
	attempt(outcome.AuthFailure, 401, 1, 2) // one request, no second one in its shadow
	attempt(outcome.Delivered, 200, 2, 3)
	// A new token that is refused at once will be again.
	e.revokeAll()
	attempt(outcome.AuthFailure, 401, 2, 4)
	e.failWith(func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, `{"access_token":"of-no-use","token_type":"Bearer"}`)
		return true
	})
	attempt(outcome.StatusTerminal, 401, 3, 5)
}

func TestATokenEndpointThatFailsIsAnAttemptOfItsOwnWithoutARequest(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
			return true
		}
	}
	for name, tt := range map[string]struct {
		fail func(http.ResponseWriter, *http.Request) bool
		text string
	}{
		"it refuses the client": {answer(401, `{"error":"invalid_client","error_description":"hunter2"}`),
			"it answered 401, invalid_client"},
		"it refuses with no reason": {answer(400, "hunter2"), "it answered 400"},
		"it invents a reason":       {answer(400, `{"error":"hunter2 <script>"}`), "it answered 400"},
		"it is down":                {answer(503, ""), "it answered 503"},
		"it redirects": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusTemporaryRedirect)
			return true
		}, "it answered 307"},
		"it answers no JSON":        {answer(200, "hunter2"), "not the JSON"},
		"it answers no token":       {answer(200, `{"token_type":"bearer"}`), "no access token"},
		"a token with a line break": {answer(200, `{"access_token":"a\r\nX: y","token_type":"bearer"}`), "no access token"},
		"a token of another type":   {answer(200, `{"access_token":"abc","token_type":"DPoP"}`), "another type"},
		"a token that has ended": {answer(200, `{"access_token":"abc","token_type":"bearer","expires_in":0}`),
			"expires_in"},
		"a token as large as a house": {answer(200, `{"access_token":"`+strings.Repeat("a", 100_000)+`"}`),
			"longer than the limit"},
		"it hangs up": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
			"the token endpoint"},
		"it never answers": {func(_ http.ResponseWriter,
			r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, "answer in time"},
		"it starts and never finishes": {func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTokenEndpoint(t, ca.Server(in(time.Hour)))
			r := e.guarded(ca.Server(in(time.Hour)))
			e.failWith(tt.fail)
			req := r.post(e.client(nil))
			if strings.HasSuffix(tt.text, "in time") {
				req.Timeout = quick
			}
			res := try(t, newTestClient(t, Options{RootCAs: ca.Pool()}), req)
			if res.Outcome != outcome.AuthFailure || res.Class != outcome.ClassRetryable ||
				!strings.Contains(res.Err, tt.text) || strings.Contains(res.Err, "hunter2") || res.GotResponse {
				t.Errorf("got %s %s, want %q", res.Outcome, res.Err, tt.text)
			}
			if r.requests.Load() != 0 {
				t.Errorf("the receiver got %d requests", r.requests.Load())
			}
		})
	}
}

func TestATokenEndpointIsHeldToTheEgressPolicyAndToVerifiedTLS(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	e := newTokenEndpoint(t, ca.Server(in(time.Hour)))
	r := e.guarded(ca.Server(in(time.Hour)))
	for name, where := range map[string]string{"a private address": "https://10.0.0.1/token",
		"the metadata address": "https://169.254.169.254/token"} {
		how := e.client(func(o *registry.ClientCredentials) { o.TokenURL = where })
		res := try(t, newTestClient(t, Options{RootCAs: ca.Pool()}), r.post(how))
		if res.Outcome != outcome.AuthFailure || !strings.Contains(res.Err, "--egress-allow") || e.issued.Load() != 0 {
			t.Errorf("%s: %s %s", name, res.Outcome, res.Err)
		}
	}
	if res := try(t, newTestClient(t, Options{}), r.post(e.client(nil))); res.Outcome != outcome.AuthFailure ||
		!strings.Contains(res.Err, "TLS") || e.issued.Load() != 0 {
		t.Errorf("an unknown issuer: %s %s", res.Outcome, res.Err)
	}
	// The endpoint's own issuers hold for its token endpoint; its certificate does not.
	client := ca.Client("good", in(time.Hour))
	if res := try(t, newTestClient(t, Options{}),
		r.post(e.client(nil), as(t, "ep_1", "1", ca, nil))); res.Outcome != outcome.Delivered {
		t.Errorf("the endpoint's issuers: %s %s", res.Outcome, res.Err)
	}
	if via := tokenConnection(as2(t, ca, client)); via.Certificate != nil {
		t.Error("the client certificate is presented to the token endpoint")
	}
}

func as2(t *testing.T, ca *testkit.CA, client testkit.Pair) *registry.Connection {
	var r attempt.Request
	as(t, "ep_1", "1", ca, &client)(&r)
	return r.Connection
}

func TestAStopDuringATokenSendsNothing(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	e := newTokenEndpoint(t, ca.Server(in(time.Hour)))
	r := e.guarded(ca.Server(in(time.Hour)))
	reached := make(chan struct{})
	e.failWith(func(_ http.ResponseWriter, req *http.Request) bool {
		close(reached)
		<-req.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-reached; cancel(errors.New("stop")) }()
	c := newTestClient(t, Options{RootCAs: ca.Pool()})
	res := tryContext(t, ctx, c, r.post(e.client(nil)))
	if res.Outcome != outcome.NotSent || res.Fault || r.requests.Load() != 0 {
		t.Errorf("%s %s", res.Outcome, res.Err)
	}
	c.Close() // ends the fetch
}

func TestSecretsThatAReceiverEchoesAreCutOut(t *testing.T) {
	secret := "k-" + strings.Repeat("0123456789abcdef", 300) // longer than the window
	for name, body := range map[string]string{"whole": "you sent short-secret.",
		"cut off by the window": "you sent " + secret, "twice": "short-secret, short-secret"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, body) }))
		t.Cleanup(s.Close)
		req := post(s.URL, patient)
		req.Sensitive = []string{secret, "short-secret", "1"}
		res := try(t, newTestClient(t, Options{}), req)
		if strings.Contains(res.Excerpt, "0123456789") || strings.Contains(res.Excerpt, "short-secret") ||
			res.Redacted["own"] == 0 {
			t.Errorf("%s: %q, %v", name, res.Excerpt, res.Redacted)
		}
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add(200, `{"access_token":"abc","token_type":"bearer","expires_in":"3600"}`)
	f.Add(400, `{"error":"invalid_client"}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		value, life, err := readToken(status, []byte(body))
		if err == nil && (value == "" || life <= 0 || life > 24*time.Hour || strings.ContainsAny(value, " \r\n")) {
			t.Errorf("%q for %s", value, life)
		}
	})
}
