package verify

import (
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/record"
)

// ActionRetired is the action of the operator.action that says which records
// were dropped because their retention was over.
const ActionRetired = "ledger.retired"

// ActionKept takes one back.
const ActionKept = "ledger.kept"

// Settings of that record: which retirement it belongs to, and the records,
// "0-4095 8192-9000", both ends included.
const (
	settingRetirement = "retirement"
	settingRanges     = "ranges"
)

// Retirement is one such record.
type Retirement struct {
	Idx    uint64      `json:"idx"` // of the record that says so
	By     string      `json:"by"`
	At     time.Time   `json:"at"`
	Ranges [][2]uint64 `json:"ranges"`
	id     string
}

// retirements reads the records that retire and those that take back.
func retirements(retired, kept []Record) []Retirement {
	back := map[string]bool{}
	for _, k := range kept {
		if said, err := record.Decode(k.Body); err == nil && said.Action == ActionKept {
			back[said.Settings[settingRetirement]] = true
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
	if err != nil || said.Kind != record.OperatorAction || said.Action != ActionRetired {
		return out, false
	}
	out = Retirement{Idx: r.Idx, By: said.Actor, At: said.At, id: said.Settings[settingRetirement]}
	for _, part := range strings.Fields(said.Settings[settingRanges]) {
		from, to, _ := strings.Cut(part, "-")
		first, err1 := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err1 != nil || err2 != nil || last < first {
			return out, false
		}
		out.Ranges = append(out.Ranges, [2]uint64{first, last})
	}
	return out, len(out.Ranges) > 0
}
