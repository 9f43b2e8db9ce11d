package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
)

// AuthorizationSpec is an Authorization header: exactly one of the three.
type AuthorizationSpec struct {
	Bearer string     `json:"bearer"`
	Basic  *BasicAuth `json:"basic"`
	// Raw is the header's whole value.
	Raw string `json:"raw"`
}

// BasicAuth is a user and password (RFC 7617).
type BasicAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// ClientCertificateSpec is a certificate that connections present. Both are PEM.
type ClientCertificateSpec struct {
	Certificate string `json:"certificate"` // the chain, the leaf first
	Key         string `json:"key"`         // of the leaf, unencrypted
}

// OAuth2Spec is the client credentials grant.
type OAuth2Spec struct {
	TokenURL     string   `json:"token_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Scopes       []string `json:"scopes"`   // Optional
	Audience     string   `json:"audience"` // Optional
	Auth         string   `json:"auth"`     // Optional: basic; or post
}

// Certificate is one as people are shown it.
type Certificate struct {
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Fingerprint string    `json:"fingerprint"` // SHA-256, hex
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

// ClientCertificate is what connections present.
type ClientCertificate struct{ Certificate }

// OAuth2 is the client credentials grant without its secret.
type OAuth2 struct {
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes,omitempty"`
	Audience string   `json:"audience,omitempty"`
	Auth     string   `json:"auth"`
}

// UnmarshalJSON refuses fields that it does not know: one that is mistyped
// would leave an endpoint without a credential.
func (a *AuthorizationSpec) UnmarshalJSON(b []byte) error {
	type plain AuthorizationSpec
	return strictly(b, (*plain)(a))
}

// UnmarshalJSON refuses fields that it does not know.
func (c *ClientCertificateSpec) UnmarshalJSON(b []byte) error {
	type plain ClientCertificateSpec
	return strictly(b, (*plain)(c))
}

// UnmarshalJSON refuses fields that it does not know.
func (o *OAuth2Spec) UnmarshalJSON(b []byte) error {
	type plain OAuth2Spec
	return strictly(b, (*plain)(o))
}

func strictly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// credentials are what a spec or a patch says of what is sealed; a nil field
// stays as it is.
type credentials struct {
	headers           *map[string]string
	authorization     *AuthorizationSpec
	clientCertificate *ClientCertificateSpec
	oauth2            *OAuth2Spec
}

func (s EndpointSpec) credentials() credentials {
	return credentials{&s.Headers, s.Authorization, s.ClientCertificate, s.OAuth2}
}

func (p EndpointPatch) credentials() credentials {
	var c credentials
	if p.names("headers") {
		c.headers = &p.Headers
	}
	if p.names("authorization") {
		c.authorization = p.Authorization
	}
	if p.names("client_certificate") {
		c.clientCertificate = p.ClientCertificate
	}
	if p.names("oauth2") {
		c.oauth2 = p.OAuth2
	}
	return c
}

func (c credentials) seals() bool {
	return c.headers != nil && len(*c.headers) > 0 || c.authorization != nil || c.clientCertificate != nil ||
		c.oauth2 != nil
}

// keys are those that seal.
func (c *Control) keys() (*sealed.Keyring, error) {
	if c.o.Keys == nil {
		return nil, failure(CodeNoKey, "this seals a secret, and no secrets key is configured; set --secrets-key-file "+
			"(WAYBILL_SECRETS_KEY_FILE) or %s to the one that the dispatchers have", sealed.EnvKeys)
	}
	return c.o.Keys, nil
}

// applyCredentials seals what is given, for the endpoint as it is otherwise.
func (c *Control) applyCredentials(set credentials, e *registry.Endpoint) error {
	if err := c.checkProxy(e.EgressProxy); err != nil {
		return err
	}
	if set.headers != nil {
		e.Headers = nil
	}
	if !set.seals() {
		return nil
	}
	ring, err := c.keys()
	if err != nil {
		return err
	}
	if set.headers != nil {
		if err := e.SetHeaders(ring, *set.headers); err != nil {
			return rejected(err)
		}
	}
	if set.authorization != nil {
		value, err := set.authorization.value()
		if err == nil {
			err = e.SetAuthorization(ring, value)
		}
		if err != nil {
			return rejected(err)
		}
	}
	if set.clientCertificate != nil {
		if err := e.SetClientCertificate(ring, set.clientCertificate.Certificate, set.clientCertificate.Key,
			c.o.Now()); err != nil {
			return rejected(err)
		}
		if e.ClientCertificate == nil {
			return invalid("client_certificate", "is empty; give certificate and key, both PEM, or null to have none")
		}
	}
	if set.oauth2 != nil {
		return c.applyOAuth2(ring, *set.oauth2, e)
	}
	return nil
}

