package verify

import (
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Report is what a run found.
type Report struct {
	// Good: what was checked is proven, and nothing is wrong.
	Good bool `json:"good"`

	Ledger  uint64  `json:"ledger"`          // how many records the ledger has
	Asked   *Range  `json:"asked,omitempty"` // nil: for all; whole tiles are read
	First   uint64  `json:"first"`           // of those that were read
	End     uint64  `json:"end"`             // one behind the last that was read
	Read    uint64  `json:"read"`            // rows
	Columns int     `json:"columns"`         // stored columns that were compared, of each row
	Seconds float64 `json:"seconds"`
	// Reached were read too, to compare with the first checkpoint behind the range.
	Reached *Range `json:"reached,omitempty"`
	// ResumedAt: the records before it were read by an earlier run.
	ResumedAt uint64 `json:"resumed_at,omitempty"`

	Keys        []string        `json:"keys"`
	Checkpoints CheckpointCount `json:"checkpoints"`
	// Last is the largest checkpoint that agrees: everything before its size is proven.
	Last *Checkpoint `json:"last,omitempty"`
	// Uncovered are records behind it.
	Uncovered uint64 `json:"uncovered"`

	Retired []RetiredRecords `json:"retired,omitempty"`
	Stream  *StreamResult    `json:"stream,omitempty"`
	Schema  *SchemaResult    `json:"schema,omitempty"`

	Findings []Finding `json:"findings"`
	// Dropped findings are more than are listed.
	Dropped uint64 `json:"dropped,omitempty"`
	// Notes are what is not wrong and should be known; Unproven what this run cannot show.
	Notes    []string `json:"notes,omitempty"`
	Unproven []string `json:"unproven,omitempty"`
}

// Range is records From to Until-1.
type Range struct {
	From  uint64 `json:"from"`
	Until uint64 `json:"until"`
}

// CheckpointCount counts the checkpoints that were found.
type CheckpointCount struct {
	Known  int `json:"known"`  // different ones
	Signed int `json:"signed"` // by a key that was given
	Agreed int `json:"agreed"` // with today's records
	// Outside of the database: in the stream, in files.
	Outside int `json:"outside"`
}

// RetiredRecords are rows that are rightly missing.
type RetiredRecords struct {
	First uint64    `json:"first"`
	Last  uint64    `json:"last"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
	Idx   uint64    `json:"idx"` // of the record that says so
}

// StreamResult is the comparison with LEDGER.
type StreamResult struct {
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	Compared uint64 `json:"compared"`
}

// SchemaResult is the comparison of tables and views with this version's.
type SchemaResult struct {
	Objects int      `json:"objects"` // tables and views that were compared
	Refused []string `json:"refused,omitempty"`
}

// AddSchema puts in what was found about tables and views.
func (r *Report) AddSchema(s SchemaResult, differences []string, notes []string) {
	r.Schema = &s
	r.Notes = append(r.Notes, notes...)
	for _, d := range differences {
		r.Findings = append(r.Findings, Finding{Code: SchemaChanged, Text: d})
	}
	for _, what := range s.Refused {
		r.Unproven = append(r.Unproven, fmt.Sprintf("%s could not be checked: this user may not read it", what))
	}
	r.Good = r.Good && len(differences) == 0
}

func keyNames(keys []note.Verifier) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%s+%08x", k.Name(), k.KeyHash()))
	}
	return out
}
