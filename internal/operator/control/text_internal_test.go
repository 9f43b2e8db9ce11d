package control

import (
	"strings"
	"testing"
)

// A name that looks like another one, and a note that steers a terminal, are refused
// whoever gives them: the character is named, and where it is.
func TestNamesAndNotesHoldNothingThatHidesOrSteers(t *testing.T) {
	for name, bad := range map[string]string{"override": "ad\u202emin", "zero width": "ad\u200bmin",
		"escape": "ad\x1b[31mmin", "C1": "ad\u009bmin",
		"line break": "ad\r\nmin", "no UTF-8": "ad\xffmin"} {
		for what, err := range map[string]error{"actor": checkActor(bad), "reason": checkReason(bad, true),
			"description": checkDescription(&bad)} {
			if err == nil || !strings.Contains(err.Error(), "at byte 2") {
				t.Errorf("%s in a %s: %v", name, what, err)
			}
		}
	}
	good := "Zoë 日本 (on call), שלום"
	if checkActor(good) != nil || checkReason(good, true) != nil || checkDescription(&good) != nil ||
		checkDescription(nil) != nil {
		t.Error("what people write is refused")
	}
}