func (c *Control) applyOAuth2(ring *sealed.Keyring, o OAuth2Spec, e *registry.Endpoint) error {
	if o.Auth == "" {
		o.Auth = registry.AuthBasic
	}
	if err := c.o.Egress.CheckURL(o.TokenURL); err != nil {
		return &Error{Code: CodeInvalid, Field: "oauth2.token_url", Err: err}
	}
	return rejected(e.SetOAuth2(ring, registry.OAuth2{TokenURL: o.TokenURL, ClientID: o.ClientID, Scopes: o.Scopes,
		Audience: o.Audience, Auth: o.Auth}, o.ClientSecret))
}

func (c *Control) checkProxy(raw string) error {
	if raw == "" {
		return nil
	}
	p, err := egress.ParseProxy(raw, false)
	if err == nil {
		err = c.o.Egress.CheckURL(p.Safe())
	}
	if err != nil {
		return &Error{Code: CodeInvalid, Field: "egress_proxy", Err: err}
	}
	return nil
}

// value is the header's. Errors never quote what is secret.
func (a AuthorizationSpec) value() (string, error) {
	given := 0
	value := ""
	if a.Bearer != "" {
		given, value = given+1, "Bearer "+a.Bearer
	}
	if a.Basic != nil {
		if a.Basic.Username == "" || strings.Contains(a.Basic.Username, ":") {
			return "", invalid("authorization", "basic.username is empty or has a colon; RFC 7617 allows neither here")
		}
		given, value = given+1, "Basic "+base64.StdEncoding.EncodeToString([]byte(a.Basic.Username+":"+a.Basic.Password))
	}
	if a.Raw != "" {
		given, value = given+1, a.Raw
	}
	if given != 1 {
		return "", invalid("authorization", "want exactly one of bearer, basic and raw, got %d; null removes the header",
			given)
	}
	return value, nil
}

// follow clears what the patch clears, and keeps credentials from following
// the endpoint to another destination: whoever may change where an endpoint
// goes would be sent secrets that nobody can be shown.
func (p EndpointPatch) follow(e *registry.Endpoint, before string) error {
	if p.names("authorization") && p.Authorization == nil {
		e.Authorization = nil
	}
	if p.names("client_certificate") && p.ClientCertificate == nil {
		e.ClientCertificate = nil
	}
	if p.names("oauth2") && p.OAuth2 == nil {
		e.OAuth2 = nil
	}
	now := e.Destination()
	if before == now {
		return nil
	}
	kept := ""
	switch {
	case len(e.Headers) > 0 && !p.names("headers"):
		kept = "headers"
	case e.Authorization != nil && p.Authorization == nil:
		kept = "authorization"
	case e.OAuth2 != nil && p.OAuth2 == nil:
		kept = "oauth2"
	default:
		return nil
	}
	field := "url"
	if !p.names("url") && p.names("ca") {
		field = "ca"
	} else if !p.names("url") {
		field = "egress_proxy"
	}
	return invalid(field, "takes the endpoint's %s to another destination: they were given for %s, this is %s; give %s "+
		"again in the same change, or remove it", kept, before, now, kept)
}

// soon is when a certificate's end is worth a warning: time enough to get
// another one from a slow issuer.
const soon = 30 * 24 * time.Hour

func showCredentials(e registry.Endpoint, now time.Time, out *Endpoint) {
	for _, h := range e.Headers {
		out.Headers = append(out.Headers, h.Name)
	}
	if a := e.Authorization; a != nil {
		if out.Authorization = a.Scheme; a.Scheme == "" {
			out.Authorization = "raw"
		}
	}
	if c := e.ClientCertificate; c != nil {
		out.ClientCertificate = &ClientCertificate{Certificate{Subject: c.Subject, Issuer: c.Issuer,
			Fingerprint: c.Fingerprint, NotBefore: c.NotBefore, NotAfter: c.NotAfter}}
		out.warn("the client certificate", c.NotAfter, now)
	}
	if e.CA != "" {
		cas, err := registry.Certificates(e.CA)
		if err != nil {
			out.Warnings = append(out.Warnings, "ca: "+err.Error())
		}
		for _, c := range cas {
			sum := sha256.Sum256(c.Raw)
			out.CA = append(out.CA, Certificate{Subject: c.Subject.String(), Issuer: c.Issuer.String(),
				Fingerprint: hex.EncodeToString(sum[:]),
				NotBefore:   c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC()})
			out.warn("the CA "+c.Subject.String(), c.NotAfter, now)
		}
	}
	if o := e.OAuth2; o != nil {
		out.OAuth2 = &OAuth2{TokenURL: o.TokenURL, ClientID: o.ClientID, Scopes: o.Scopes, Audience: o.Audience, Auth: o.Auth}
	}
	out.EgressProxy = e.EgressProxy
}

func (e *Endpoint) warn(what string, ends, now time.Time) {
	switch left := ends.Sub(now); {
	case left <= 0:
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s expired at %s; replace it: waybill endpoint update %s", what,
			ends.UTC().Format(time.RFC3339), e.ID))
	case left < soon:
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s expires at %s, in %s; replace it: waybill endpoint update %s", what,
			ends.UTC().Format(time.RFC3339), text.Count(int(left.Hours()/24), "day", "days"), e.ID))
	}
}
