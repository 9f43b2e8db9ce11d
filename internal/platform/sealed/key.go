// Package sealed encrypts what the registry keeps secret, with AES-256-GCM from
// the standard library. A sealed value is bound to the place it was sealed for:
// moved anywhere else it does not open.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// KeyPrefix begins a key as it is written: the prefix and standard base64
	// of its 32 bytes.
	KeyPrefix = "wbsk_"
	// keyIDPrefix begins a key's id, which is no secret.
	keyIDPrefix = "sk_"
	keyBytes    = 32
	// idDomain keeps the id apart from anything else made from a key.
	idDomain = "waybill secrets key id, v1"
	// maxKeys bounds a keyring: one in use, and those being retired.
	maxKeys = 32
)

// key is one AES-256 key, ready to use.
type key struct {
	id      string
	aead    cipher.AEAD // takes a fresh random nonce for each value
	written string
}

// GenerateKey makes a key from the system's random source, as it is written in
// a key file.
func GenerateKey() (string, error) {
	raw := make([]byte, keyBytes)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return "", fmt.Errorf("secrets key: %w", err)
	}
	return KeyPrefix + base64.StdEncoding.EncodeToString(raw), nil
}

// KeyID is the id of a written key: "sk_" and 16 hexadecimal digits.
func KeyID(written string) (string, error) {
	k, err := parseKey(written)
	return k.id, err
}

// parseKey never quotes the key in its errors.
func parseKey(written string) (key, error) {
	text, ok := strings.CutPrefix(written, KeyPrefix)
	if !ok {
		return key{}, fmt.Errorf("does not begin with %s; make one with: waybill key generate", KeyPrefix)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return key{}, errors.New("is not standard base64 with padding; make one with: waybill key generate")
	}
	if len(raw) != keyBytes {
		return key{}, fmt.Errorf("holds %d bytes, want %d; make one with: waybill key generate", len(raw), keyBytes)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(idDomain))
	return key{id: keyIDPrefix + hex.EncodeToString(mac.Sum(nil)[:8]), aead: aead, written: written}, nil
}

// parseKeys reads keys separated by white space or commas, the newest first.
// From # to the end of a line is a comment.
func parseKeys(text string) ([]key, error) {
	var keys []key
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.FieldsFunc(line,
			func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
			k, err := parseKey(word)
			if err != nil {
				return nil, fmt.Errorf("key %d %w", len(keys)+1, err)
			}
			for _, other := range keys {
				if other.id == k.id {
					return nil, fmt.Errorf("key %d is there twice; remove one", len(keys)+1)
				}
			}
			if keys = append(keys, k); len(keys) > maxKeys {
				return nil, fmt.Errorf("more than %d keys; remove those that nothing is sealed under", maxKeys)
			}
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key; make one with: waybill key generate")
	}
	return keys, nil
}
