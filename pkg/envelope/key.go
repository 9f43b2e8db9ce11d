package envelope

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Scheme says how a key signs.
type Scheme string

const (
	// SchemeHMAC is Standard Webhooks' HMAC-SHA256 over "id.timestamp.body",
	// sent as "v1,<base64>".
	SchemeHMAC Scheme = "v1"
	// SchemeEd25519 is Standard Webhooks' Ed25519 over the same bytes, sent as
	// "v1a,<base64>". The receiver holds only the public key.
	SchemeEd25519 Scheme = "v1a"
	// SchemeTimestamped is HMAC-SHA256 over "timestamp.body", sent as
	// "t=<unix>,v1=<hex>" in a header of the endpoint's choice. The HMAC's key
	// is the whole secret as text, "whsec_" included, as Stripe's libraries
	// take it; SchemeHMAC's is the bytes that the text encodes.
	SchemeTimestamped Scheme = "t,v1"
)

// Validate reports whether s is one of the three schemes. The error is a
// *FieldError.
func (s Scheme) Validate() error {
	switch s {
	case SchemeHMAC, SchemeEd25519, SchemeTimestamped:
		return nil
	}
	return fieldErrorf("scheme", "unknown signature scheme %q; use %q, %q or %q", string(s), SchemeHMAC, SchemeEd25519,
		SchemeTimestamped)
}

// How a secret is written: one of these and standard base64 with padding.
const (
	PrefixHMAC           = "whsec_" // 24 to 64 random bytes
	PrefixEd25519Private = "whsk_"  // the 64 bytes seed‖public, or the 32-byte seed
	PrefixEd25519Public  = "whpk_"  // 32 bytes
)

const (
	minHMACBytes = 24
	maxHMACBytes = 64
	newHMACBytes = 32 // as strong as SHA-256 itself
)

// Domains keep what a key id is derived from apart from anything the same key
// ever signs: no signed content begins like this, because ids hold no space.
const (
	hmacIDDomain    = "waybill key id, hmac, v1"
	ed25519IDDomain = "waybill key id, ed25519, v1\x00"
)

// ErrNoPrivateKey is returned when a key that can only verify, or holds
// nothing, is asked to sign.
var ErrNoPrivateKey = errors.New("the key cannot sign: it is a public key or was never parsed")

// Key signs, or only verifies. Its zero value does neither. However it is
// printed or encoded, a Key shows its id and scheme alone; Reveal is the one
// way to its secret.
type Key struct {
	ID     string // for the record: stable, the same for both halves of a pair, tells nothing of the secret
	Scheme Scheme

	sealed *sealed
}

// sealed keeps the secret behind a function, because fmt calls no method on a
// field that is not exported, follows pointers there, and would print what it
// finds. It prints a function as an address.
type sealed struct{ open func() *material }

func seal(m material) *sealed { return &sealed{func() *material { return &m }} }

type material struct {
	scheme  Scheme // what it was parsed for, whatever Key.Scheme was set to since
	hmacKey []byte
	private ed25519.PrivateKey
	public  ed25519.PublicKey
	written string // as Reveal gives it
}

// ParseSecret reads a key as users exchange it: "whsec_…" (SchemeHMAC),
// "whsk_…" or "whpk_…" (SchemeEd25519; the latter can only verify).
// Errors never quote the secret.
func ParseSecret(secret string) (Key, error) {
	switch {
	case strings.HasPrefix(secret, PrefixHMAC):
		return ParseSecretFor(SchemeHMAC, secret)
	case strings.HasPrefix(secret, PrefixEd25519Private), strings.HasPrefix(secret, PrefixEd25519Public):
		return ParseSecretFor(SchemeEd25519, secret)
	}
	return Key{}, fmt.Errorf("secret: does not begin with %s, %s or %s", PrefixHMAC, PrefixEd25519Private,
		PrefixEd25519Public)
}

// ParseSecretFor is ParseSecret for a key that is to sign in this scheme. A
// "whsec_" secret serves SchemeHMAC and SchemeTimestamped, under the same id.
func ParseSecretFor(scheme Scheme, secret string) (Key, error) {
	switch scheme {
	case SchemeHMAC, SchemeTimestamped:
		raw, err := decodeSecret(secret, PrefixHMAC)
		if err != nil {
			return Key{}, err
		}
		if len(raw) < minHMACBytes || len(raw) > maxHMACBytes {
			return Key{}, fmt.Errorf("secret: %d bytes; a %s secret holds %d to %d", len(raw), PrefixHMAC, minHMACBytes,
				maxHMACBytes)
		}
		return hmacKey(scheme, raw, secret), nil
	case SchemeEd25519:
		if strings.HasPrefix(secret, PrefixEd25519Public) {
			return parsePublic(secret)
		}
		return parsePrivate(secret)
	}
	return Key{}, scheme.Validate()
}

func hmacKey(scheme Scheme, raw []byte, written string) Key {
	m := material{scheme: scheme, hmacKey: raw, written: written}
	if scheme == SchemeTimestamped {
		m.hmacKey = []byte(written)
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(hmacIDDomain))
	return Key{ID: deriveID(mac.Sum(nil)), Scheme: scheme, sealed: seal(m)}
}

