package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Tree is what a checkpoint states.
type Tree struct {
	Origin string
	Size   uint64
	Root   tlog.Hash
}

// parseTree reads the text of a checkpoint: origin, size, root, and lines that
// may follow.
func parseTree(text string) (Tree, error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 || lines[0] == "" {
		return Tree{}, errors.New("the checkpoint lacks a line: want origin, size and root")
	}
	t := Tree{Origin: lines[0]}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return t, fmt.Errorf("the checkpoint's size is %.40q; want a decimal number", lines[1])
	}
	t.Size = size
	if t.Root, err = tlog.ParseHash(lines[2]); err != nil || t.Root.String() != lines[2] {
		return t, fmt.Errorf("the checkpoint's root is %.60q; want the base64 of 32 bytes", lines[2])
	}
	return t, nil
}

// signature is one line under a note.
type signature struct {
	name string
	hash uint32
	raw  []byte
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
		s := signature{name, binary.BigEndian.Uint32(raw), raw[4:]}
		if seen[s.key()] {
			return "", nil, fmt.Errorf("the checkpoint has two signatures of key %s", s.key())
		}
		seen[s.key()] = true
		sigs = append(sigs, s)
	}
	return text, sigs, nil
}

// Key verifies signatures of a ledger or of a witness.
type Key struct {
	name      string
	hash      uint32
	verifier  note.Verifier     // a plain signature
	cosigning ed25519.PublicKey // or one of C2SP tlog-cosignature, with a time
}

// ParseKey reads a verifier key, NAME+HASH+BASE64: of a ledger or, with type 4
// in it, of a witness that states the time.
func ParseKey(vkey string) (Key, error) {
	vkey = strings.TrimSpace(vkey)
	name, rest, _ := strings.Cut(vkey, "+")
	hashText, keyText, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.Strict().DecodeString(keyText)
	if err == nil && len(raw) == 1+ed25519.PublicKeySize && raw[0] == algCosignature {
		hash, err := strconv.ParseUint(hashText, 16, 32)
		if err != nil || len(hashText) != 8 || uint32(hash) != keyHash(name, raw) || name == "" {
			return Key{}, fmt.Errorf("key %.60q: its hash is not that of its name and key", vkey)
		}
		return Key{name: name, hash: uint32(hash), cosigning: ed25519.PublicKey(raw[1:])}, nil
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		return Key{}, fmt.Errorf("key %.60q is no verifier key (NAME+HASH+BASE64): %w", vkey, err)
	}
	return Key{name: v.Name(), hash: v.KeyHash(), verifier: v}, nil
}

// ParseKeys reads a file of verifier keys, one a line; empty lines and those
// that begin with # are left out.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
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
func (k Key) String() string { return fmt.Sprintf("%s+%08x", k.name, k.hash) }

// algCosignature is the type of C2SP's Ed25519 cosignatures with a time.
const algCosignature = 4

func keyHash(name string, key []byte) uint32 {
	h := sha256.New()
	h.Write([]byte(name + "\n"))
	h.Write(key)
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// verify checks one signature over a note's text. at is when a witness says
// that it signed; zero where the signature has no time.
func (k Key) verify(text string, s signature) (at time.Time, ok bool) {
	if k.name != s.name || k.hash != s.hash {
		return at, false
	}
	if k.verifier != nil {
		return at, k.verifier.Verify([]byte(text), s.raw)
	}
	if len(s.raw) != 8+ed25519.SignatureSize {
		return at, false
	}
	seconds := binary.BigEndian.Uint64(s.raw)
	if seconds > 1<<40 {
		return at, false
	}
	msg := fmt.Sprintf("cosignature/v1\ntime %d\n%s", seconds, text)
	return time.Unix(int64(seconds), 0).UTC(), ed25519.Verify(k.cosigning, []byte(msg), s.raw[8:])
}

// TreeOf reads what a signed checkpoint states, without checking signatures.
func TreeOf(msg string) (Tree, error) {
	text, _, err := splitNote(msg)
	if err != nil {
		return Tree{}, err
	}
	return parseTree(text)
}

// Cosigns says whether a checkpoint with another signature line is still one
// that a file can hold: each key signs once.
func Cosigns(msg string) bool {
	_, _, err := splitNote(msg)
	return err == nil
}
