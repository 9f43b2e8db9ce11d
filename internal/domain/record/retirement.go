package record

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// The actions of operator.action by which people keep and retire records.
const (
	ActionHoldAdded    = "hold.added"
	ActionHoldReleased = "hold.released"
	ActionRetired      = "ledger.retired"
	ActionKept         = "ledger.kept" // takes an ActionRetired back
)

// IdxRange is records First to Last of the ledger.
type IdxRange struct {
	First uint64 `ch:"first"`
	Last  uint64 `ch:"last"`
}

// Retirement is what a record ledger.retired says: one of the Parts records by
// which one month is retired, and the records that go by it. ledger.kept names
// the retirement that it takes back, and the month.
type Retirement struct {
	ID          string // ret_ + ULID; the same in all parts
	Month       uint32 // such as 201501
	Parts, Part int
	Ranges      []IdxRange
}

const (
	settingRetirement = "retirement"
	settingMonth      = "month"
	settingParts      = "parts"
	settingPart       = "part"
	settingRanges     = "ranges"
	settingRecords    = "records"
)

// Settings are how it goes on record.
func (r Retirement) Settings() map[string]string {
	out := map[string]string{settingRetirement: r.ID, settingMonth: strconv.FormatUint(uint64(r.Month), 10)}
	if len(r.Ranges) > 0 {
		out[settingParts], out[settingPart] = strconv.Itoa(r.Parts), strconv.Itoa(r.Part)
		out[settingRanges], out[settingRecords] = FormatRanges(r.Ranges), strconv.FormatUint(RangesCount(r.Ranges), 10)
	}
	return out
}

// Detail says it for people. What programs read are the settings.
func (r Retirement) Detail() string {
	month := fmt.Sprintf("%04d-%02d", r.Month/100, r.Month%100)
	if len(r.Ranges) == 0 {
		return "the retirement of " + month + " is taken back; none of its records is gone"
	}
	n := RangesCount(r.Ranges)
	are := "are"
	if n == 1 {
		are = "is"
	}
	out := fmt.Sprintf("%s, with idx from %d to %d, %s dropped", text.Count(n, "record of "+month, "records of "+month),
		r.Ranges[0].First, r.Ranges[len(r.Ranges)-1].Last, are)
	if r.Parts > 1 {
		out += fmt.Sprintf(" (part %d of %d)", r.Part, r.Parts)
	}
	return out + "; their hashes stay"
}

// ReadRetirement reads the settings of a record ledger.retired.
func ReadRetirement(settings map[string]string) (Retirement, error) {
	r := Retirement{ID: TakenBack(settings)}
	month, err1 := strconv.ParseUint(settings[settingMonth], 10, 32)
	parts, err2 := strconv.Atoi(settings[settingParts])
	part, err3 := strconv.Atoi(settings[settingPart])
	var err error
	r.Month, r.Parts, r.Part = uint32(month), parts, part
	if r.Ranges, err = ParseRanges(settings[settingRanges]); err != nil {
		return r, err
	}
	if err1 != nil || err2 != nil || err3 != nil || len(r.Ranges) == 0 || r.ID == "" {
		return r, fmt.Errorf("retirement %q: want the settings retirement, month, parts, part and ranges", r.ID)
	}
	return r, nil
}

// TakenBack is the retirement that a record ledger.kept takes back.
func TakenBack(settings map[string]string) string { return settings[settingRetirement] }

// FormatRanges and ParseRanges are how ranges go on record: "0-9 12-12".
func FormatRanges(ranges []IdxRange) string {
	var b strings.Builder
	for i, r := range ranges {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d-%d", r.First, r.Last)
	}
	return b.String()
}

// ParseRanges reads what FormatRanges wrote.
func ParseRanges(s string) ([]IdxRange, error) {
	var out []IdxRange
	for _, f := range strings.Fields(s) {
		first, last, _ := strings.Cut(f, "-")
		a, err1 := strconv.ParseUint(first, 10, 64)
		b, err2 := strconv.ParseUint(last, 10, 64)
		if err1 != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("index range %q: want FIRST-LAST", f)
		}
		out = append(out, IdxRange{a, b})
	}
	return out, nil
}

// RangesCount is how many records the ranges hold.
func RangesCount(ranges []IdxRange) (n uint64) {
	for _, r := range ranges {
		n += r.Last - r.First + 1
	}
	return n
}
