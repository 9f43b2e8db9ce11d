package dispatcher

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
)

func TestAnAttemptIsMadeAgainAtOnceOnlyOnceInARow(t *testing.T) {
	b := standardBudget()
	now := owed().Add(time.Second)
	stale := attempt.Facts{Outcome: outcome.ConnectionReset, Again: true}
	if d := Decide(stale, 0, b, now, half); !stale.Free() || stale.AboutReceiver() || d.Verdict != outcome.VerdictRetry ||
		!d.RetryAt.Equal(now) || !d.Repeat {
		t.Errorf("the first one: %+v", d)
	}
	stale.Repeated = true
	if d := Decide(stale, 1, b, now, half); stale.Free() || !stale.AboutReceiver() || d.Repeat ||
		d.RetryAt.Sub(now) < 5*time.Second {
		t.Errorf("the second one: %+v", d)
	}
	stale.Repeated = false
	if d := Decide(stale, 0, b, owed().Add(40*time.Hour), half); d.Verdict != outcome.VerdictDeadLetter {
		t.Errorf("when the time is over: %+v", d)
	}
}

// A wrong answer of the DNS passes; an address in the URL does not.
func TestANameWithABlockedAddressIsTriedAgainUntilTheBudgetEnds(t *testing.T) {
	b := standardBudget()
	named, literal := attempt.Facts{Outcome: outcome.AddressBlocked, ByName: true},
		attempt.Facts{Outcome: outcome.AddressBlocked}
	if d := Decide(named, 1, b, owed().Add(time.Second), half); d.Verdict != outcome.VerdictRetry {
		t.Errorf("a name: %+v", d)
	}
	for _, at := range []time.Duration{time.Hour, 40 * time.Hour} {
		if d := Decide(named, 8, b, owed().Add(at), half); d.Reason != outcome.ReasonAddressBlocked ||
			!strings.Contains(d.Why, "also at the last attempt") {
			t.Errorf("a name, at the end: %+v", d)
		}
	}
	if d := Decide(literal, 1, b, owed().Add(time.Second), half); d.Reason != outcome.ReasonAddressBlocked {
		t.Errorf("an address: %+v", d)
	}
}
