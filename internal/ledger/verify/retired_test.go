package verify

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/merkle"
)

// shelf is a ledger in memory of which rows are missing.
type shelf struct {
	leaves      []tlog.Hash
	missing     map[uint64]bool
	odd         map[uint64]bool // their rows are not what was signed
	checkpoints []Published
	actions     []Record
	rotations   []Record
	key         note.Verifier
}

// newShelf makes a ledger of size records. The last one retires ranges.
func newShelf(t *testing.T, size int, ranges []record.IdxRange, sizes ...int) *shelf {
	t.Helper()
	said := record.Record{ID: "x", Kind: record.OperatorAction, At: time.Unix(1_790_000_000, 0), Tenant: "default",
		Action: record.ActionRetired, Actor: "ann",
		Settings: record.Retirement{ID: "ret_1", Month: 201501, Parts: 1, Part: 1, Ranges: ranges}.Settings()}
	body, err := said.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{missing: map[uint64]bool{}, odd: map[uint64]bool{},
		actions: []Record{{Idx: uint64(size - 1), ID: said.ID, At: said.At, Body: body}}}
	for n := range size {
		s.leaves = append(s.leaves, tlog.RecordHash(fmt.Append(nil, n)))
	}
	for _, r := range ranges {
		for i := r.First; i <= r.Last; i++ {
			s.missing[i] = true
		}
	}
	private, public, err := note.GenerateKey(nil, "a.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	if s.key, err = checkpoint.NewVerifier(public); err != nil {
		t.Fatal(err)
	}
	var f frontier
	for i, n := 0, 0; n < len(sizes); i++ {
		f.add(0, s.leaves[i])
		if sizes[n] != i+1 {
			continue
		}
		n++
		c := checkpoint.Checkpoint{Origin: "a.example", Size: f.size, Root: f.root()}
		b, err := note.Sign(&note.Note{Text: c.Text()}, signer)
		if err != nil {
			t.Fatal(err)
		}
		s.checkpoints = append(s.checkpoints, Published{Source: FromTable, Note: string(b), At: said.At})
	}
	return s
}

func (s *shelf) Extent(context.Context) (Extent, error) {
	return Extent{Rows: uint64(len(s.leaves) - len(s.missing)), End: uint64(len(s.leaves)),
		Tiles: uint64(len(s.leaves) / merkle.TileWidth)}, nil
}
func (s *shelf) Checkpoints(context.Context) ([]Published, error) { return s.checkpoints, nil }
func (s *shelf) Open(context.Context) (ChunkReader, error)        { return s, nil }
func (s *shelf) Close() error                                     { return nil }

func (s *shelf) Tile(_ context.Context, level int, number uint64) ([]tlog.Hash, error) {
	hashes := s.leaves
	for range level {
		var above []tlog.Hash
		for ; len(hashes) >= merkle.TileWidth; hashes = hashes[merkle.TileWidth:] {
			above = append(above, tileRoot(hashes[:merkle.TileWidth]))
		}
		hashes = above
	}
	if end := (number + 1) * merkle.TileWidth; end <= uint64(len(hashes)) {
		return hashes[end-merkle.TileWidth : end], nil
	}
	return nil, nil
}

func (s *shelf) Chunk(_ context.Context, first, end uint64) (Chunk, error) {
	c := Chunk{First: first, End: end}
	for i := first; i < end; i++ {
		switch {
		case s.odd[i]:
			c.Rows = append(c.Rows, Row{i, leaf(1)})
		case !s.missing[i]:
			c.Rows = append(c.Rows, Row{i, s.leaves[i]})
		}
	}
	for n := first / merkle.TileWidth; (n+1)*merkle.TileWidth <= end; n++ {
		t := StoredTile{Number: n}
		for _, h := range s.leaves[n*merkle.TileWidth : (n+1)*merkle.TileWidth] {
			t.Bytes = append(t.Bytes, h[:]...)
		}
		c.Tiles = append(c.Tiles, t)
	}
	return c, nil
}

func (s *shelf) Records(context.Context, []uint64) ([]Record, error)        { return nil, nil }
func (s *shelf) Beyond(context.Context, uint64, int) ([]Record, error)      { return nil, nil }
func (s *shelf) Known(context.Context, []string) (map[string]uint64, error) { return nil, nil }
func (s *shelf) BySequence(context.Context, int64, uint64, uint64, func(Record) error) error {
	return nil
}

func (s *shelf) Misplaced(context.Context, int64, uint64, int) ([]Record, error) { return nil, nil }

func (s *shelf) Actions(_ context.Context, action string) ([]Record, error) {
	if action == record.ActionRetired {
		return s.actions, nil
	}
	if action == record.ActionKeyRotated {
		return s.rotations, nil
	}
	return nil, nil
}

