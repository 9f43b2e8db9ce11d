package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-dev/waybill/internal/ledger/merkle"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// storedTile gives a full tile of a level above 0; nil: it is not there.
type storedTile func(ctx context.Context, level int, number uint64) ([]tlog.Hash, error)

// walk goes over the ledger in order, chunk by chunk, and holds it against the
// checkpoints. It keeps two trees: one over the rows, one over the tiles. Where
// they differ, the checkpoint tells which of them is right.
type walk struct {
	checkpoints []Checkpoint // by size
	upperTile   storedTile
	tiledTo     uint64 // so many tiles of level 0 must be there

	rows, tiled frontier
	apart       bool // the two differ
	partial     bool // not from the first record on: the tiles above are not compared
	upper       [][]tlog.Hash
	next        int    // the checkpoint that comes next
	good        uint64 // the size of the last checkpoint that agreed
	goodBy      *Checkpoint
	goods       int
	bad         []Checkpoint // behind good, none agreed
	pending     []odd        // behind good
	dropped     uint64       // of pending: too many
	gone        gone
	columns     []RowDifferences
	found       findings
	// proven are hashes that a checkpoint proves and that no row at its place has;
	// strange are hashes of rows that do not belong where they are.
	proven, strange map[tlog.Hash]uint64
}

// maxOdd bounds what is kept about single indices.
const maxOdd = 100_000

func newWalk(checkpoints []Checkpoint, tile storedTile, tiledTo uint64) *walk {
	return &walk{checkpoints: checkpoints, upperTile: tile, tiledTo: tiledTo, proven: map[tlog.Hash]uint64{},
		strange: map[tlog.Hash]uint64{}}
}

// add goes on by one chunk.
func (w *walk) add(ctx context.Context, r chunkResult) error {
	for _, s := range r.tiles {
		w.found.add(Finding{Code: TileMissing, First: s.From * merkle.TileWidth,
			Last: s.From*merkle.TileWidth + merkle.TileWidth - 1, Count: merkle.TileWidth,
			Text: fmt.Sprintf("tile %d of level 0 %s", s.From, s.What)})
	}
	w.columns = append(w.columns, r.columns...)
	if !r.agree && !w.apart {
		w.tiled, w.apart = w.rows.clone(), true
	}
	odds := r.odd
	for at := r.first; at < r.end; {
		end := min(at+merkle.TileWidth, r.end)
		n := 0
		for n < len(odds) && odds[n].idx < end {
			n++
		}
		w.note(odds[:n])
		odds = odds[n:]
		i, j := at-r.first, end-r.first
		if err := w.block(ctx, r.rows[i:j], r.tiled[i:j], r.roots, i/merkle.TileWidth); err != nil {
			return err
		}
		at = end
	}
	if w.apart && slices.Equal(w.rows.roots, w.tiled.roots) {
		w.apart = false
	}
	return nil
}

func (w *walk) note(odds []odd) {
	odds = w.gone.take(odds)
	room := max(0, maxOdd-len(w.pending))
	if len(odds) > room {
		w.dropped += uint64(len(odds) - room)
		odds = odds[:room]
	}
	w.pending = append(w.pending, odds...)
}

// block goes on by the leaves of one tile, or by fewer at the ledger's end.
func (w *walk) block(ctx context.Context, rows, tiled []tlog.Hash, roots []tlog.Hash, number uint64) error {
	end := w.rows.size + uint64(len(rows))
	full := len(rows) == merkle.TileWidth
	inside := w.next < len(w.checkpoints) && w.checkpoints[w.next].Size < end
	if full && !inside {
		w.rows.add(merkle.TileHeight, roots[number])
		if w.apart {
			w.tiled.add(merkle.TileHeight, tileRoot(tiled))
		}
		w.judge()
	} else {
		for i := range rows {
			w.rows.add(0, rows[i])
			if w.apart {
				w.tiled.add(0, tiled[i])
			}
			w.judge()
		}
	}
	if !full || w.partial {
		return nil
	}
	// The tile above is over the tiles as they are stored.
	root := roots[number]
	if w.apart {
		root = tileRoot(tiled)
	}
	return w.above(ctx, 1, root)
}

