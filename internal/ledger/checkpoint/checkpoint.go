// Package checkpoint is what a signed statement of the ledger's size and root
// looks like: C2SP tlog-checkpoint, a signed note, and cosignatures by witnesses.
package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint says that the log of Origin has Size records, with Root over them.
type Checkpoint struct {
	Origin string
	Size   uint64
	Root   tlog.Hash
}

// ErrMalformed says that a text is no checkpoint.
var ErrMalformed = errors.New("not a checkpoint")

// Text is what is signed: three lines.
func (c Checkpoint) Text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// Parse reads the text of a note, or a whole note: it checks no signature.
// Lines after the third are extensions, which we ignore.
func Parse(text string) (Checkpoint, error) {
	origin, rest, ok1 := strings.Cut(text, "\n")
	size, rest, ok2 := strings.Cut(rest, "\n")
	root, _, ok3 := strings.Cut(rest, "\n")
	if !ok1 || !ok2 || !ok3 || origin == "" {
		return Checkpoint{}, fmt.Errorf("%w: want three lines, origin, size and root", ErrMalformed)
	}
	n, err := strconv.ParseInt(size, 10, 64) // tlog counts so
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != size {
		return Checkpoint{}, fmt.Errorf("%w: size %.40q is no decimal number", ErrMalformed, size)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(root)
	if err != nil || len(b) != tlog.HashSize {
		return Checkpoint{}, fmt.Errorf("%w: root %.60q is not the base64 of %d bytes", ErrMalformed, root, tlog.HashSize)
	}
	return Checkpoint{Origin: origin, Size: uint64(n), Root: tlog.Hash(b)}, nil
}

// Open reads a signed note whose signatures by known verifiers are right, and
// has one by a key of its own origin. Signatures by others are ignored: they are
// in the note's UnverifiedSigs.
func Open(signed []byte, known note.Verifiers) (Checkpoint, *note.Note, error) {
	n, err := note.Open(signed, known)
	if err != nil {
		return Checkpoint{}, nil, fmt.Errorf("checkpoint: %w", err)
	}
	c, err := Parse(n.Text)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	for _, s := range n.Sigs {
		if s.Name == c.Origin {
			return c, n, nil
		}
	}
	return Checkpoint{}, nil, fmt.Errorf("%w: it is signed by nobody of the name %q", ErrMalformed, c.Origin)
}

// KeyID is how we call a key: its name and hash.
func KeyID(v interface {
	Name() string
	KeyHash() uint32
}) string {
	return fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash())
}

// AddSignatures appends lines of signatures to a signed note, each once.
func AddSignatures(signed string, lines []string) string {
	for _, l := range lines {
		l = strings.TrimSuffix(l, "\n") + "\n"
		if !strings.Contains(signed, "\n"+l) {
			signed += l
		}
	}
	return signed
}