func (s *shelf) verify(t *testing.T, change func(*Options)) Report {
	t.Helper()
	o := Options{Now: time.Unix(1_790_000_060, 0), Name: "test", Keys: []note.Verifier{s.key}, ChunkRecords: 4096}
	if change != nil {
		change(&o)
	}
	r, err := Run(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wants checks what was found, as "code first-last".
func wants(t *testing.T, r Report, retired uint64, want ...string) {
	t.Helper()
	var gone uint64
	for _, x := range r.Retired {
		gone += x.Last - x.First + 1
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s %d-%d", f.Code, f.First, f.Last))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || r.Good != (len(want) == 0) || gone != retired || r.Dropped != 0 {
		t.Errorf("good %v, %d retired, %d dropped, %.500v; want %d retired, %v", r.Good, gone, r.Dropped, got, retired, want)
	}
}

func TestMoreRetiredRecordsThanAreKeptApartAreStillRetired(t *testing.T) {
	const size, gone = 140_000, 130_000 // more than maxOdd between two checkpoints
	s := newShelf(t, size, []record.IdxRange{{First: 100, Last: 100 + gone - 1}}, 50, size)
	wants(t, s.verify(t, nil), gone)
	if r := s.verify(t, nil); len(r.Retired) != 1 || r.Retired[0].By != "ann" || r.Retired[0].Idx != size-1 {
		t.Errorf("%+v", r.Retired)
	}
	var half *State
	s.verify(t, func(o *Options) {
		o.Save = func(st State) error {
			if half == nil && st.Next > gone/2 {
				half = &st
			}
			return nil
		}
	})
	b, err := half.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseState(b)
	if err != nil {
		t.Fatal(err)
	}
	r := s.verify(t, func(o *Options) { o.Resume = &read })
	wants(t, r, gone)
	if r.ResumedAt != half.Next {
		t.Errorf("resumed at %d, want %d", r.ResumedAt, half.Next)
	}
	s.missing[135_000] = true // not on record as retired
	wants(t, s.verify(t, nil), gone, "record_missing 135000-135000")
	delete(s.missing, 135_000)
	s.odd[size-1] = true // the record that retires is not what was signed
	if r := s.verify(t, nil); r.Good || len(r.Retired) != 0 {
		t.Errorf("good %v, retired %+v", r.Good, r.Retired)
	}
}

func TestAMonthThatManyCheckpointsCoverIsRetiredInOnePiece(t *testing.T) {
	const size = maxFindings + 3000
	var sizes []int
	for n := range size {
		sizes = append(sizes, n+1)
	}
	s := newShelf(t, size, []record.IdxRange{{First: 0, Last: size - 1000}}, sizes...)
	r := s.verify(t, nil)
	wants(t, r, size-999)
	if len(r.Retired) != 1 {
		t.Errorf("%d pieces", len(r.Retired))
	}
}

func TestMonthsThatInterleaveAreRetiredApart(t *testing.T) {
	const size = 4 * maxFindings
	var every []record.IdxRange
	for i := uint64(0); i < size-1000; i += 2 {
		every = append(every, record.IdxRange{First: i, Last: i})
	}
	s := newShelf(t, size, every, size)
	wants(t, s.verify(t, nil), uint64(len(every)))
	s.missing[5] = true
	wants(t, s.verify(t, nil), uint64(len(every)), "record_missing 5-5")
}

func TestRetirementsThatOverlapCountOnce(t *testing.T) {
	got := listed([]Retirement{{Ranges: []record.IdxRange{{First: 10, Last: 19}, {First: 30, Last: 39}}},
		{Ranges: []record.IdxRange{{First: 0, Last: 12}, {First: 11, Last: 15}, {First: 35, Last: 50}}}})
	if want := []record.IdxRange{{First: 0, Last: 12}, {First: 13, Last: 19}, {First: 30, Last: 39},
		{First: 40, Last: 50}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAPartIsNamedAsItWasAskedForAndAsItWasRead(t *testing.T) {
	s := newShelf(t, 700, nil, 690)
	s.actions = nil
	for _, c := range []struct {
		from, to, first, end uint64
		reached              *Range
	}{
		{10, 20, 0, 256, &Range{512, 700}},
		{256, 512, 256, 512, &Range{512, 700}},
		{600, 0, 512, 700, nil},
		{513, 690, 512, 700, nil},
	} {
		r := s.verify(t, func(o *Options) { o.From, o.To = c.from, c.to })
		asked := Range{c.from, c.to}
		if c.to == 0 {
			asked.Until = 700
		}
		if !r.Good || r.Asked == nil || *r.Asked != asked || r.First != c.first || r.End != c.end ||
			fmt.Sprint(r.Reached) != fmt.Sprint(c.reached) {
			t.Errorf("%d to %d: good %v, asked %v, read %d to %d, reached %v", c.from, c.to, r.Good, r.Asked, r.First, r.End,
				r.Reached)
		}
	}
	if r := s.verify(t, nil); !r.Good || r.Asked != nil || r.First != 0 || r.End != 700 {
		t.Errorf("the whole: %+v", r)
	}
}
