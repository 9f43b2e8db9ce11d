package custody_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/custody"
)

func TestTooYoungIsLessThanSixYears(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for cutoff, want := range map[time.Time]bool{
		now.AddDate(-6, 0, 0): false, now.AddDate(-6, 0, 1): true, now.AddDate(-7, 0, 0): false} {
		if got := custody.TooYoung(cutoff, now); got != want {
			t.Errorf("%s: %t", cutoff, got)
		}
	}
}
