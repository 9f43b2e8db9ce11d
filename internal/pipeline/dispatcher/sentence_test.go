package dispatcher

import (
	"errors"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
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
		return Decide(attempt.Facts{Outcome: outcome.OfStatus(n), Status: n, GotResponse: true}, 1, standardBudget(), now,
			half)
	}
	busy := attempt.Facts{Outcome: outcome.StatusRetryable, Status: 503, GotResponse: true}
	failing, ours := Held{Failing: "F"}, Held{Ours: "O"}
	cases := []struct {
		name string
		got  Decision
		want outcome.Reason
		why  string
	}{
		{"all attempts were made without an answer",
			Decide(attempt.Facts{Outcome: outcome.Timeout}, 8, standardBudget(), now, half),
			outcome.ReasonEndpointUnreachable, "every attempt of the schedule was made, and no response ever came"},
		{"some were, until the window ended", before(3, standardBudget(), late, failing),
			outcome.ReasonEndpointUnreachable, "no response ever came, and no further attempt fits in the window of the schedule"},
		{"all were made and one was answered", Decide(busy, 8, standardBudget(), now, half), outcome.ReasonAttemptsExhausted,
			"every attempt of the schedule was made"},
		{"an earlier one was answered", before(3, answered, late, Held{}), outcome.ReasonAttemptsExhausted,
			"no further attempt fits in the window of the schedule"},
		{"none was made: the breaker", before(0, standardBudget(), late, failing), outcome.ReasonEndpointFailing,
			"no attempt was made in the time of the schedule: F"},
		{"none was made: our failure", before(0, standardBudget(), late, ours), outcome.ReasonInternalError,
			"no attempt was made in the time of the schedule: on our side, O"},
		{"none was made: the last try could not be sent",
			Decide(attempt.Facts{Outcome: outcome.NotSent}, 0, standardBudget(), late, half),
			outcome.ReasonInternalError, "no attempt was made in the time of the schedule: on our side, the last try ended " +
				"before anything was sent"},
		{"none was made, and nothing more is known", before(0, standardBudget(), late, Held{}), outcome.ReasonNotAttempted,
			"no attempt was made in the time of the schedule"},
		{"the deadline, after attempts", before(2, urgentBudget(time.Minute), late, Held{}),
			outcome.ReasonDeadlineExceeded, "no further attempt fits before the deadline and its reserve for escalation"},
		{"the deadline, before any", before(0, urgentBudget(time.Minute), late, ours),
			outcome.ReasonDeadlineExceeded, "no attempt was made before the deadline and its reserve for escalation: on our " +
				"side, O"},
		{"401", status(401), outcome.ReasonSignatureRejected, "the receiver did not accept the signature or credentials"},
		{"422", status(422), outcome.ReasonPermanentlyRejected, "the receiver rejected it for good"},
		{"302", status(302), outcome.ReasonPermanentlyRejected,
			"the receiver answered with a redirect, which is never followed"},
		{"410", status(410), outcome.ReasonEndpointGone, "the receiver said that it is gone for good"},
		{"an address in the URL", Decide(attempt.Facts{Outcome: outcome.AddressBlocked}, 1, standardBudget(), now, half),
			outcome.ReasonAddressBlocked, "the endpoint's address may not be called"},
		{"an address of the name, to the end", Decide(attempt.Facts{Outcome: outcome.AddressBlocked, ByName: true}, 8,
			standardBudget(), now, half),
			outcome.ReasonAddressBlocked, "the endpoint's name had an address that may not be called, also at the last attempt"},
		{"disabled", Undeliverable(outcome.ReasonEndpointDisabled), outcome.ReasonEndpointDisabled,
			"the endpoint is disabled"},
		{"deleted", Undeliverable(outcome.ReasonEndpointDeleted), outcome.ReasonEndpointDeleted, "the endpoint was deleted"},
		{"invalid", Undeliverable(outcome.ReasonInvalidEvent), outcome.ReasonInvalidEvent, "the event is not valid"},
		{"never to be stored", notStorable(errors.New("E")), outcome.ReasonNotStorable,
			"what waits for the next attempt can never be stored: E"},
		{"too large", Undeliverable(outcome.ReasonPayloadTooLarge), outcome.ReasonPayloadTooLarge,
			"the body is larger than the limit"},
	}
	missing := map[outcome.Reason]bool{}
	for _, r := range outcome.DeadLetters() {
		missing[r] = true
	}
	for _, c := range cases {
		delete(missing, c.want)
		if c.got.Verdict != outcome.VerdictDeadLetter || c.got.Reason != c.want || c.got.Why != c.why {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, c.got.Reason, c.got.Why, c.want, c.why)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no case is made of %v", missing)
	}
}
