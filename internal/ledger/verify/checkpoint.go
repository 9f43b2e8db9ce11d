package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// Where a checkpoint was found, besides files, which are called by their names.
const (
	FromTable  = "table checkpoints"
	FromStream = "stream CHECKPOINTS"
)

// Published is a checkpoint as it was found somewhere.
type Published struct {
	Source string
	Note   string
	At     time.Time // when it was kept there; zero: not known
	// Row is what the columns beside the note say; nil outside of the table.
	Row *CheckpointRow
	// Cosignatures are lines of witnesses that are kept apart from the note.
	Cosignatures []string
}

// CheckpointRow are the columns of a checkpoint's row that its note says too.
type CheckpointRow struct {
	Size        uint64
	Origin, Key string
	Root        tlog.Hash
}

// Checkpoint is a statement of the ledger's size and root.
type Checkpoint struct {
	Size   uint64    `json:"size"`
	Root   tlog.Hash `json:"root"`
	Origin string    `json:"origin"`
	At     time.Time `json:"at,omitzero"`
	// Signer is the key that was given and that signed, as name+hash; empty: none did.
	Signer  string   `json:"signer,omitempty"`
	signers []string // of the log, as the note names them, given or not: during a change of keys there are two
	// Witnesses whose keys were given and that cosigned.
	Witnesses []string `json:"witnesses,omitempty"`
	Sources   []string `json:"sources"`
}

// maxNote bounds what is read as a note: a checkpoint with hundreds of cosignatures.
const maxNote = 1 << 20

// ErrBadSignature says that a checkpoint bears the name of a key that was given,
// and a signature that is not that key's.
var ErrBadSignature = errors.New("the signature is not that of the key that it names")

// ParseCheckpoint reads a signed note (C2SP tlog-checkpoint), and says which of
// keys signed it: the log's, whose name is the origin, and witnesses'.
func ParseCheckpoint(text string, keys []note.Verifier) (Checkpoint, error) {
	var c Checkpoint
	if len(text) > maxNote {
		return c, fmt.Errorf("%d bytes are too many for a checkpoint", len(text))
	}
	n, err := note.Open([]byte(text), note.VerifierList(keys...))
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		n = unverified.Note
	case errors.As(err, &invalid):
		return c, fmt.Errorf("%w (%s+%08x)", ErrBadSignature, invalid.Name, invalid.Hash)
	case err != nil:
		return c, fmt.Errorf("no signed note: %w", err)
	}
	said, err := checkpoint.Parse(n.Text)
	if err != nil {
		return c, err
	}
	c = Checkpoint{Origin: said.Origin, Size: said.Size, Root: said.Root}
	for _, s := range n.Sigs {
		id := fmt.Sprintf("%s+%08x", s.Name, s.Hash)
		if isWitness(keys, s) {
			c.Witnesses = append(c.Witnesses, id)
		} else if s.Name == c.Origin {
			c.Signer = cmp.Or(c.Signer, id)
			c.signers = append(c.signers, id)
		}
	}
	for _, s := range n.UnverifiedSigs {
		if s.Name == c.Origin {
			c.signers = append(c.signers, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
		}
	}
	return c, nil
}

func isWitness(keys []note.Verifier, s note.Signature) bool {
	return slices.ContainsFunc(keys, func(v note.Verifier) bool {
		return v.Name() == s.Name && v.KeyHash() == s.Hash && checkpoint.IsWitness(v)
	})
}

// cosigned adds the witnesses whose signatures are kept apart from the note. A
// line that is no good is left out: it proves nothing.
func (c *Checkpoint) cosigned(p Published, keys []note.Verifier) {
	for _, line := range p.Cosignatures {
		also, err := ParseCheckpoint(checkpoint.AddSignatures(p.Note, []string{line}), keys)
		if err != nil {
			continue
		}
		c.addWitnesses(also.Witnesses)
	}
}

func (c *Checkpoint) addWitnesses(ids []string) {
	for _, id := range ids {
		if !slices.Contains(c.Witnesses, id) {
			c.Witnesses = append(c.Witnesses, id)
		}
	}
}

