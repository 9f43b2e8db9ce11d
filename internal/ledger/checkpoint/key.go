package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/platform/wholefile"
)

// maxKeys bounds a key file: each private key adds a signature to every checkpoint.
const maxKeys = 20

const secretPrefix = "PRIVATE+KEY+"

// Keys are those that checkpoints are signed with, of one origin, from a key
// file: one a line, the newest first. A line is a private key, which signs, or
// the verifier key of one that signed before. Keys follow the file when it
// changes. They are safe for concurrent use.
type Keys struct {
	path string

	mu    sync.Mutex
	set   *keySet
	stamp stamp
}

type stamp struct {
	modified time.Time
	size     int64
}

type keySet struct {
	origin    string
	signers   []note.Signer // the newest first
	verifiers []Key         // of all, the newest first
	lines     []string
}

// Key is a public key as people see it.
type Key struct {
	ID       string `json:"id"`       // name+hash
	Verifier string `json:"verifier"` // name+hash+base64: what one needs to verify
	Signs    bool   `json:"signs"`    // false: it signed before
}

// CheckOrigin says what is wrong with the name of a log.
func CheckOrigin(origin string) error {
	switch {
	case origin == "":
		return errors.New("the origin is empty; name the deployment, as in example.com/ledger")
	case len(origin) > 200:
		return errors.New("the origin is longer than 200 characters; choose a shorter one")
	case strings.Contains(origin, "://"):
		return fmt.Errorf("origin %q has a scheme; leave it out, as in %s", origin, origin[strings.Index(origin, "://")+3:])
	case strings.ContainsFunc(origin, func(r rune) bool { return r <= ' ' || r == '+' || r >= 0x7f }):
		return fmt.Errorf("origin %q: want printable ASCII without spaces and +, as in example.com/ledger", origin)
	}
	return nil
}

// Generate makes a private key, and the verifier key that belongs to it.
func Generate(origin string) (private, verifier string, err error) {
	if err := CheckOrigin(origin); err != nil {
		return "", "", err
	}
	private, verifier, err = note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return "", "", fmt.Errorf("checkpoint key: %w", err)
	}
	return private, verifier, nil
}

// CreateFile makes a key file with one new key, readable for its owner alone. It
// never touches a file that is there.
func CreateFile(path, origin string) (Key, error) {
	private, verifier, err := Generate(origin)
	if err != nil {
		return Key{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Key{}, fmt.Errorf("checkpoint key file: %w", err)
	}
	err = wholefile.Create(path, fileText([]string{private}), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Key{}, fmt.Errorf("checkpoint key file %s is there already; add a key to it with: waybill ledger key "+
			"rotate --checkpoint-key %s", path, path)
	}
	if err != nil {
		return Key{}, fmt.Errorf("checkpoint key file: %w", err)
	}
	v, err := note.NewVerifier(verifier)
	if err != nil {
		return Key{}, fmt.Errorf("checkpoint key: %w", err)
	}
	return Key{ID: KeyID(v), Verifier: verifier, Signs: true}, nil
}

// EnvKey is the variable that may hold the keys themselves.
const EnvKey = "WAYBILL_CHECKPOINT_KEY"

// Inline says whether what should name a key file holds the keys themselves, as
// an environment variable may: private keys, comma-separated, the newest first.
func Inline(path string) bool { return strings.HasPrefix(path, secretPrefix) }

// OpenKeys reads a key file, or keys that are given inline. A file MUST NOT be
// readable for others than its owner and group.
func OpenKeys(path string) (*Keys, error) {
	if Inline(path) {
		set, err := parseKeys(strings.ReplaceAll(path, ",", "\n"))
		if err != nil {
			return nil, fmt.Errorf("checkpoint key: %w", err)
		}
		return &Keys{set: set}, nil
	}
	k := &Keys{path: path}
	if err := k.load(); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keys) load() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return fmt.Errorf("checkpoint key file: %w; put it back: what it signed is verified with no other; if there never "+
			"was one: waybill ledger key generate --origin NAME --out %s", err, k.path)
	}
	if info.Mode().Perm()&0o007 != 0 {
		return fmt.Errorf("checkpoint key file %s can be read by everybody (mode %04o); close it with: chmod 600 %s", k.path,
			info.Mode().Perm(), k.path)
	}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return fmt.Errorf("checkpoint key file: %w; it must be readable for the user that runs this", err)
	}
	set, err := parseKeys(string(text))
	if err != nil {
		return fmt.Errorf("checkpoint key file %s: %w", k.path, err)
	}
	k.set, k.stamp = set, stamp{info.ModTime(), info.Size()}
	return nil
}

func parseKeys(text string) (*keySet, error) {
	set := &keySet{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		set.lines = append(set.lines, line)
		verifier := line
		if strings.HasPrefix(line, secretPrefix) {
			s, err := note.NewSigner(line)
			if err != nil {
				return nil, fmt.Errorf("line %d is no private key: %w", len(set.lines), err) // the error holds no key
			}
			set.signers = append(set.signers, s)
			if verifier, err = verifierOf(line); err != nil {
				return nil, err
			}
		}
		v, err := NewVerifier(verifier)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(set.lines), err)
		}
		if set.origin == "" {
			set.origin = v.Name()
		}
		if v.Name() != set.origin {
			return nil, fmt.Errorf("it has keys of two origins, %s and %s; keep one a file", set.origin, v.Name())
		}
		set.verifiers = append(set.verifiers, Key{ID: KeyID(v), Verifier: verifier, Signs: verifier != line})
	}
	if len(set.signers) == 0 || !set.verifiers[0].Signs {
		return nil, errors.New("it does not begin with a private key; make one with: waybill ledger key generate")
	}
	return set, nil
}

// follow reads the file again if it changed. When it cannot be read, what was
// read before stays, and the error says why.
func (k *Keys) follow() (*keySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == "" { // given inline
		return k.set, nil
	}
	info, err := os.Stat(k.path)
	if err == nil && (stamp{info.ModTime(), info.Size()}) == k.stamp {
		return k.set, nil
	}
	before := k.set
	if err := k.load(); err != nil {
		return k.set, err
	}
	if k.set.origin != before.origin {
		now := k.set.origin
		k.set = before
		return before, fmt.Errorf("checkpoint key file %s is now of origin %s, was %s; restart for another origin", k.path,
			now, before.origin)
	}
	return k.set, nil
}

// Inline says whether the keys were given by themselves, not as a file's name.
func (k *Keys) Inline() bool { return k.path == "" }

// Current returns the public keys as List does, after a look whether the file
// changed. An error beside them says that the file could not be read again.
func (k *Keys) Current() ([]Key, error) {
	set, err := k.follow()
	return append([]Key(nil), set.verifiers...), err
}

// Origin is the name of the log.
func (k *Keys) Origin() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set.origin
}

// List returns the public keys, the newest first.
func (k *Keys) List() []Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]Key(nil), k.set.verifiers...)
}

// Sign signs a checkpoint with every private key in the file. The id is that of
// the newest. An error beside a note says that the file could not be read again.
func (k *Keys) Sign(c Checkpoint) (signed, id string, err error) {
	set, reading := k.follow()
	b, err := note.Sign(&note.Note{Text: c.Text()}, set.signers...)
	if err != nil {
		return "", "", fmt.Errorf("signing a checkpoint: %w", err)
	}
	return string(b), set.verifiers[0].ID, reading
}

// Verifiers are those of every key in the file.
func (k *Keys) Verifiers() (note.Verifiers, error) {
	var all []note.Verifier
	for _, key := range k.List() {
		v, err := NewVerifier(key.Verifier)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return note.VerifierList(all...), nil
}
