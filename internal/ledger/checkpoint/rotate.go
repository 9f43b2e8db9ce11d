package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"crypto/ed25519"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// verifierOf makes the verifier key of a private one: PRIVATE+KEY+NAME+HASH+BASE64.
func verifierOf(private string) (string, error) {
	parts := strings.Split(private, "+")
	if len(parts) < 5 {
		return "", errors.New("a private key has too few parts")
	}
	seed, err := base64.StdEncoding.DecodeString(strings.Join(parts[4:], "+")) // base64 may hold a +
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("a private key has the wrong length")
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("a private key has no public one")
	}
	verifier, err := note.NewEd25519VerifierKey(parts[2], public)
	if err != nil {
		return "", fmt.Errorf("checkpoint key: %w", err)
	}
	return verifier, nil
}

// Rotation is a new key that is not in the file yet.
type Rotation struct {
	Origin string
	New    Key
	Before Key // that was the newest
	path   string
	lines  []string
}

var errInline = errors.New("the checkpoint key is in WAYBILL_CHECKPOINT_KEY, not in a file: make a new one with " +
	"waybill ledger key generate, and set NEW,OLD there; or keep the keys in a file")

// Rotate makes a new key for a key file, to be put into it by Commit. Once it is
// there, it signs beside those that signed, until Retire: were the one before the
// last dropped here, two rotations in a row would leave no checkpoint by which it
// vouches for its successor.
func Rotate(path string) (Rotation, error) {
	if Inline(path) {
		return Rotation{}, errInline
	}
	k, err := OpenKeys(path)
	if err != nil {
		return Rotation{}, err
	}
	if len(k.set.lines) >= maxKeys {
		return Rotation{}, fmt.Errorf("checkpoint key file %s has %d keys already; take the oldest out, after you noted "+
			"its verifier key", path, maxKeys)
	}
	private, verifier, err := Generate(k.set.origin)
	if err != nil {
		return Rotation{}, err
	}
	v, err := NewVerifier(verifier)
	if err != nil {
		return Rotation{}, err
	}
	r := Rotation{Origin: k.set.origin, New: Key{ID: KeyID(v), Verifier: verifier, Signs: true},
		Before: k.set.verifiers[0],
		path:   path, lines: append([]string{private}, k.set.lines...)}
	return r, nil
}

// Commit puts the key into the file.
func (r Rotation) Commit() error { return replaceFile(r.path, r.lines) }

// Retire turns every key of a file but the newest into a verifier key: it signs
// no more, and what it signed can still be verified. It returns those that it turned.
func Retire(path string) ([]Key, error) {
	if Inline(path) {
		return nil, errInline
	}
	k, err := OpenKeys(path)
	if err != nil {
		return nil, err
	}
	lines, retired := k.set.lines[:1:1], []Key{}
	for _, old := range k.set.verifiers[1:] {
		lines = append(lines, old.Verifier)
		if old.Signs {
			old.Signs = false
			retired = append(retired, old)
		}
	}
	if len(retired) == 0 {
		return retired, nil
	}
	return retired, replaceFile(path, lines)
}

func fileText(keys []string) []byte {
	return []byte("# Keys that the ledger's checkpoints are signed with, the newest first. Those that\n" +
		"# begin with PRIVATE sign; the others signed before, and still verify. Whoever has\n" +
		"# a private key can sign a false ledger: keep it to yourself, and keep a copy.\n" + strings.Join(keys, "\n") + "\n")
}

func replaceFile(path string, lines []string) error {
	if err := wholefile.Replace(path, fileText(lines), 0o600); err != nil {
		return fmt.Errorf("checkpoint key file: %w", err)
	}
	return nil
}
