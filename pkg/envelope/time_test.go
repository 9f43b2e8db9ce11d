package envelope

import (
	"strings"
	"testing"
)

func timed(timestamp string) []byte {
	return []byte(`{"id":"evt_1","type":"a.b","timestamp":"` + timestamp + `","data":1}`)
}

func TestTimesInLowerCaseAreRFC3339(t *testing.T) {
	for _, s := range []string{"2026-08-19t14:32:07z", "2026-08-19T14:32:07z", "2026-08-19t14:32:07.5+02:00"} {
		e, err := Parse(timed(s))
		if err != nil || e.RawTimestamp != strings.ToUpper(s) || e.Timestamp.IsZero() {
			t.Errorf("%s: %v, passed on as %q", s, err, e.RawTimestamp)
		}
		if body := string(e.AppendBody(nil, 1)); !strings.Contains(body, strings.ToUpper(s)) {
			t.Errorf("%s: a receiver gets %s", s, body)
		}
	}
}

func TestALeapSecondIsRefusedAsOne(t *testing.T) {
	for s, leap := range map[string]bool{
		"2016-12-31T23:59:60Z": true, "2016-12-31t23:59:60.5z": true, "2016-12-31T15:59:60-08:00": true,
		"2016-12-31T23:59:61Z": false, "2016-13-31T23:59:60Z": false, "2016-12-31T23:59:60": false,
	} {
		_, err := Parse(timed(s))
		if err == nil || strings.Contains(err.Error(), "leap second") != leap ||
			strings.Contains(err.Error(), "not an RFC 3339") == leap {
			t.Errorf("%s: %v", s, err)
		}
	}
}
