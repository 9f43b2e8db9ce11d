package redact_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// Names that say it of most values are enough to remove them, though a lint of
// payloads only looks.
func TestWhatIsMostlyAboutAPersonIsNotKept(t *testing.T) {
	for text, gone := range map[string]string{
		`{"error":"no such patient","patient":"Erika Mustermann"}`: "Erika",
		"try later, sid=4711abcd":                                  "4711abcd",
		`{"displayName":"Karl K."}`:                                "Karl",
	} {
		if out, n := redact.Default().Redact([]byte(text)); n != 1 || strings.Contains(string(out), gone) {
			t.Errorf("%s became %s, %d removed", text, out, n)
		}
	}
	for _, stays := range []string{`{"patient":{"type":"patient","id":"p_4"}}`, `{"name":"order_queue"}`,
		"no patient has this id"} {
		if out, n := redact.Default().Redact([]byte(stays)); n > 0 {
			t.Errorf("%s became %s", stays, out)
		}
	}
	if k, ok := redact.LookUp("patient"); !ok || !k.Weak {
		t.Errorf("for a lint, patient is %+v", k)
	}
}

// A time as this program writes it, with nanoseconds, is no social security number.
func TestTimesWithNanosecondsStay(t *testing.T) {
	for _, text := range []string{`{"timestamp":"2026-11-30T17:10:05.226123457Z"}`,
		"at 2026-11-30T17:10:05.078051120+01:00, again", "2026-11-30 17:10:05.1234567z"} {
		if out, n := redact.Default().Redact([]byte(text)); n > 0 {
			t.Errorf("%s became %s", text, out)
		}
	}
	for _, text := range []string{"2026-11-30T17:10:05.078051120", "2026-11-30T17:10:05.078051120Zebra",
		"2026-11-30T17:10:05.0780511201Z"} {
		if out, n := redact.Default().Redact([]byte(text)); n == 0 {
			t.Errorf("%s was kept: %s", text, out)
		}
	}
}
