package dispatcher

import (
	"testing"
	"time"
)

// TestEachReasonIsGivenWhereItIsTrue makes the case of every reason: what is said
// of the receiver follows from attempts of this delivery, and of nothing else.
func TestEachReasonIsGivenWhereItIsTrue(t *testing.T) {
	now, late := owed().Add(time.Second), owed().Add(40*time.Hour)
	answered := standardBudget()
	answered.EverResponded = true
	before := func(made int, b Budget, at time.Time, held Held) Decision {
		d, _ := DecideBefore(b, made, at, held)
		return d
	}
	status := func(n int) Decision {
		return Decide(Facts{Outcome: StatusOutcome(n), Status: n, GotResponse: true}, 1, standardBudget(), now, half)
	}
	busy := Facts{Outcome: OutcomeStatusRetryable, Status: 503, GotResponse: true}
	failing, ours := Held{Failing: "F"}, Held{Ours: "O"}
	cases := []struct {
		name string
		got  Decision
		want ReasonCode
		why  string
	}{
		{"all attempts were made without an answer", Decide(Facts{Outcome: OutcomeTimeout}, 8, standardBudget(), now, half),
			ReasonEndpointUnreachable, "every attempt of the schedule was made, and no response ever came"},
		{"some were, until the window ended", before(3, standardBudget(), late, failing),
			ReasonEndpointUnreachable, "no response ever came, and no further attempt fits in the window of the schedule"},
		{"all were made and one was answered", Decide(busy, 8, standardBudget(), now, half), ReasonAttemptsExhausted, "every attempt of the schedule was made"},
		{"an earlier one was answered", before(3, answered, late, Held{}), ReasonAttemptsExhausted, "no further attempt fits in the window of the schedule"},
		{"none was made: the breaker", before(0, standardBudget(), late, failing), ReasonEndpointFailing, "no attempt was made in the time of the schedule: F"},
		{"none was made: our failure", before(0, standardBudget(), late, ours), ReasonInternalError, "no attempt was made in the time of the schedule: on our side, O"},
		{"none was made: the last try could not be sent", Decide(Facts{Outcome: OutcomeNotSent}, 0, standardBudget(), late, half),
			ReasonInternalError, "no attempt was made in the time of the schedule: on our side, the last try ended before anything was sent"},
		{"none was made, and nothing more is known", before(0, standardBudget(), late, Held{}), ReasonNotAttempted, "no attempt was made in the time of the schedule"},
		{"the deadline, after attempts", before(2, urgentBudget(time.Minute), late, Held{}),
			ReasonDeadlineExceeded, "no further attempt fits before the deadline and its reserve for escalation"},
		{"the deadline, before any", before(0, urgentBudget(time.Minute), late, ours),
			ReasonDeadlineExceeded, "no attempt was made before the deadline and its reserve for escalation: on our side, O"},
		{"401", status(401), ReasonSignatureRejected, "the receiver did not accept the signature or credentials"},
		{"422", status(422), ReasonPermanentlyRejected, "the receiver rejected it for good"},
		{"302", status(302), ReasonPermanentlyRejected, "the receiver answered with a redirect, which is never followed"},
		{"410", status(410), ReasonEndpointGone, "the receiver said that it is gone for good"},
		{"an address in the URL", Decide(Facts{Outcome: OutcomeAddressBlocked}, 1, standardBudget(), now, half),
			ReasonAddressBlocked, "the endpoint's address may not be called"},
		{"an address of the name, to the end", Decide(Facts{Outcome: OutcomeAddressBlocked, ByName: true}, 8, standardBudget(), now, half),
			ReasonAddressBlocked, "the endpoint's name had an address that may not be called, also at the last attempt"},
		{"disabled", Undeliverable(ReasonEndpointDisabled), ReasonEndpointDisabled, "the endpoint is disabled"},
		{"deleted", Undeliverable(ReasonEndpointDeleted), ReasonEndpointDeleted, "the endpoint was deleted"},
		{"invalid", Undeliverable(ReasonInvalidEvent), ReasonInvalidEvent, "the event is not valid"},
		{"too large", Undeliverable(ReasonPayloadTooLarge), ReasonPayloadTooLarge, "the body is larger than the limit"},
	}
	missing := map[ReasonCode]bool{}
	for _, r := range reasons() {
		missing[r] = true
	}
	for _, c := range cases {
		delete(missing, c.want)
		if c.got.Verdict != VerdictDeadLetter || c.got.Reason != c.want || c.got.Why != c.why {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, c.got.Reason, c.got.Why, c.want, c.why)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no case is made of %v", missing)
	}
}
