package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Header is a header that requests carry. Its value may be secret, so it is
// always sealed; its name is not.
type Header struct {
	Name   string       `json:"name"`
	Sealed sealed.Value `json:"sealed"`
}

// Authorization is the Authorization header. Scheme is its first word, which
// says how it authorizes and nothing more.
type Authorization struct {
	Scheme string       `json:"scheme"`
	Sealed sealed.Value `json:"sealed"`
}

// ClientCertificate is what connections present. Chain is PEM, the leaf first;
// the other fields repeat what the leaf says, for people.
type ClientCertificate struct {
	Chain       string       `json:"chain"`
	Key         sealed.Value `json:"key"`
	Subject     string       `json:"subject"`
	Issuer      string       `json:"issuer"`
	Fingerprint string       `json:"fingerprint"` // SHA-256 of the leaf, hex
	NotBefore   time.Time    `json:"not_before"`
	NotAfter    time.Time    `json:"not_after"`
}

// OAuth2 is the client credentials grant (RFC 6749, section 4.4) that requests
// get their bearer token from.
type OAuth2 struct {
	TokenURL string       `json:"token_url"`
	ClientID string       `json:"client_id"`
	Secret   sealed.Value `json:"secret"`
	Scopes   []string     `json:"scopes,omitempty"`
	Audience string       `json:"audience,omitempty"`
	// Auth is how the client names itself: AuthBasic or AuthPost.
	Auth string `json:"auth"`
}

// How an OAuth2 client names itself to the token endpoint.
const (
	AuthBasic = "basic" // in the Authorization header
	AuthPost  = "post"  // in the body
)

// Origin is where a URL's requests go: scheme, host and port.
func Origin(raw string) string {
	t, err := egress.ParseURL(raw)
	if err != nil {
		return ""
	}
	return t.URL.Scheme + "://" + t.Host + ":" + strconv.Itoa(int(t.Port))
}

// Destination is who can read what the endpoint's requests carry: the origin,
// as the issuers vouch for it that the endpoint adds, and over plain HTTP the
// proxy.
func (e *Endpoint) Destination() string {
	d := Origin(e.URL)
	if e.CA != "" {
		sum := sha256.Sum256([]byte(e.CA))
		d += " with CA " + hex.EncodeToString(sum[:])
	}
	if e.EgressProxy != "" && strings.HasPrefix(d, "http://") {
		d += " through " + e.EgressProxy
	}
	return d
}

// The places that secrets are sealed for. What requests carry is bound to the
// destination that it was given for: whoever can change where an endpoint goes,
// in the registry or through the API, cannot make it send its credentials there.
func (e *Endpoint) secretPlace(keyID string) sealed.Place {
	return sealed.Place{Owner: e.ID, Field: "secret/" + keyID}
}

func (e *Endpoint) headerPlace(name string) sealed.Place {
	return sealed.Place{Owner: e.ID, Field: "header/" + strings.ToLower(name), Destination: e.Destination()}
}

func (e *Endpoint) authorizationPlace() sealed.Place {
	return sealed.Place{Owner: e.ID, Field: "authorization", Destination: e.Destination()}
}

func (e *Endpoint) clientKeyPlace() sealed.Place {
	return sealed.Place{Owner: e.ID, Field: "client_key/" + e.ClientCertificate.Fingerprint}
}

// The token goes to the endpoint's destination, the secret to the token endpoint.
func (e *Endpoint) oauth2Place() sealed.Place {
	return sealed.Place{Owner: e.ID, Field: "oauth2/" + e.OAuth2.ClientID,
		Destination: e.Destination() + " by " + e.OAuth2.TokenURL}
}

// SealSecret makes the stored form of a signing key of this endpoint.
func (e *Endpoint) SealSecret(ring *sealed.Keyring, key envelope.Key) Secret {
	s := Secret{KeyID: key.ID, Sealed: ring.Seal(key.Reveal(), e.secretPlace(key.ID))}
	if public, ok := key.Public(); ok {
		s.PublicKey = public.Reveal()
	}
	return s
}

