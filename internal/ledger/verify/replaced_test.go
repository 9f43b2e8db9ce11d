package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
)

// another is a further key of the shelf's ledger.
type another struct {
	signer   note.Signer
	verifier note.Verifier
	public   string
}

func newAnother(t *testing.T) another {
	t.Helper()
	private, public, err := note.GenerateKey(nil, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := checkpoint.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return another{signer, v, public}
}

// signed adds a checkpoint over the first size records.
func (s *shelf) signed(t *testing.T, size int, by ...note.Signer) {
	t.Helper()
	var f frontier
	for _, l := range s.leaves[:size] {
		f.add(0, l)
	}
	c := checkpoint.Checkpoint{Origin: "a.example", Size: f.size, Root: f.root()}
	b, err := note.Sign(&note.Note{Text: c.Text()}, by...)
	if err != nil {
		t.Fatal(err)
	}
	s.checkpoints = append(s.checkpoints, Published{Source: FromTable, Note: string(b), At: time.Unix(1_790_000_000, 0)})
}

// rotated puts on record that a key signs from now on.
func (s *shelf) rotated(t *testing.T, idx uint64, to another) {
	t.Helper()
	r := record.LedgerKeyRotated("a.example", to.public, "")
	r.At, r.Actor = time.Unix(1_790_000_000, 0), "ann"
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.rotations = append(s.rotations, Record{Idx: idx, ID: r.ID, Body: body})
}

func TestAKeyThatTookThePlaceOfTheOneGivenIsAFinding(t *testing.T) {
	b, c := newAnother(t), newAnother(t)
	tests := []struct {
		name string
		make func(*testing.T, *shelf)
		also []note.Verifier
		good bool
	}{
		{"the key is the same", func(*testing.T, *shelf) {}, nil, true},
		{"another signs, and nothing says so", func(t *testing.T, s *shelf) { s.signed(t, 300, b.signer) }, nil, false},
		{"its own checkpoint alone covers the word that it follows",
			func(t *testing.T, s *shelf) { s.rotated(t, 250, b); s.signed(t, 300, b.signer) }, nil, false},
		{"the key before signed that it follows", func(t *testing.T,
			s *shelf) {
			s.rotated(t, 150, b)
			s.signed(t, 300, b.signer)
		}, nil, true},
		{"both keys were given", func(t *testing.T, s *shelf) { s.signed(t, 300, b.signer) }, []note.Verifier{b.verifier},
			true},
		{"two rotations, one after the other", func(t *testing.T, s *shelf) {
			s.rotated(t, 150, b)
			s.signed(t, 260, b.signer)
			s.rotated(t, 240, c)
			s.signed(t, 300, c.signer)
		}, nil, true},
		{"a rotation, and then a replacement", func(t *testing.T, s *shelf) {
			s.rotated(t, 150, b)
			s.signed(t, 260, b.signer)
			s.rotated(t, 270, c)
			s.signed(t, 300, c.signer)
		}, nil, false},
		{"another signed before", func(t *testing.T, s *shelf) { s.signed(t, 50, b.signer) }, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShelf(t, 300, nil, 100, 200)
			tt.make(t, s)
			r := s.verify(t, func(o *Options) { o.Keys = append(o.Keys, tt.also...) })
			found := slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Code == KeyReplaced &&
					strings.Contains(f.Text, "was replaced")
			})
			if found == tt.good || r.Good != tt.good {
				t.Errorf("good %v, found %v: %+v", r.Good, found, r.Findings)
			}
		})
	}
}

func TestAStreamOfCheckpointsThatWasDeletedIsAFinding(t *testing.T) {
	signedAt := time.Unix(1_790_000_000, 0)
	tests := []struct {
		name  string
		sizes []int
		kept  *Kept
		good  bool
	}{
		{"nobody asked NATS", []int{300}, nil, true},
		{"it is there", []int{300}, &Kept{Created: signedAt.Add(-time.Hour), LedgerCreated: signedAt.Add(-time.Hour),
			Messages: 1}, true},
		{"it is not there", []int{300}, &Kept{Missing: true, LedgerCreated: signedAt.Add(-time.Hour)}, false},
		{"it was made anew", []int{300}, &Kept{Created: signedAt.Add(time.Hour), LedgerCreated: signedAt.Add(-time.Hour)},
			false},
		{"it was made anew, and holds what was signed since", []int{300},
			&Kept{Created: signedAt.Add(time.Hour), LedgerCreated: signedAt.Add(-time.Hour), Messages: 7}, false},
		{"all of NATS was made anew", []int{300}, &Kept{Created: signedAt.Add(time.Hour),
			LedgerCreated: signedAt.Add(time.Hour)}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newShelf(t, 300, nil, tt.sizes...).verify(t, func(o *Options) { o.Kept = tt.kept })
			found := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Code == CheckpointsGone })
			if found == tt.good || r.Good != tt.good {
				t.Errorf("good %v: %+v", r.Good, r.Findings)
			}
		})
	}
	r := newShelf(t, 300, nil).verify(t, func(o *Options) { o.Kept = &Kept{Missing: true} })
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "waybill streams apply") {
		t.Errorf("nothing was signed: %+v", r.Notes)
	}
}

func TestARootIsSaidAsTheNoteHasIt(t *testing.T) {
	c := Checkpoint{Size: 1, Root: leaf(1)}
	found := compareRow(CheckpointRow{Size: 1, Root: leaf(2)}, c)
	if len(found) != 1 || len(found[0].Columns) != 1 || found[0].Columns[0].Ledger != leaf(1).String() ||
		found[0].Columns[0].Stored != leaf(2).String() {
		t.Errorf("got %+v", found)
	}
}
