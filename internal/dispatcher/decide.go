package dispatcher

import (
	"time"

	"github.com/waybill-dev/waybill/internal/budget"
	"github.com/waybill-dev/waybill/internal/retry"
)

// Verdict is what happens to the delivery next. Written to the ledger.
type Verdict string

const (
	VerdictDelivered  Verdict = "delivered"
	VerdictRetry      Verdict = "retry"
	VerdictDeadLetter Verdict = "dead_letter"
)

// Decision is the verdict on a delivery, and its reason.
type Decision struct {
	Verdict         Verdict
	RetryAt         time.Time  // When the next attempt is due; only with VerdictRetry.
	Reason          ReasonCode // Only with VerdictDeadLetter.
	DisableEndpoint bool       // The receiver said 410: call this endpoint no more.
	Why             string     // A short sentence for the record. Nothing of the payload in it, and no secret.
}

// Budget is what a delivery may spend: see package budget.
type Budget = budget.Budget

// Facts are what an attempt means for its delivery. Result.Facts returns them;
// an attempt whose process died is Facts{Outcome: OutcomeUnknown}.
type Facts struct {
	Outcome     Outcome
	Status      int           // HTTP status; 0 when no response came.
	RetryAfter  time.Duration // The receiver's wish; 0 when it had none.
	GotResponse bool
}

// Held is what is known to keep attempts from being made. The zero value: nothing.
type Held struct {
	Ours    string // What is wrong on our side.
	Failing string // What the endpoint came to lately, while its breaker is open.
}

// DecideBefore says whether the budget still allows an attempt that would start
// now. When it does not, ok is false and the decision is final. It catches tasks
// that were handed over late, or twice, and those that were held until now.
func DecideBefore(b Budget, attemptsMade int, now time.Time, held Held) (d Decision, ok bool) {
	until, deadline := budget.End(b)
	if !until.IsZero() && !now.Before(until) {
		return timeOver(attemptsMade, b.EverResponded, deadline, held), false
	}
	if most := b.Policy.Attempts(); most > 0 && attemptsMade >= most {
		return spent(b.EverResponded), false
	}
	return Decision{}, true
}

// Undeliverable is the decision on a delivery that can be given up without an
// attempt: its endpoint is disabled or deleted, its event invalid, its body too large.
func Undeliverable(reason ReasonCode) Decision {
	why := map[ReasonCode]string{
		ReasonEndpointDisabled: "the endpoint is disabled",
		ReasonEndpointDeleted:  "the endpoint was deleted",
		ReasonInvalidEvent:     "the event is not valid",
		ReasonPayloadTooLarge:  "the body is larger than the limit",
		ReasonAddressBlocked:   "the endpoint's address may not be called",
	}[reason]
	return deadLetter(reason, why)
}

// Decide is the one place where an attempt's outcome becomes the delivery's fate.
// It is pure. attemptsMade counts the attempts of this budget, this one included
// (a replay starts a budget of its own); now is when the attempt ended; rnd is
// uniform in [0,1).
func Decide(f Facts, attemptsMade int, b Budget, now time.Time, rnd func() float64) Decision {
	switch f.Outcome.Class() {
	case ClassDelivered:
		return Decision{Verdict: VerdictDelivered, Why: "the receiver accepted it"}
	case ClassTerminal:
		return terminal(f)
	}
	return retryOrGiveUp(f, attemptsMade, b, now, rnd)
}

func terminal(f Facts) Decision {
	switch {
	case f.Outcome == OutcomeAddressBlocked:
		return deadLetter(ReasonAddressBlocked, "the endpoint's address may not be called")
	case f.Outcome == OutcomeRedirect:
		return deadLetter(ReasonPermanentlyRejected, "the receiver answered with a redirect, which is never followed")
	case f.Outcome == OutcomeInformationalFinal:
		return deadLetter(ReasonPermanentlyRejected, "the receiver sent an informational status and no final one")
	case f.Status == 401 || f.Status == 403:
		return deadLetter(ReasonSignatureRejected, "the receiver did not accept the signature or credentials")
	case f.Status == 410:
		d := deadLetter(ReasonEndpointGone, "the receiver said that it is gone for good")
		d.DisableEndpoint = true
		return d
	}
	return deadLetter(ReasonPermanentlyRejected, "the receiver rejected it for good")
}

func retryOrGiveUp(f Facts, attemptsMade int, b Budget, now time.Time, rnd func() float64) Decision {
	responded := b.EverResponded || f.GotResponse
	until, deadline := budget.End(b)
	over := func(at time.Time) bool { return !until.IsZero() && !at.Before(until) }

	held := Held{}
	if f.Outcome == OutcomeNotSent {
		held.Ours = "the last try ended before anything was sent"
	}
	if over(now) {
		return timeOver(attemptsMade, responded, deadline, held)
	}
	left := time.Duration(0)
	if !until.IsZero() {
		left = until.Sub(now)
	}
	delay, ok := retry.NextWithin(b.Policy, attemptsMade, left, rnd)
	if !ok {
		return spent(responded)
	}
	why := "the schedule allows another attempt"
	switch {
	case f.Outcome == OutcomeNotSent:
		delay, why = 0, "no request was made: the failure was on our side, and it costs no attempt"
	case f.Outcome == OutcomeUnknown || f.Outcome == OutcomeInterrupted:
		// The failure was ours: there is nothing to spare the receiver from.
		delay, why = 0, "the attempt was cut short on our side; another one follows at once"
	case f.RetryAfter > delay:
		delay, why = f.RetryAfter, "the receiver asked to wait longer than the schedule does"
	}
	at := now.Add(delay)
	if over(at) {
		return timeOver(attemptsMade, responded, deadline, held)
	}
	return Decision{Verdict: VerdictRetry, RetryAt: at, Why: why}
}

// DecideHeld ends a delivery that was held until its time was over.
func DecideHeld(attemptsMade int, responded bool, held Held) Decision {
	return timeOver(attemptsMade, responded, false, held)
}

// timeOver is the end by time. What it says of the receiver follows from attempts
// that were made for this delivery; where there was none, it says what held them.
func timeOver(made int, responded, deadline bool, held Held) Decision {
	switch {
	case deadline && made == 0:
		return deadLetter(ReasonDeadlineExceeded, "no attempt was made before the deadline and its reserve for escalation"+held.because())
	case deadline:
		return deadLetter(ReasonDeadlineExceeded, "no further attempt fits before the deadline and its reserve for escalation")
	case made == 0:
		return deadLetter(held.reason(), "no attempt was made in the time of the schedule"+held.because())
	case responded:
		return deadLetter(ReasonAttemptsExhausted, "no further attempt fits in the window of the schedule")
	}
	return deadLetter(ReasonEndpointUnreachable, "no response ever came, and no further attempt fits in the window of the schedule")
}

func (h Held) reason() ReasonCode {
	switch {
	case h.Ours != "":
		return ReasonInternalError
	case h.Failing != "":
		return ReasonEndpointFailing
	}
	return ReasonNotAttempted
}

func (h Held) because() string {
	switch {
	case h.Ours != "":
		return ": on our side, " + h.Ours
	case h.Failing != "":
		return ": " + h.Failing
	}
	return ""
}

func spent(responded bool) Decision {
	if responded {
		return deadLetter(ReasonAttemptsExhausted, "every attempt of the schedule was made")
	}
	return deadLetter(ReasonEndpointUnreachable, "every attempt of the schedule was made, and no response ever came")
}

func deadLetter(reason ReasonCode, why string) Decision {
	return Decision{Verdict: VerdictDeadLetter, Reason: reason, Why: why}
}