// above puts the root of a full tile into the tile above it, and compares that
// one when it is full.
func (w *walk) above(ctx context.Context, level int, h tlog.Hash) error {
	for len(w.upper) < level {
		w.upper = append(w.upper, nil)
	}
	w.upper[level-1] = append(w.upper[level-1], h)
	got := w.upper[level-1]
	if len(got) < merkle.TileWidth {
		return nil
	}
	w.upper[level-1] = nil
	span := uint64(1) << (merkle.TileHeight * (level + 1)) // records under the tile
	number := (w.rows.size - 1) / span
	stored, err := w.upperTile(ctx, level, number)
	if err != nil {
		return err
	}
	if stored == nil {
		if (number+1)*span <= w.tiledTo*merkle.TileWidth {
			w.found.add(Finding{Code: TileMissing, First: number * span, Last: (number+1)*span - 1, Count: span,
				Text: fmt.Sprintf("tile %d of level %d is missing", number, level)})
		}
		stored = got
	}
	for i := range got {
		if got[i] != stored[i] {
			each := span / merkle.TileWidth
			first := number*span + uint64(i)*each
			w.found.add(Finding{Code: TileChanged, First: first, Last: first + each - 1, Count: each,
				Text: fmt.Sprintf("hash %d of tile %d of level %d is not that of the tile below it", i, number, level)})
		}
	}
	return w.above(ctx, level+1, tileRoot(stored))
}

// judge compares with the checkpoints of just this size.
func (w *walk) judge() {
	for w.next < len(w.checkpoints) && w.checkpoints[w.next].Size <= w.rows.size {
		c := w.checkpoints[w.next]
		w.next++
		switch {
		case c.Size < w.rows.size:
			// Cannot be: the walk stops at each. It would be a checkpoint before a range.
		case c.Root == w.rows.root():
			w.settle(c, true)
		case w.apart && c.Root == w.tiled.root():
			w.settle(c, false)
		default:
			w.bad = append(w.bad, c)
		}
	}
}

// settle takes what c proves: that the rows are right, or the tiles.
func (w *walk) settle(c Checkpoint, rowsAreRight bool) {
	by := c.name()
	w.gone.settle(c.Size, by)
	// Odd indices are noted a tile at a time, so some may lie behind c.
	n := slices.IndexFunc(w.pending, func(o odd) bool { return o.idx >= c.Size })
	if n < 0 {
		n = len(w.pending)
	}
	for _, o := range w.pending[:n] {
		f := Finding{First: o.idx, Last: o.idx, Count: 1, Proven: by}
		switch {
		case o.kind == added:
			f.Code, f.Text = RecordAdded, "a further row has this idx"
			w.strange[o.row] = o.idx
		case o.kind == missing:
			f.Code, f.Text = RecordMissing, "no row has this idx"
			w.proven[o.tile] = o.idx
		case rowsAreRight:
			f.Code, f.Text = TileChanged, "the record is as it was signed; its hash in the tile is not"
		default:
			f.Code, f.Text = RecordChanged, "the row is not what was signed"
			w.proven[o.tile], w.strange[o.row] = o.idx, o.idx
		}
		w.found.add(f)
	}
	for _, b := range w.bad {
		w.found.add(Finding{Code: Contradiction,
			Text: fmt.Sprintf("%s says something else about the first %d records than %s, which today's ledger agrees with: "+
				"two histories were signed", b.name(), b.Size, by)})
	}
	w.pending, w.bad = slices.Clone(w.pending[n:]), nil
	w.good, w.goodBy, w.goods = c.Size, &c, w.goods+1
	if !w.apart {
		return
	}
	if rowsAreRight {
		w.tiled = w.rows.clone()
	} else {
		w.rows = w.tiled.clone()
	}
}