// signed says whether a key that was given vouches for it.
func (c *Checkpoint) signed() bool { return c.Signer != "" || len(c.Witnesses) > 0 }

// gathered is what is known of checkpoints before the first record is read.
type gathered struct {
	trusted  []Checkpoint // by size; the same size and root once, with all sources
	unsigned int          // distinct ones that no given key signed, when keys were given
	strange  []strange    // those of them that are signed for a ledger whose key was given
	// oldest is when the first of those in the table was signed; zero: there is none.
	oldest   time.Time
	findings []Finding
	sizes    map[string]map[uint64]bool // source to sizes
}

// gather reads all checkpoints that were found. With keys, only those count
// that one of them signed; without, all do.
func gather(all []Published, keys []note.Verifier) gathered {
	out := gathered{sizes: map[string]map[uint64]bool{}}
	type identity struct {
		size uint64
		root tlog.Hash
	}
	known := map[identity]*Checkpoint{}
	for _, p := range all {
		c, err := ParseCheckpoint(p.Note, keys)
		if err != nil {
			f := Finding{Code: CheckpointInvalid, Text: fmt.Sprintf("a checkpoint in %s is no good: %v", p.Source, err)}
			if p.Row != nil {
				f.Text = fmt.Sprintf("the checkpoint in %s whose columns say size %d is no good: %v", p.Source, p.Row.Size, err)
			}
			out.findings = append(out.findings, f)
			continue
		}
		c.cosigned(p, keys)
		if p.Row != nil {
			out.findings = append(out.findings, compareRow(*p.Row, c)...)
		}
		if p.Source == FromTable && (out.oldest.IsZero() || p.At.Before(out.oldest)) {
			out.oldest = p.At
		}
		out.addStrange(c, p, keys)
		if out.sizes[p.Source] == nil {
			out.sizes[p.Source] = map[uint64]bool{}
		}
		out.sizes[p.Source][c.Size] = true
		id := identity{c.Size, c.Root}
		k := known[id]
		if k == nil {
			k = &c
			k.At = p.At
			known[id] = k
		}
		k.Signer = cmp.Or(k.Signer, c.Signer)
		k.addWitnesses(c.Witnesses)
		if k.At.IsZero() || !p.At.IsZero() && p.At.Before(k.At) {
			k.At = p.At
		}
		if !slices.Contains(k.Sources, p.Source) {
			k.Sources = append(k.Sources, p.Source)
		}
	}
	for _, c := range known {
		if len(keys) > 0 && !c.signed() {
			out.unsigned++
			continue
		}
		out.trusted = append(out.trusted, *c)
	}
	slices.SortFunc(out.trusted, func(a, b Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Size, b.Size), slices.Compare(a.Root[:], b.Root[:]))
	})
	return out
}

func compareRow(row CheckpointRow, c Checkpoint) []Finding {
	var columns []Difference
	differ := func(name, stored, said string) {
		if stored != said {
			columns = append(columns, Difference{name, stored, said})
		}
	}
	differ("size", strconv.FormatUint(row.Size, 10), strconv.FormatUint(c.Size, 10))
	differ("origin", row.Origin, c.Origin)
	differ("root", row.Root.String(), c.Root.String()) // in base64, as the note has it
	if c.Signer != "" && !slices.Contains(c.signers, row.Key) {
		differ("key", row.Key, c.Signer)
	}
	if len(columns) == 0 {
		return nil
	}
	return []Finding{{Code: CheckpointAltered, Columns: columns,
		Text: fmt.Sprintf("columns of the checkpoint of %s in %s do not say what its note says",
			text.Count(c.Size, "record", "records"), FromTable)}}
}

// absent finds checkpoints that were published and are no longer in the table.
func (g *gathered) absent() []Finding {
	var out []Finding
	for _, c := range g.trusted {
		if g.sizes[FromTable][c.Size] {
			continue
		}
		out = append(out, Finding{Code: CheckpointMissing,
			Text: fmt.Sprintf("the checkpoint of %s (%s) is in %s and not in %s", text.Count(c.Size, "record", "records"),
				instant(c.At), strings.Join(c.Sources, " and "), FromTable)})
	}
	return out
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "time unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