func parsePrivate(secret string) (Key, error) {
	raw, err := decodeSecret(secret, PrefixEd25519Private)
	if err != nil {
		return Key{}, err
	}
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return Key{}, fmt.Errorf("secret: %d bytes; a %s key holds %d (seed and public key) or %d (seed)",
			len(raw), PrefixEd25519Private, ed25519.PrivateKeySize, ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if len(raw) == ed25519.PrivateKeySize && !private.Equal(ed25519.PrivateKey(raw)) {
		return Key{}, fmt.Errorf("secret: the two halves of this %s key do not belong together", PrefixEd25519Private)
	}
	return privateKey(private), nil
}

func privateKey(private ed25519.PrivateKey) Key {
	public := private.Public().(ed25519.PublicKey)
	return Key{ID: publicID(public), Scheme: SchemeEd25519, sealed: seal(material{
		scheme: SchemeEd25519, private: private, public: public, written: encodeSecret(PrefixEd25519Private, private),
	})}
}

func parsePublic(text string) (Key, error) {
	raw, err := decodeSecret(text, PrefixEd25519Public)
	if err != nil {
		return Key{}, err
	}
	if len(raw) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("secret: %d bytes; a %s key holds %d", len(raw), PrefixEd25519Public, ed25519.PublicKeySize)
	}
	public := ed25519.PublicKey(raw)
	return Key{ID: publicID(public), Scheme: SchemeEd25519,
		sealed: seal(material{scheme: SchemeEd25519, public: public, written: text})}, nil
}

// Generate makes a key for this scheme from random, which should be
// crypto/rand.Reader.
func Generate(scheme Scheme, random io.Reader) (Key, error) {
	switch scheme {
	case SchemeEd25519:
		return GenerateEd25519(random)
	case SchemeHMAC, SchemeTimestamped:
		k, err := GenerateHMAC(random)
		if err != nil {
			return Key{}, err
		}
		return ParseSecretFor(scheme, k.Reveal())
	}
	return Key{}, scheme.Validate()
}

// GenerateHMAC makes a SchemeHMAC key of 32 bytes from random, which should be
// crypto/rand.Reader.
func GenerateHMAC(random io.Reader) (Key, error) {
	raw := make([]byte, newHMACBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Key{}, fmt.Errorf("generate a secret: %w", err)
	}
	return hmacKey(SchemeHMAC, raw, encodeSecret(PrefixHMAC, raw)), nil
}

// GenerateEd25519 makes a SchemeEd25519 key pair from random, which should be
// crypto/rand.Reader.
func GenerateEd25519(random io.Reader) (Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return Key{}, fmt.Errorf("generate a key pair: %w", err)
	}
	return privateKey(ed25519.NewKeyFromSeed(seed)), nil
}

// Reveal is the key as ParseSecret reads it: to store it, and to show it to its
// owner once. Empty for the zero Key.
func (k Key) Reveal() string {
	if k.sealed == nil {
		return ""
	}
	return k.open().written
}

// open is the key's material; only for keys that are not the zero Key.
func (k Key) open() *material { return k.sealed.open() }

// holds reports whether the key has material for its scheme: it may verify.
func (k Key) holds() bool { return k.sealed != nil && k.open().scheme == k.Scheme }

// canSign reports whether the key may sign too.
func (k Key) canSign() bool {
	return k.holds() && (k.open().hmacKey != nil || k.open().private != nil)
}

// Public is the half of an Ed25519 key that receivers verify with. False for
// every other kind, which have no such half.
func (k Key) Public() (Key, bool) {
	if k.sealed == nil || k.open().public == nil {
		return Key{}, false
	}
	public := k.open().public
	return Key{ID: k.ID, Scheme: k.Scheme, sealed: seal(material{
		scheme: k.Scheme, public: public, written: encodeSecret(PrefixEd25519Public, public),
	})}, true
}

// String is the scheme and the id.
func (k Key) String() string { return fmt.Sprintf("envelope.Key(%s %s)", k.Scheme, k.ID) }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// Format writes String, whatever the verb and flags.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// MarshalJSON gives {"id","scheme"}.
func (k Key) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID     string `json:"id"`
		Scheme Scheme `json:"scheme"`
	}{k.ID, k.Scheme})
}

func decodeSecret(secret, prefix string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, prefix)
	if !ok {
		return nil, fmt.Errorf("secret: does not begin with %s", prefix)
	}
	// The decoder passes over line breaks, but a key has one spelling: the
	// timestamped scheme uses the spelling itself.
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("secret: a line break after %s; copy it without", prefix)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("secret: what follows %s is not standard base64 with padding", prefix)
	}
	return raw, nil
}

func encodeSecret(prefix string, raw []byte) string {
	return prefix + base64.StdEncoding.EncodeToString(raw)
}

func publicID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(append([]byte(ed25519IDDomain), public...))
	return deriveID(sum[:])
}

func deriveID(sum []byte) string { return "key_" + hex.EncodeToString(sum[:8]) }
