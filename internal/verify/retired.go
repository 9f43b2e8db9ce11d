package verify

import (
	"time"

	"github.com/waybill-dev/waybill/internal/record"
)

// Retirement is one record that says which others were dropped because their
// retention was over.
type Retirement struct {
	Idx    uint64            `json:"idx"` // of the record that says so
	By     string            `json:"by"`
	At     time.Time         `json:"at"`
	Ranges []record.IdxRange `json:"ranges"`
	id     string
}

// retirements reads the records that retire and those that take back.
func retirements(retired, kept []Record) []Retirement {
	back := map[string]bool{}
	for _, k := range kept {
		if said, err := record.Decode(k.Body); err == nil && said.Action == record.ActionKept {
			back[record.TakenBack(said.Settings)] = true
		}
	}
	var out []Retirement
	for _, r := range retired {
		if x, ok := retirement(r); ok && !back[x.id] {
			out = append(out, x)
		}
	}
	return out
}

// retirement reads the record; ok is false if it lists nothing.
func retirement(r Record) (out Retirement, ok bool) {
	said, err := record.Decode(r.Body)
	if err != nil || said.Kind != record.OperatorAction || said.Action != record.ActionRetired {
		return out, false
	}
	what, err := record.ReadRetirement(said.Settings)
	return Retirement{Idx: r.Idx, By: said.Actor, At: said.At, Ranges: what.Ranges, id: what.ID}, err == nil
}