func (c *Checkpoint) name() string {
	s := fmt.Sprintf("the checkpoint of %s (%s", text.Count(c.Size, "record", "records"), instant(c.At))
	if c.Signer != "" {
		s += ", signed by " + c.Signer
	}
	if len(c.Witnesses) > 0 {
		s += ", cosigned by " + strings.Join(c.Witnesses, " and ")
	}
	return s + ")"
}

// finish says what the checkpoints leave open.
func (w *walk) finish() {
	w.gone.finish()
	if len(w.bad) > 0 {
		w.unproven()
	}
	for _, o := range w.pending {
		f := Finding{First: o.idx, Last: o.idx, Count: 1}
		switch o.kind {
		case added:
			f.Code, f.Text = RecordAdded, "more than one row has this idx"
			w.strange[o.row] = o.idx
		case missing:
			f.Code, f.Text = RecordMissing, "no row has this idx"
			if o.tile != (tlog.Hash{}) {
				w.proven[o.tile] = o.idx
			}
		default:
			f.Code, f.Text = RecordOrTile, "the row and its hash in the tile differ; no checkpoint proves which of them is right"
			w.proven[o.tile], w.strange[o.row] = o.idx, o.idx
		}
		w.found.add(f)
	}
}

// unproven is about the records behind the last checkpoint that agreed, when
// later ones do not agree.
func (w *walk) unproven() {
	first := w.bad[0]
	for _, o := range w.pending {
		if o.kind == missing && o.tile == (tlog.Hash{}) && o.idx < first.Size {
			return // why the root cannot be had is said already
		}
	}
	if w.good >= first.Size {
		return
	}
	since := "nothing before it is proven either"
	if w.goodBy != nil {
		since = w.goodBy.name() + " still agrees"
	}
	which := "the first wrong record is one of these"
	if w.partial {
		which = "one of these is wrong, or a hash that stands for those that were not read; verify the whole ledger to " +
			"know which"
	}
	f := Finding{Code: RecordsRewritten, First: w.good, Last: first.Size - 1, Count: first.Size - w.good,
		Text: fmt.Sprintf("%s does not agree with today's records, nor with the tiles; %s: %s", first.name(), since, which)}
	w.found.add(f)
}

// remembering asks for the same tile of a level once: its 256 hashes are used
// one after the other.
func remembering(stored storedTile) storedTile {
	type known struct {
		number uint64
		hashes []tlog.Hash
	}
	last := map[int]known{}
	return func(ctx context.Context, level int, number uint64) ([]tlog.Hash, error) {
		if k, ok := last[level]; ok && k.number == number {
			return k.hashes, nil
		}
		hashes, err := stored(ctx, level, number)
		if err == nil {
			last[level] = known{number, hashes}
		}
		return hashes, err
	}
}

// skip goes on over records that are not read, by the hashes of the tiles. from
// and to are multiples of 256.
func (w *walk) skip(ctx context.Context, to uint64, stored storedTile) error {
	leaves := remembering(stored)
	for w.rows.size < to {
		at := w.rows.size
		level := 0
		for l := 1; at%(1<<(merkle.TileHeight*l)) == 0 && at+1<<(merkle.TileHeight*l) <= to; l++ {
			level = l
		}
		for ; ; level-- {
			if level == 0 {
				hashes, err := leaves(ctx, 0, at/merkle.TileWidth)
				if err != nil {
					return err
				}
				if hashes == nil {
					return fmt.Errorf("tile %d of level 0 is missing, so the range cannot be held against a checkpoint; verify the "+
						"whole ledger", at/merkle.TileWidth)
				}
				w.pass(merkle.TileHeight, tileRoot(hashes))
				break
			}
			n := at >> (merkle.TileHeight * level)
			hashes, err := leaves(ctx, level, n/merkle.TileWidth)
			if err != nil {
				return err
			}
			if hashes != nil {
				w.pass(merkle.TileHeight*level, hashes[n%merkle.TileWidth])
				break
			}
		}
	}
	return nil
}

// pass puts a hash of records that are not read into both trees.
func (w *walk) pass(height int, h tlog.Hash) {
	w.rows.add(height, h)
	if w.apart {
		w.tiled.add(height, h)
	}
}
