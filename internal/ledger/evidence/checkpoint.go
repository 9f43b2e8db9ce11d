package evidence

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

// signature is one line under a note.
type signature struct {
	name   string
	hash   uint32
	raw    []byte // without the hash
	base64 string // with it
}

func (s signature) key() string { return fmt.Sprintf("%s+%08x", s.name, s.hash) }

// splitNote takes a signed note apart, more strictly than package note: each
// key signs once, and base64 has one spelling, so that no byte can differ
// unnoticed.
func splitNote(msg string) (text string, sigs []signature, err error) {
	at := strings.LastIndex(msg, "\n\n")
	if at < 0 || !strings.HasSuffix(msg, "\n") || at+2 == len(msg) {
		return "", nil, errors.New("the checkpoint is no signed note: it has no signatures")
	}
	text = msg[:at+1]
	seen := map[string]bool{}
	for line := range strings.Lines(msg[at+2:]) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "— ")
		name, b64, ok2 := strings.Cut(rest, " ")
		raw, err := base64.StdEncoding.Strict().DecodeString(b64)
		if !ok || !ok2 || name == "" || err != nil || len(raw) < 5 || base64.StdEncoding.EncodeToString(raw) != b64 {
			return "", nil, fmt.Errorf("the checkpoint has a signature line that is none: %.60q", line)
		}
		s := signature{name, binary.BigEndian.Uint32(raw), raw[4:], b64}
		if seen[s.key()] {
			return "", nil, fmt.Errorf("the checkpoint has two signatures of key %s", s.key())
		}
		seen[s.key()] = true
		sigs = append(sigs, s)
	}
	return text, sigs, nil
}

// Key verifies signatures of a ledger or of a witness.
type Key struct{ v note.Verifier }

// ParseKey reads a verifier key, NAME+HASH+BASE64.
func ParseKey(vkey string) (Key, error) {
	vkey = strings.TrimSpace(vkey)
	if strings.HasPrefix(vkey, "PRIVATE+") {
		return Key{}, errors.New("this is a private key: keep it to yourself, and give the verifier key that belongs to it")
	}
	v, err := checkpoint.NewVerifier(vkey)
	return Key{v}, err
}

// ParseKeys reads a file of verifier keys, one a line; # begins a comment.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it; want lines of NAME+HASH+BASE64")
	}
	return keys, nil
}

// String names the key without its bytes.
func (k Key) String() string { return checkpoint.KeyID(k.v) }

func (k Key) made(s signature) bool { return k.v.Name() == s.name && k.v.KeyHash() == s.hash }

// verify checks one signature over a note's text. at is when a witness says
// that it signed; zero where the signature has no time.
func (k Key) verify(text string, s signature) (at time.Time, ok bool) {
	if !k.made(s) || !k.v.Verify([]byte(text), s.raw) {
		return at, false
	}
	if checkpoint.IsWitness(k.v) {
		at, _ = checkpoint.CosignedAt(note.Signature{Name: s.name, Hash: s.hash, Base64: s.base64})
	}
	return at, true
}

// TreeOf reads what a signed checkpoint states, without checking signatures.
func TreeOf(msg string) (checkpoint.Checkpoint, error) {
	text, _, err := splitNote(msg)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	return checkpoint.Parse(text)
}

// Cosigns says whether a checkpoint with another signature line is still one
// that a file can hold: each key signs once.
func Cosigns(msg string) bool {
	_, _, err := splitNote(msg)
	return err == nil
}
