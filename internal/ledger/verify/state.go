package verify

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// stateFormat changes when a State of an older program must not be resumed.
const stateFormat = 1

// State is how far a run came. Whoever can write it decides what the resumed run
// believes of the records before Next: it is as trustworthy as the place it is
// kept in.
type State struct {
	Format int    `json:"format"`
	Ledger string `json:"ledger"` // which ledger, with which checkpoints before Next
	Next   uint64 `json:"next"`   // the first record that was not read

	Rows    []string          `json:"rows"`            // roots of the tree over the rows so far, hex
	Tiled   []string          `json:"tiled,omitempty"` // of that over the tiles, where they differ
	Upper   [][]string        `json:"upper,omitempty"`
	Good    uint64            `json:"good"`
	GoodBy  *Checkpoint       `json:"good_by,omitempty"`
	Goods   int               `json:"goods"`
	Bad     []Checkpoint      `json:"bad,omitempty"`
	Pending []stateOdd        `json:"pending,omitempty"`
	Dropped uint64            `json:"dropped,omitempty"`
	Gone    []absence         `json:"gone,omitempty"`
	Going   []absence         `json:"going,omitempty"` // behind Good
	Columns []RowDifferences  `json:"columns,omitempty"`
	Found   findings          `json:"found"`
	Proven  map[string]uint64 `json:"proven,omitempty"`
	Strange map[string]uint64 `json:"strange,omitempty"`
	Read    uint64            `json:"read"`
}

type stateOdd struct {
	Idx  uint64  `json:"idx"`
	Kind oddKind `json:"kind"`
	Row  string  `json:"row"`
	Tile string  `json:"tile"`
}

// ParseState reads what Encode wrote, and refuses what it cannot have written.
func ParseState(b []byte) (State, error) {
	var s State
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("no state of a run: %w", err)
	}
	if s.Format != stateFormat {
		return s, fmt.Errorf("the state has format %d, this program has %d", s.Format, stateFormat)
	}
	if _, err := s.walk(nil, nil, 0); err != nil {
		return s, err
	}
	return s, nil
}

// Encode gives the file's bytes.
func (s State) Encode() ([]byte, error) { return json.Marshal(s) }

// state is the walk as it stands.
func (w *walk) state(ledger string, read uint64) State {
	s := State{Format: stateFormat, Ledger: ledger, Next: w.rows.size, Rows: texts(w.rows.roots), Good: w.good,
		GoodBy: w.goodBy, Goods: w.goods,
		Bad: w.bad, Dropped: w.dropped, Gone: slices.Clone(w.gone.settled), Going: slices.Clone(w.gone.open),
		Columns: w.columns, Found: w.found, Proven: hexKeys(w.proven), Strange: hexKeys(w.strange), Read: read}
	if w.apart {
		s.Tiled = texts(w.tiled.roots)
	}
	for _, level := range w.upper {
		s.Upper = append(s.Upper, texts(level))
	}
	for _, o := range w.pending {
		s.Pending = append(s.Pending, stateOdd{o.idx, o.kind, hex.EncodeToString(o.row[:]), hex.EncodeToString(o.tile[:])})
	}
	return s
}

var errState = errors.New("no state of a run: it contradicts itself")

// walk takes a run up again.
func (s *State) walk(checkpoints []Checkpoint, tile storedTile, tiledTo uint64) (*walk, error) {
	w := newWalk(checkpoints, tile, tiledTo)
	var err error
	read := func(from []string) []tlog.Hash {
		hashes, e := hashes(from)
		err = errors.Join(err, e)
		return hashes
	}
	w.rows = frontier{s.Next, read(s.Rows)}
	if s.Tiled != nil {
		w.apart, w.tiled = true, frontier{s.Next, read(s.Tiled)}
	}
	for level, h := range s.Upper {
		w.upper = append(w.upper, read(h))
		if uint64(len(h)) != s.Next>>(8*(level+1))%256 {
			return nil, errState
		}
	}
	for _, o := range s.Pending {
		h := read([]string{o.Row, o.Tile})
		if len(h) == 2 {
			w.pending = append(w.pending, odd{o.Idx, o.Kind, h[0], h[1]})
		}
	}
	for _, m := range []struct {
		from map[string]uint64
		to   map[tlog.Hash]uint64
	}{{s.Proven, w.proven}, {s.Strange, w.strange}} {
		for k, v := range m.from {
			if h := read([]string{k}); len(h) == 1 {
				m.to[h[0]] = v
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if s.Next%256 != 0 || !w.rows.valid() || w.apart && !w.tiled.valid() || s.Good > s.Next {
		return nil, errState
	}
	w.good, w.goodBy, w.goods, w.bad = s.Good, s.GoodBy, s.Goods, s.Bad
	w.dropped, w.columns, w.found = s.Dropped, s.Columns, s.Found
	for _, a := range slices.Concat(s.Gone, s.Going) {
		if a.First > a.Last || a.Last >= s.Next {
			return nil, errState
		}
	}
	w.gone.settled, w.gone.open = s.Gone, s.Going
	for w.next < len(checkpoints) && checkpoints[w.next].Size <= s.Next {
		w.next++
	}
	return w, nil
}

func texts(hashes []tlog.Hash) []string {
	out := make([]string, len(hashes))
	for i, h := range hashes {
		out[i] = hex.EncodeToString(h[:])
	}
	return out
}

func hashes(texts []string) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(texts))
	for i, s := range texts {
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != tlog.HashSize {
			return nil, fmt.Errorf("no state of a run: hash %.80q", s)
		}
		out[i] = tlog.Hash(b)
	}
	return out, nil
}

func hexKeys(m map[tlog.Hash]uint64) map[string]uint64 {
	out := make(map[string]uint64, len(m))
	for h, v := range m {
		out[hex.EncodeToString(h[:])] = v
	}
	return out
}
