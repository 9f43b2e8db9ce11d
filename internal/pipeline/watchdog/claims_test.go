package watchdog

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/streams"
)

func TestClaimsThatAreForgottenBeforeTheirDayAreFound(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		first time.Time
		bytes uint64
		limit int64
		found int
	}{
		"full, and the oldest is of a quarter of an hour ago": {now.Add(-15 * time.Minute), 1000, 1024, 1},
		"full, and the oldest goes by its age":                {now.Add(-day), 1000, 1024, 0},
		"room is left":                                        {now.Add(-15 * time.Minute), 900, 1024, 0},
		"there is no limit":                                   {now.Add(-15 * time.Minute), 1000, -1, 0},
		"the clock went back":                                 {now.Add(time.Hour), 1000, 1024, 0},
	} {
		s := Snapshot{At: now, Policies: 1, Claims: Stream{Name: streams.Claims, Messages: 5, FirstAt: c.first,
			Bytes: c.bytes, MaxBytes: c.limit, MaxAge: day}}
		found := Judge(s, DefaultLimits())
		if len(found) != c.found || c.found > 0 && found[0].Code != ClaimsForgotten {
			t.Errorf("%s: %v", name, found)
		}
	}
}
