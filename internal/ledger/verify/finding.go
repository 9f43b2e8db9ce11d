package verify

import (
	"fmt"
	"slices"
)

// Code says what kind of thing is wrong.
type Code string

// The codes, as -o json has them.
const (
	RecordChanged     Code = "record_changed"     // its hash is not the one that a checkpoint proves
	RecordMissing     Code = "record_missing"     // no row has this idx
	RecordAdded       Code = "record_added"       // a row that the ledger does not know
	RecordMoved       Code = "record_moved"       // the row is another index's record
	RecordsRewritten  Code = "records_rewritten"  // records and tiles agree, and no checkpoint agrees with them
	RecordOrTile      Code = "record_or_tile"     // record and tile differ, and no checkpoint says which is right
	ColumnChanged     Code = "column_changed"     // the record is good, a column beside it is not
	TileChanged       Code = "tile_changed"       // the records are good, their tile is not
	TileMissing       Code = "tile_missing"       // or no tile, or there twice
	RolledBack        Code = "rolled_back"        // a signed checkpoint covers more than the ledger has
	NoCheckpoint      Code = "no_checkpoint"      // nothing is proven
	NotCovered        Code = "not_covered"        // records that a checkpoint should long have covered
	CheckpointInvalid Code = "checkpoint_invalid" // no signed note, or not that key's signature
	CheckpointAltered Code = "checkpoint_altered" // its columns do not say what its note says
	CheckpointMissing Code = "checkpoint_missing" // published, and no longer in the table
	CheckpointsGone   Code = "checkpoints_gone"   // the stream that keeps them was deleted, or made anew
	KeyReplaced       Code = "key_replaced"       // later checkpoints are signed by a key that nothing endorses
	Contradiction     Code = "contradiction"      // two signed checkpoints that cannot both be true
	SchemaChanged     Code = "schema_changed"     // tables or views are not this version's
	StreamDiffers     Code = "stream_differs"     // LEDGER holds something else
	NotInStream       Code = "not_in_stream"      // a row that LEDGER should hold and does not
	NotInLedger       Code = "not_in_ledger"      // a record of LEDGER that no row has
)

// Finding is one thing that is wrong. Findings about records next to each other
// that are alike are one.
type Finding struct {
	Code Code `json:"code"`
	// First and Last are the indices that it is about, both included. Count is
	// how many of those; 0: it is not about records.
	First uint64 `json:"first,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	Count uint64 `json:"count,omitempty"`
	// ID is the first one's record id, where a row or LEDGER still says it.
	ID string `json:"id,omitempty"`
	// Text says it in words.
	Text    string       `json:"text"`
	Columns []Difference `json:"columns,omitempty"`
	// Proven names the checkpoint that proves it; empty: see Text.
	Proven string `json:"proven_by,omitempty"`
}

// maxFindings bounds what is kept apart; the rest is counted.
const maxFindings = 10_000

// findings collects.
type findings struct {
	List    []Finding `json:"list"`
	Dropped uint64    `json:"dropped"` // more than maxFindings
}

// add keeps f, as part of the last one if it goes on with that.
func (fs *findings) add(f Finding) {
	if n := len(fs.List); n > 0 && f.Count > 0 {
		last := &fs.List[n-1]
		if last.Code == f.Code && last.Count > 0 && f.First == last.Last+1 && last.Proven == f.Proven &&
			sameColumns(last.Columns, f.Columns) {
			last.Last, last.Count = f.Last, last.Count+f.Count
			return
		}
	}
	if len(fs.List) >= maxFindings {
		fs.Dropped++
		return
	}
	fs.List = append(fs.List, f)
}

func sameColumns(a, b []Difference) bool {
	return slices.EqualFunc(a, b, func(x, y Difference) bool { return x.Column == y.Column })
}

// Range writes the indices.
func (f *Finding) Range() string {
	if f.First == f.Last {
		return fmt.Sprintf("record %d", f.First)
	}
	return fmt.Sprintf("records %d to %d", f.First, f.Last)
}
