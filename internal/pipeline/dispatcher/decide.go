package dispatcher

import (
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
)

// Decision is the verdict on a delivery, and its reason.
type Decision struct {
	Verdict         outcome.Verdict
	RetryAt         time.Time      // When the next attempt is due; only with VerdictRetry.
	Wait            time.Duration  // How long that was when it was decided; 0 in a decision that was read from its record.
	Reason          outcome.Reason // Only with VerdictDeadLetter.
	DisableEndpoint bool           // The receiver said 410: call this endpoint no more.
	Repeat          bool           // The next attempt is this one, made again.
	Why             string         // A short sentence for the record. Nothing of the payload in it, and no secret.
}

// Budget is what a delivery may spend: see package budget.
type Budget = retry.Budget

// Held is what is known to keep attempts from being made. The zero value: nothing.
type Held struct {
	Ours    string // What is wrong on our side.
	Failing string // What the endpoint came to lately, while its breaker is open.
}

// DecideBefore says whether the budget still allows an attempt that would start
// now. When it does not, ok is false and the decision is final. It catches deliveries
// that were handed over late, or twice, and those that were held until now.
func DecideBefore(b Budget, attemptsMade int, now time.Time, held Held) (d Decision, ok bool) {
	until, deadline := retry.End(b)
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
func Undeliverable(reason outcome.Reason) Decision {
	why := map[outcome.Reason]string{
		outcome.ReasonEndpointDisabled: "the endpoint is disabled",
		outcome.ReasonEndpointDeleted:  "the endpoint was deleted",
		outcome.ReasonInvalidEvent:     "the event is not valid",
		outcome.ReasonPayloadTooLarge:  "the body is larger than the limit",
		outcome.ReasonAddressBlocked:   "the endpoint's address may not be called",
	}[reason]
	return deadLetter(reason, why)
}

// notStorable is the decision on a delivery of which the server can never store
// what waits for the next attempt.
func notStorable(err error) Decision {
	return deadLetter(outcome.ReasonNotStorable, "what waits for the next attempt can never be stored: "+err.Error())
}

// Decide is the one place where an attempt's outcome becomes the delivery's fate.
// It is pure. attemptsMade counts the attempts of this budget, this one included
// (a replay starts a budget of its own); now is when the attempt ended; rnd is
// uniform in [0,1).
func Decide(f attempt.Facts, attemptsMade int, b Budget, now time.Time, rnd func() float64) Decision {
	switch f.Outcome.Class() {
	case outcome.ClassDelivered:
		return Decision{Verdict: outcome.VerdictDelivered, Why: "the receiver accepted it"}
	case outcome.ClassTerminal:
		if !f.ByName {
			return terminal(f)
		}
	}
	return retryOrGiveUp(f, attemptsMade, b, now, rnd)
}

// whyRepeat is also how a record says that its attempt cost nothing.
const whyRepeat = "there was no answer, for the connection's or the protocol's sake; it is made again at once, and " +
	"this one costs nothing"

func terminal(f attempt.Facts) Decision {
	switch {
	case f.Outcome == outcome.AddressBlocked:
		return deadLetter(outcome.ReasonAddressBlocked, "the endpoint's address may not be called")
	case f.Outcome == outcome.Redirect:
		return deadLetter(outcome.ReasonPermanentlyRejected, "the receiver answered with a redirect, which is never followed")
	case f.Outcome == outcome.InformationalFinal:
		return deadLetter(outcome.ReasonPermanentlyRejected, "the receiver sent an informational status and no final one")
	case f.Status == 401 || f.Status == 403:
		return deadLetter(outcome.ReasonSignatureRejected, "the receiver did not accept the signature or credentials")
	case f.Status == 410:
		d := deadLetter(outcome.ReasonEndpointGone, "the receiver said that it is gone for good")
		d.DisableEndpoint = true
		return d
	}
	return deadLetter(outcome.ReasonPermanentlyRejected, "the receiver rejected it for good")
}

func retryOrGiveUp(f attempt.Facts, attemptsMade int, b Budget, now time.Time, rnd func() float64) Decision {
	responded := b.EverResponded || f.GotResponse
	until, deadline := retry.End(b)
	over := func(at time.Time) bool { return !until.IsZero() && !at.Before(until) }

	held := Held{}
	if f.Outcome == outcome.NotSent {
		held.Ours = "the last try ended before anything was sent"
	}
	end := func(d Decision) Decision {
		if f.Outcome == outcome.AddressBlocked && d.Reason != outcome.ReasonDeadlineExceeded {
			return deadLetter(outcome.ReasonAddressBlocked,
				"the endpoint's name had an address that may not be called, also at the last attempt")
		}
		return d
	}
	if over(now) {
		return end(timeOver(attemptsMade, responded, deadline, held))
	}
	if f.Again && !f.Repeated {
		return Decision{Verdict: outcome.VerdictRetry, RetryAt: now, Repeat: true, Why: whyRepeat}
	}
	left := time.Duration(0)
	if !until.IsZero() {
		left = until.Sub(now)
	}
	delay, ok := retry.NextWithin(b.Policy, attemptsMade, left, rnd)
	if !ok {
		return end(spent(responded))
	}
	why := "the schedule allows another attempt"
	switch {
	case f.Outcome == outcome.NotSent:
		delay, why = 0, "no request was made: the failure was on our side, and it costs no attempt"
	case f.Outcome == outcome.Unknown || f.Outcome == outcome.Interrupted:
		// The failure was ours: there is nothing to spare the receiver from.
		delay, why = 0, "the attempt was cut short on our side; another one follows at once"
	case f.RetryAfter > delay:
		delay, why = f.RetryAfter, "the receiver asked to wait longer than the schedule does"
	}
	at := now.Add(delay)
	if over(at) {
		return end(timeOver(attemptsMade, responded, deadline, held))
	}
	return Decision{Verdict: outcome.VerdictRetry, RetryAt: at, Wait: delay, Why: why}
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
		return deadLetter(outcome.ReasonDeadlineExceeded,
			"no attempt was made before the deadline and its reserve for escalation"+held.because())
	case deadline:
		return deadLetter(outcome.ReasonDeadlineExceeded,
			"no further attempt fits before the deadline and its reserve for escalation")
	case made == 0:
		return deadLetter(held.reason(), "no attempt was made in the time of the schedule"+held.because())
	case responded:
		return deadLetter(outcome.ReasonAttemptsExhausted, "no further attempt fits in the window of the schedule")
	}
	return deadLetter(outcome.ReasonEndpointUnreachable,
		"no response ever came, and no further attempt fits in the window of the schedule")
}

func (h Held) reason() outcome.Reason {
	switch {
	case h.Ours != "":
		return outcome.ReasonInternalError
	case h.Failing != "":
		return outcome.ReasonEndpointFailing
	}
	return outcome.ReasonNotAttempted
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
		return deadLetter(outcome.ReasonAttemptsExhausted, "every attempt of the schedule was made")
	}
	return deadLetter(outcome.ReasonEndpointUnreachable,
		"every attempt of the schedule was made, and no response ever came")
}

func deadLetter(reason outcome.Reason, why string) Decision {
	return Decision{Verdict: outcome.VerdictDeadLetter, Reason: reason, Why: why}
}
