package checkpoint

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// algorithms of C2SP signed notes.
const (
	algorithmEd25519     = 1
	algorithmCosignature = 4
)

// NewVerifier reads a verifier key, NAME+HASH+BASE64, of a log (Ed25519) or of a
// witness (C2SP tlog-cosignature, cosignature/v1).
func NewVerifier(vkey string) (note.Verifier, error) {
	name, rest, ok1 := strings.Cut(vkey, "+")
	hash, encoded, ok2 := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok1 || !ok2 || err != nil || len(hash) != 8 || len(key) != 1+ed25519.PublicKeySize {
		return nil, fmt.Errorf("verifier key %.80q: want NAME+HASH+BASE64", vkey)
	}
	switch key[0] {
	case algorithmEd25519:
		v, err := note.NewVerifier(vkey)
		if err != nil {
			return nil, fmt.Errorf("verifier key %.80q: %w", vkey, err)
		}
		return v, nil
	case algorithmCosignature:
		v := &cosigner{name: name, hash: keyHash(name, key), key: key[1:]}
		given, err := strconv.ParseUint(hash, 16, 32)
		if err != nil || uint32(given) != v.hash || name == "" || strings.ContainsAny(name, " \n\t\r") {
			return nil, fmt.Errorf("verifier key %.80q: its hash is not that of its name and key", vkey)
		}
		return v, nil
	}
	return nil, fmt.Errorf("verifier key %.80q: algorithm %d is not known here", vkey, key[0])
}

// keyHash is the key id of a signed note: algorithm and key follow the name.
func keyHash(name string, key []byte) uint32 {
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write(key)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// IsWitness says whether the verifier is one of cosignatures.
func IsWitness(v note.Verifier) bool { _, ok := v.(*cosigner); return ok }

// cosigner verifies cosignature/v1: a time (64 bits, big endian, seconds) and an
// Ed25519 signature over it and the checkpoint.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (c *cosigner) Name() string    { return c.name }
func (c *cosigner) KeyHash() uint32 { return c.hash }

func (c *cosigner) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	seconds := binary.BigEndian.Uint64(signature)
	if seconds > 1<<62 {
		return false
	}
	return ed25519.Verify(c.key, cosigned(seconds, text), signature[8:])
}

func cosigned(seconds uint64, text []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text)
}

// CosignedAt is when a witness signed, of one signature line of a note.
func CosignedAt(s note.Signature) (time.Time, error) {
	b, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(b) != 4+8+ed25519.SignatureSize {
		return time.Time{}, fmt.Errorf("signature by %s: no cosignature", s.Name)
	}
	return time.Unix(int64(binary.BigEndian.Uint64(b[4:])), 0).UTC(), nil
}

// Line is a signature as a line of a note.
func Line(s note.Signature) string { return fmt.Sprintf("— %s %s\n", s.Name, s.Base64) }
