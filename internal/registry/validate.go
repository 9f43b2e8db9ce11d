package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// Bounds of what requests carry besides their signature. Servers commonly take
// 8 KiB of headers in all, some 16.
const (
	maxHeaders     = 32
	maxHeaderName  = 128
	maxHeaderValue = 4096
	maxHeaderBytes = 12 << 10
	maxPEM         = 48 << 10 // a chain of a few certificates, an RSA key
	maxScopes      = 32
)

// validateCredentials looks at what can be told without a secrets key.
func (e Endpoint) validateCredentials() error {
	if len(e.Headers) > maxHeaders {
		return fmt.Errorf("headers: %d; at most %d", len(e.Headers), maxHeaders)
	}
	seen := map[string]bool{strings.ToLower(e.SignatureHeader): true}
	for _, h := range e.Headers {
		if err := validateHeaderName(h.Name); err != nil {
			return err
		}
		if lower := strings.ToLower(h.Name); seen[lower] {
			return fmt.Errorf("headers: %.64q is there twice, or is the signature's", h.Name)
		} else {
			seen[lower] = true
		}
		if err := h.Sealed.Validate(); err != nil {
			return fmt.Errorf("headers: %.64q: %w", h.Name, err)
		}
	}
	if e.Authorization != nil && e.OAuth2 != nil {
		return errors.New("authorization: the endpoint has oauth2, which sets the same header; keep one of the two")
	}
	return errors.Join(e.validateEncrypted(), e.validateOAuth2(), e.validateConnection())
}

// validateEncrypted keeps credentials off connections that anybody can read.
func (e Endpoint) validateEncrypted() error {
	type credential struct {
		field string
		value sealed.Value
	}
	var all []credential
	if e.Authorization != nil {
		all = append(all, credential{"authorization", e.Authorization.Sealed})
	}
	if e.ClientCertificate != nil {
		all = append(all, credential{"client_certificate", e.ClientCertificate.Key})
	}
	if e.OAuth2 != nil {
		all = append(all, credential{"oauth2", e.OAuth2.Secret})
	}
	for _, c := range all {
		if err := c.value.Validate(); err != nil {
			return fmt.Errorf("%s: %w", c.field, err)
		}
		if Origin(e.URL) != "" && !strings.HasPrefix(Origin(e.URL), "https://") {
			return fmt.Errorf("%s: needs a url that begins with https://", c.field)
		}
	}
	if e.CA != "" && strings.HasPrefix(Origin(e.URL), "http://") {
		return errors.New("ca: needs a url that begins with https://")
	}
	return nil
}

func (e Endpoint) validateOAuth2() error {
	o := e.OAuth2
	if o == nil {
		return nil
	}
	t, err := egress.ParseURL(o.TokenURL)
	if err != nil {
		return fmt.Errorf("oauth2.token_url: %w", err)
	}
	if !t.Secure {
		return errors.New("oauth2.token_url: would send the client's secret unencrypted; use https://")
	}
	if o.ClientID == "" || len(o.ClientID) > maxHeaderValue || !visible(o.ClientID, true) {
		return fmt.Errorf("oauth2.client_id: want 1 to %d visible ASCII characters", maxHeaderValue)
	}
	if len(o.Scopes) > maxScopes {
		return fmt.Errorf("oauth2.scopes: %d; at most %d", len(o.Scopes), maxScopes)
	}
	for _, s := range o.Scopes {
		if s == "" || len(s) > maxHeaderName || !visible(s, false) || strings.ContainsAny(s, `"\`) {
			return fmt.Errorf("oauth2.scopes: %.64q; want 1 to %d visible ASCII characters without space, quote and backslash",
				s, maxHeaderName)
		}
	}
	if len(o.Audience) > maxURL || !visible(o.Audience, true) {
		return fmt.Errorf("oauth2.audience: want at most %d visible ASCII characters", maxURL)
	}
	if o.Auth != AuthBasic && o.Auth != AuthPost {
		return fmt.Errorf("oauth2.auth: %.20q; want %s or %s", o.Auth, AuthBasic, AuthPost)
	}
	return nil
}

func (e Endpoint) validateConnection() error {
	if e.CA != "" {
		if _, err := Certificates(e.CA); err != nil {
			return fmt.Errorf("ca: %w", err)
		}
	}
	if e.EgressProxy != "" {
		if _, err := egress.ParseProxy(e.EgressProxy, false); err != nil {
			return fmt.Errorf("egress_proxy: %w", err)
		}
	}
	return nil
}

// validateHeaderName refuses what is no name, what belongs to one connection
// only (RFC 9110, section 7.6.1), and what HTTP or Waybill gives a meaning.
func validateHeaderName(name string) error {
	if name == "" || len(name) > maxHeaderName {
		return fmt.Errorf("headers: a name of %d characters; want 1 to %d", len(name), maxHeaderName)
	}
	for i := range len(name) {
		if c := name[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return fmt.Errorf("headers: %.64q: byte %d cannot be in a header's name; use letters, digits and '-'", name, i)
		}
	}
	lower := strings.ToLower(name)
	if lower == "authorization" {
		return errors.New("headers: Authorization has a field of its own; use authorization (--authorization-file)")
	}
	reserved := []string{"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "expect",
		"date", "via",
		"forwarded", "max-forwards", "user-agent", "accept-encoding", "idempotency-key", "traceparent", "tracestate",
		"http2-settings"}
	prefixes := []string{"proxy-", "content-", "sec-", "webhook-", "waybill-"}
	if slices.Contains(reserved, lower) || slices.ContainsFunc(prefixes,
		func(p string) bool { return strings.HasPrefix(lower, p) }) {
		return fmt.Errorf("headers: %q is set by HTTP or by Waybill; choose another name", name)
	}
	return nil
}

// validateHeaderValue never quotes the value.
func validateHeaderValue(v string) error {
	switch {
	case v == "" || len(v) > maxHeaderValue:
		return fmt.Errorf("a value of %d bytes; want 1 to %d", len(v), maxHeaderValue)
	case !visible(v, true):
		return errors.New("the value has a line break, a control character, or one outside of ASCII; remove it")
	case strings.TrimSpace(v) != v:
		return errors.New("the value begins or ends with a space; remove it")
	}
	return nil
}

// visible says whether s is printable ASCII, with spaces where allowed.
func visible(s string, spaces bool) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == ' ' && !spaces {
			return false
		}
	}
	return true
}