// SetHeaders replaces the headers. The errors name the header, never a value.
func (e *Endpoint) SetHeaders(ring *sealed.Keyring, headers map[string]string) error {
	e.Headers = nil
	total := 0
	for _, name := range sortedNames(headers) {
		if err := validateHeaderName(name); err != nil {
			return err
		}
		if err := validateHeaderValue(headers[name]); err != nil {
			return fmt.Errorf("headers: %.64q: %w", name, err)
		}
		if total += len(name) + len(headers[name]); total > maxHeaderBytes {
			return fmt.Errorf("headers: more than %d bytes in all", maxHeaderBytes)
		}
		e.Headers = append(e.Headers, Header{Name: name, Sealed: ring.Seal(headers[name], e.headerPlace(name))})
	}
	return nil
}

func sortedNames(headers map[string]string) []string {
	var names []string
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SetAuthorization sets the Authorization header's value; an empty one removes it.
func (e *Endpoint) SetAuthorization(ring *sealed.Keyring, value string) error {
	if e.Authorization = nil; value == "" {
		return nil
	}
	if err := validateHeaderValue(value); err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	scheme, _, ok := strings.Cut(value, " ")
	if !ok {
		scheme = "" // one word: all of it may be the secret
	}
	e.Authorization = &Authorization{Scheme: scheme, Sealed: ring.Seal(value, e.authorizationPlace())}
	return nil
}

// SetClientCertificate sets the certificate that connections present, with its
// private key, both PEM; two empty strings remove it.
func (e *Endpoint) SetClientCertificate(ring *sealed.Keyring, chain, key string, now time.Time) error {
	if e.ClientCertificate = nil; chain == "" && key == "" {
		return nil
	}
	if len(chain) > maxPEM || len(key) > maxPEM {
		return fmt.Errorf("client_certificate: more than %d bytes of PEM", maxPEM)
	}
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		return fmt.Errorf("client_certificate: %w; give the chain, the leaf first, and the unencrypted private key of the "+
			"leaf, both PEM", pemError(err))
	}
	leaf := pair.Leaf
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("client_certificate: it expired at %s; give a new one", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if !clientUse(leaf) {
		return errors.New("client_certificate: it is not for client authentication (extended key usage); ask its issuer " +
			"for one that is")
	}
	sum := sha256.Sum256(leaf.Raw)
	e.ClientCertificate = &ClientCertificate{Chain: certificatesOnly(pair.Certificate), Subject: leaf.Subject.String(),
		Issuer:      leaf.Issuer.String(),
		Fingerprint: hex.EncodeToString(sum[:]), NotBefore: leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC()}
	e.ClientCertificate.Key = ring.Seal(key, e.clientKeyPlace())
	return nil
}

// certificatesOnly keeps a private key that a file of both held out of what is
// stored in the clear.
func certificatesOnly(chain [][]byte) string {
	var b strings.Builder
	for _, der := range chain {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return b.String()
}

// pemError keeps what a file holds out of an error: crypto/tls names block types alone.
func pemError(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "tls: ")) }

func clientUse(c *x509.Certificate) bool {
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 {
		return true
	}
	return slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) ||
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// SetOAuth2 sets the client credentials. o.Secret is ignored: secret is sealed.
func (e *Endpoint) SetOAuth2(ring *sealed.Keyring, o OAuth2, secret string) error {
	if secret == "" || len(secret) > maxHeaderValue {
		return fmt.Errorf("oauth2.client_secret: %d bytes; want 1 to %d", len(secret), maxHeaderValue)
	}
	e.OAuth2 = &o
	o.Secret = ring.Seal(secret, e.oauth2Place())
	return nil
}

// Certificates parses PEM that holds nothing but certificates.
func Certificates(text string) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, fmt.Errorf("more than %d bytes of PEM", maxPEM)
	}
	var out []*x509.Certificate
	rest := []byte(text)
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("holds a %.40q block; give certificates alone", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("holds no certificate in PEM (-----BEGIN CERTIFICATE-----)")
	}
	return out, nil
}

// DropCredentials removes everything that is secret: for an endpoint that has
// no more use for it.
func (e *Endpoint) DropCredentials() {
	e.Secrets, e.Headers, e.Authorization, e.ClientCertificate, e.OAuth2 = nil, nil, nil, nil, nil
}

// authorizationSecret is the part of an Authorization header that is secret.
func authorizationSecret(v string) string {
	if _, rest, ok := strings.Cut(v, " "); ok {
		return rest
	}
	return v
}
