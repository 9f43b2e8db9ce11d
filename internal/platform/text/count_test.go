package text_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

func TestOneIsOne(t *testing.T) {
	for n, want := range map[int]string{0: "0 entries", 1: "1 entry", 2: "2 entries", -1: "-1 entries"} {
		if got := text.Count(n, "entry", "entries"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := text.Count(uint64(1), "record is", "records are"); got != "1 record is" {
		t.Errorf("%q", got)
	}
}
