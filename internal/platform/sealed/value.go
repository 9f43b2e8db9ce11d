package sealed

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Value is a secret at rest: "sealed:v1:<key id>:<base64url of nonce and
// ciphertext>". It says which key opens it, and nothing of what it holds but
// its length.
type Value string

const (
	valuePrefix = "sealed:v1:"
	// maxValue bounds what is decoded: far above a certificate's private key.
	maxValue = 64 << 10
)

// ErrUnknownKey says that no key at hand opens the value.
var ErrUnknownKey = errors.New("sealed under a key that is not at hand")

// ErrAltered says that the key is there, but the value was altered, or sealed
// for another place.
var ErrAltered = errors.New("does not open: it was altered, or sealed for another endpoint, field or destination")

// Place is what a value is sealed for. All of it is authenticated.
type Place struct {
	Owner string // the endpoint's id
	Field string // which of its secrets
	// Destination is where the secret may be sent. Empty for those that are
	// never sent, such as signing keys.
	Destination string
}

// bytes are unambiguous: each part is preceded by its length.
func (p Place) bytes(keyID string) []byte {
	out := []byte("waybill sealed value, v1")
	for _, part := range []string{keyID, p.Owner, p.Field, p.Destination} {
		out = append(strconv.AppendInt(append(out, '|'), int64(len(part)), 10), ':')
		out = append(out, part...)
	}
	return out
}

// Seal encrypts under the newest key.
func (r *Keyring) Seal(plain string, at Place) Value {
	k := r.newest()
	box := k.aead.Seal(nil, nil, []byte(plain), at.bytes(k.id))
	return Value(valuePrefix + k.id + ":" + base64.RawURLEncoding.EncodeToString(box))
}

// Open decrypts a value that was sealed for this place. Errors are
// ErrUnknownKey, ErrAltered, or say that it is no sealed value; none quotes it.
func (r *Keyring) Open(v Value, at Place) (string, error) {
	id, box, err := v.parts()
	if err != nil {
		return "", err
	}
	k, ok := r.find(id)
	if !ok {
		return "", fmt.Errorf("%w: %s (at hand: %s); add that key to the secrets key file", ErrUnknownKey, id,
			strings.Join(r.KeyIDs(), ", "))
	}
	plain, err := k.aead.Open(nil, nil, box, at.bytes(id))
	if err != nil {
		return "", ErrAltered
	}
	return string(plain), nil
}

// Newest says whether the value is sealed under the key that seals now.
func (r *Keyring) Newest(v Value) bool { return v.KeyID() == r.newest().id }

// KeyID is the id of the key that opens the value; empty when it is no sealed value.
func (v Value) KeyID() string {
	id, _, err := v.parts()
	if err != nil {
		return ""
	}
	return id
}

// Validate says whether this has the form of a sealed value: a secret in the
// clear has not.
func (v Value) Validate() error {
	_, _, err := v.parts()
	return err
}

func (v Value) parts() (keyID string, box []byte, err error) {
	rest, ok := strings.CutPrefix(string(v), valuePrefix)
	keyID, text, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || !strings.HasPrefix(keyID, keyIDPrefix) || len(v) > maxValue {
		return "", nil, errors.New("is not a sealed value")
	}
	if box, err = base64.RawURLEncoding.Strict().DecodeString(text); err != nil {
		return "", nil, errors.New("is not a sealed value")
	}
	return keyID, box, nil
}
