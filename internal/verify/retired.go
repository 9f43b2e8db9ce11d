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

// settingRanges is the setting of that record that lists them: "0-4095,8192-9000",
// both ends included.
const settingRanges = "ranges"

// Retirement is one such record.
type Retirement struct {
	Idx    uint64      `json:"idx"` // of the record that says so
	By     string      `json:"by"`
	At     time.Time   `json:"at"`
	Ranges [][2]uint64 `json:"ranges"`
}

// retirement reads the record; ok is false if it lists nothing.
func retirement(r Record) (out Retirement, ok bool) {
	said, err := record.Decode(r.Body)
	if err != nil || said.Kind != record.OperatorAction || said.Action != ActionRetired {
		return out, false
	}
	out = Retirement{Idx: r.Idx, By: said.Actor, At: said.At}
	for part := range strings.SplitSeq(said.Settings[settingRanges], ",") {
		from, to, _ := strings.Cut(strings.TrimSpace(part), "-")
		first, err1 := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err1 != nil || err2 != nil || last < first {
			return out, false
		}
		out.Ranges = append(out.Ranges, [2]uint64{first, last})
	}
	return out, true
}

func (r *Retirement) holds(idx uint64) bool {
	for _, x := range r.Ranges {
		if x[0] <= idx && idx <= x[1] {
			return true
		}
	}
	return false
}
