package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

const (
	// maxTokenAnswer bounds a token endpoint's answer; a token has a few KiB.
	maxTokenAnswer = 64 << 10
	maxToken       = 16 << 10
	// defaultTokenLife is for answers without expires_in.
	defaultTokenLife = 5 * time.Minute
	// tokenMargin is how long before its end a token is replaced: longer than
	// an attempt lasts, so that none is on its way with a token that ends.
	tokenMargin = time.Minute
	// maxTokens bounds what is remembered; forgetting one costs a request.
	maxTokens = 10_000
)

// tokens are the access tokens of endpoints, one each.
type tokens struct {
	mu sync.Mutex
	by map[string]*token // by owner
}

type token struct {
	id    string // of the credentials that got it
	value string
	until time.Time
	fetch *fetch // under way; value is not valid then
}

// fetch is one request to a token endpoint that many attempts wait for.
type fetch struct {
	done  chan struct{}
	value string
	err   error // its text is for the record
}

// get returns a token, and whether it was got for this attempt.
func (c *Client) token(ctx context.Context, r request, limit time.Time) (value string, fresh bool, err error) {
	t := &c.tokens
	t.mu.Lock()
	have := t.by[r.Owner]
	if have == nil || have.id != r.OAuth2.ID {
		t.makeRoom()
		have = &token{id: r.OAuth2.ID}
		t.by[r.Owner] = have
	}
	if have.fetch == nil && have.value != "" && time.Now().Before(have.until) {
		value := have.value
		t.mu.Unlock()
		return value, false, nil
	}
	f := have.fetch
	if f == nil {
		f = &fetch{done: make(chan struct{})}
		have.fetch, have.value = f, ""
		// It is not this attempt's alone: a stop of this one does not end it.
		go c.fetchToken(context.WithoutCancel(ctx), r, limit, have, f)
	}
	t.mu.Unlock()
	select {
	case <-f.done:
		return f.value, true, f.err
	case <-ctx.Done():
		return "", true, context.Cause(ctx)
	}
}

// makeRoom forgets tokens that have ended, or all, when there are too many.
func (t *tokens) makeRoom() {
	if len(t.by) < maxTokens {
		return
	}
	now := time.Now()
	for owner, have := range t.by {
		if have.fetch == nil && now.After(have.until) {
			delete(t.by, owner)
		}
	}
	if len(t.by) >= maxTokens {
		clear(t.by)
	}
}

// reject forgets a token that a receiver did not take, unless it is replaced already.
func (t *tokens) reject(owner, value string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.by[owner]; have != nil && have.value == value {
		have.value = ""
	}
}

func (c *Client) fetchToken(ctx context.Context, r request, limit time.Time, have *token, f *fetch) {
	ctx, cancel := context.WithDeadlineCause(ctx, limit, errAttemptTimeout)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	value, life, err := c.requestToken(ctx, r, limit)
	f.value, f.err = value, err
	c.tokens.mu.Lock()
	have.fetch, have.value, have.until = nil, value, time.Now().Add(life-min(tokenMargin, life/2))
	c.tokens.mu.Unlock()
	close(f.done)
}

// requestToken makes one request to the token endpoint, under the same rules as
// one to a receiver: the same egress policy, no redirect, bounded in time and size.
func (c *Client) requestToken(ctx context.Context, r request, limit time.Time) (value string, life time.Duration,
	err error) {
	o := r.OAuth2
	if err := c.opts.Egress.CheckURL(o.TokenURL); err != nil {
		return "", 0, tokenError(text.Spaced(err.Error()))
	}
	transport, release, err := c.transportOf(r.Owner+" token", o.TokenURL, tokenConnection(r.Connection))
	if err != nil {
		return "", 0, &attempt.Fault{Text: "the token endpoint: " + text.Spaced(err.Error())}
	}
	defer release()
	x := &exchange{now: c.opts.Now, started: c.opts.Now(), limit: limit}
	ask := tokenRequest(*o, r.Header.Get("User-Agent"))
	resp, err := c.roundTrip(x.attach(ctx), transport, ask, x)
	if err != nil {
		var res attempt.Result
		if c.failed(ctx, err, x, ask, &res); res.Fault {
			return "", 0, &attempt.Fault{Text: "the token endpoint: " + strings.TrimPrefix(res.Err, attempt.NeverSent)}
		}
		return "", 0, tokenError(res.Err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer+1))
	switch {
	case x.tooEarly(resp.ProtoMajor):
		return "", 0, tokenError(earlyText)
	case err != nil:
		return "", 0, tokenError("no complete answer in time")
	case len(body) > maxTokenAnswer:
		return "", 0, tokenError("its answer is longer than the limit")
	}
	return readToken(resp.StatusCode, body)
}

// tokenConnection is how the token endpoint is reached: as the endpoint is, but
// without the client certificate, which is for the receiver.
func tokenConnection(via *registry.Connection) *registry.Connection {
	if via == nil || len(via.CAs) == 0 && via.Proxy == "" {
		return nil
	}
	return &registry.Connection{ID: via.ID, CAs: via.CAs, Proxy: via.Proxy}
}

// tokenRequest follows RFC 6749, sections 4.4.2 and 2.3.1.
func tokenRequest(o registry.ClientCredentials, userAgent string) request {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(o.Scopes) > 0 {
		form.Set("scope", strings.Join(o.Scopes, " "))
	}
	if o.Audience != "" {
		form.Set("audience", o.Audience)
	}
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if userAgent != "" {
		h.Set("User-Agent", userAgent)
	}
	if o.Auth == registry.AuthPost {
		form.Set("client_id", o.ClientID)
		form.Set("client_secret", o.ClientSecret)
	} else {
		pair := url.QueryEscape(o.ClientID) + ":" + url.QueryEscape(o.ClientSecret)
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return request{Request: attempt.Request{URL: o.TokenURL, Header: h, Body: []byte(form.Encode())}}
}

// readToken never quotes the answer but for an error code of RFC 6749.
func readToken(status int, body []byte) (value string, life time.Duration, err error) {
	var answer struct {
		AccessToken string          `json:"access_token"`
		TokenType   string          `json:"token_type"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
		Error       string          `json:"error"`
	}
	notJSON := json.Unmarshal(body, &answer)
	switch {
	case status != http.StatusOK && errorCode(answer.Error):
		return "", 0, tokenError(fmt.Sprintf("it answered %d, %s", status, answer.Error))
	case status != http.StatusOK:
		return "", 0, tokenError(fmt.Sprintf("it answered %d", status))
	case notJSON != nil:
		return "", 0, tokenError("its answer is not the JSON of RFC 6749")
	case answer.TokenType != "" && !strings.EqualFold(answer.TokenType, "bearer"):
		return "", 0, tokenError("its token is of another type than Bearer")
	case answer.AccessToken == "" || len(answer.AccessToken) > maxToken ||
		strings.ContainsFunc(answer.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", 0, tokenError("its answer has no access token that a header can carry")
	}
	life = defaultTokenLife
	if s := strings.Trim(string(answer.ExpiresIn), `"`); s != "" && s != "null" {
		seconds, err := json.Number(s).Float64() // some send a string, some a fraction
		if err != nil || seconds <= 0 {
			return "", 0, tokenError("its expires_in is no positive number")
		}
		life = time.Duration(min(seconds, (24*time.Hour).Seconds()) * float64(time.Second))
	}
	return answer.AccessToken, life, nil
}

func errorCode(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

func tokenError(text string) error { return errors.New("the token endpoint: " + text) }
