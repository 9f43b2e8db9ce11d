package registry

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// ErrPlainSecret says that an endpoint's secret is stored in the clear, as
// versions before sealing did.
var ErrPlainSecret = errors.New("a secret is stored in the clear, by an older version; seal it with: waybill " +
	"endpoint reseal")

// Opened is what an endpoint's revision needs for its requests, opened and
// parsed once. It is shared: nobody changes it.
type Opened struct {
	// Header are the headers that requests carry besides those of the envelope.
	Header http.Header
	// Sensitive are values that MUST NOT go on record, also not when a receiver
	// answers with them.
	Sensitive []string
	// Connection is nil when the endpoint connects as every other does.
	Connection *Connection
	OAuth2     *ClientCredentials // nil: none

	keys      []envelope.Key
	ends      []time.Time // of keys; zero: never
	firstEnds time.Time   // the earliest of ends that is not zero
	id        string      // of the endpoint
	url       string      // as it goes on record
}

// Connection is how an endpoint's connections differ from others'. Connections
// are shared by requests of one ID alone.
type Connection struct {
	ID          string           // of all that follows
	Certificate *tls.Certificate // Presented by every connection. nil: none
	CAs         []*x509.Certificate
	Proxy       string // URL. "": the dispatcher's
}

// ClientCredentials are an OAuth2 in the clear.
type ClientCredentials struct {
	OAuth2
	ClientSecret string
	ID           string // changes with anything that a token depends on
}

// String keeps the secret out of logs.
func (c *ClientCredentials) String() string { return "registry.ClientCredentials(" + c.ClientID + ")" }

// GoString keeps the secret out of %#v.
func (c *ClientCredentials) GoString() string { return c.String() }

// SafeURL is the URL as it goes on record: record.SafeURL, worked out once for
// an endpoint that was opened.
func (e *Endpoint) SafeURL() string {
	if e.opened != nil {
		if o := e.opened.Load(); o != nil {
			return o.url
		}
	}
	return record.SafeURL(e.URL)
}

// Open opens what the endpoint keeps sealed. On an endpoint of a View it does
// so once. An error is not remembered: the key may be added at any time.
func (e *Endpoint) Open(ring *sealed.Keyring) (*Opened, error) {
	if e.opened != nil {
		if o := e.opened.Load(); o != nil {
			return o, nil
		}
	}
	o, err := e.open(ring)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
	}
	if e.opened != nil {
		e.opened.Store(o)
	}
	return o, nil
}

func (e *Endpoint) open(ring *sealed.Keyring) (*Opened, error) {
	o := &Opened{id: e.ID, url: record.SafeURL(e.URL), Sensitive: record.URLSecrets(e.URL)}
	if err := e.openKeys(ring, o); err != nil {
		return nil, err
	}
	if err := e.openHeaders(ring, o); err != nil {
		return nil, err
	}
	if err := e.openConnection(ring, o); err != nil {
		return nil, err
	}
	if e.OAuth2 != nil {
		secret, err := ring.Open(e.OAuth2.Secret, e.oauth2Place())
		if err != nil {
			return nil, fmt.Errorf("oauth2: %w", err)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q", e.OAuth2.TokenURL, e.OAuth2.ClientID, secret,
			e.OAuth2.Scopes, e.OAuth2.Audience, e.OAuth2.Auth))
		o.OAuth2 = &ClientCredentials{OAuth2: *e.OAuth2, ClientSecret: secret, ID: hex.EncodeToString(sum[:])}
		o.Sensitive = append(o.Sensitive, secret)
	}
	return o, nil
}

func (e *Endpoint) openKeys(ring *sealed.Keyring, o *Opened) error {
	now := time.Now()
	for _, s := range e.Secrets {
		if s.Ended(now) {
			continue
		}
		if s.Plain != "" {
			return ErrPlainSecret
		}
		plain, err := ring.Open(s.Sealed, e.secretPlace(s.KeyID))
		if err != nil {
			return fmt.Errorf("secret %s: %w", s.KeyID, err)
		}
		k, err := envelope.ParseSecretFor(e.Scheme, plain)
		if err != nil {
			return fmt.Errorf("secret %s: %w", s.KeyID, err)
		}
		o.keys, o.ends = append(o.keys, k), append(o.ends, s.ExpiresAt)
		if !s.ExpiresAt.IsZero() && (o.firstEnds.IsZero() || s.ExpiresAt.Before(o.firstEnds)) {
			o.firstEnds = s.ExpiresAt
		}
	}
	return nil
}

// Keys returns the keys that sign at a moment, the newest first.
func (o *Opened) Keys(at time.Time) ([]envelope.Key, error) {
	keys := o.keys
	if !o.firstEnds.IsZero() && !at.Before(o.firstEnds) {
		keys = nil
		for i, k := range o.keys {
			if o.ends[i].IsZero() || at.Before(o.ends[i]) {
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("endpoint %s has no active secret; make one with: waybill endpoint rotate-secret %s", o.id,
			o.id)
	}
	return keys, nil
}

func (e *Endpoint) openHeaders(ring *sealed.Keyring, o *Opened) error {
	if len(e.Headers) == 0 && e.Authorization == nil {
		return nil
	}
	o.Header = http.Header{}
	for _, h := range e.Headers {
		v, err := ring.Open(h.Sealed, e.headerPlace(h.Name))
		if err != nil {
			return fmt.Errorf("header %s: %w", h.Name, err)
		}
		o.Header.Set(h.Name, v)
		o.Sensitive = append(o.Sensitive, v)
	}
	if e.Authorization == nil {
		return nil
	}
	v, err := ring.Open(e.Authorization.Sealed, e.authorizationPlace())
	if err != nil {
		return fmt.Errorf("authorization: %w", err)
	}
	o.Header.Set("Authorization", v)
	o.Sensitive = append(o.Sensitive, authorizationSecret(v))
	return nil
}

func (e *Endpoint) openConnection(ring *sealed.Keyring, o *Opened) error {
	if e.ClientCertificate == nil && e.CA == "" && e.EgressProxy == "" {
		return nil
	}
	c := &Connection{Proxy: e.EgressProxy}
	chain := ""
	if e.ClientCertificate != nil {
		chain = e.ClientCertificate.Chain
		key, err := ring.Open(e.ClientCertificate.Key, e.clientKeyPlace())
		if err != nil {
			return fmt.Errorf("client certificate: %w", err)
		}
		pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
		if err != nil {
			return fmt.Errorf("client certificate: %w", pemError(err))
		}
		c.Certificate = &pair
	}
	if e.CA != "" {
		cas, err := Certificates(e.CA)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		c.CAs = cas
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", chain, e.CA, e.EgressProxy))
	c.ID = hex.EncodeToString(sum[:])
	o.Connection = c
	return nil
}
