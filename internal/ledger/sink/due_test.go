package sink

import (
	"testing"
	"time"
)

func TestARecordAfterAPauseIsStoredSoonAndATrickleOnceAnAge(t *testing.T) {
	now, age := time.Now(), time.Second
	for name, c := range map[string]struct{ since, want time.Duration }{
		"the first of all":      {1 << 40, age / soonOf},
		"after a pause":         {2 * age, age / soonOf},
		"just after a batch":    {0, age},
		"in the middle":         {age / 4, age * 3 / 4},
		"just before the pause": {age - time.Millisecond, age / soonOf},
		"the clock went back":   {-time.Hour, age},
	} {
		if got := due(now, now.Add(-c.since), age).Sub(now); got != c.want {
			t.Errorf("%s: the batch ends after %s, want %s", name, got, c.want)
		}
	}
}
