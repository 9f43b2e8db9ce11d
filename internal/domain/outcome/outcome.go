// Package outcome is the vocabulary of what becomes of attempts, deliveries and
// events: outcome, class, verdict, state and reason, each with its sentence. The
// codes are written to the ledger: they MUST NOT change. Who decides on one of
// them decides elsewhere; here is only what they are called and what they mean.
package outcome

// Outcome is what became of one attempt.
type Outcome string

// The outcomes that this version gives.
const (
	Delivered          Outcome = "delivered"
	Timeout            Outcome = "timeout"
	ConnectionRefused  Outcome = "connection_refused"
	ConnectionReset    Outcome = "connection_reset"
	DNSFailure         Outcome = "dns_failure"
	TLSFailure         Outcome = "tls_failure"
	ConnectionFailed   Outcome = "connection_failed"
	StatusRetryable    Outcome = "status_retryable"
	StatusTerminal     Outcome = "status_terminal"
	Redirect           Outcome = "redirect"
	InformationalFinal Outcome = "informational_final"
	BadResponse        Outcome = "bad_response"
	AddressBlocked     Outcome = "address_blocked"
	AuthFailure        Outcome = "auth_failure"
	Interrupted        Outcome = "interrupted"
	NotSent            Outcome = "not_sent"
	Unknown            Outcome = "unknown"
)

// said is a code with its sentence. A list of them keeps the order in which
// people read them.
type said[T ~string] struct {
	code     T
	sentence string
}

var outcomes = []said[Outcome]{
	{Delivered, "the receiver accepted it"},
	{Timeout, "no complete answer came in time"},
	{ConnectionRefused, "the receiver refused the connection"},
	{ConnectionReset, "the connection was closed or reset before an answer was complete"},
	{DNSFailure, "the name of the receiver could not be resolved"},
	{TLSFailure, "no secure connection could be made"},
	{ConnectionFailed, "the request could not be sent"},
	{StatusRetryable, "the receiver answered 408, 425, 429 or 5xx"},
	{StatusTerminal, "the receiver answered with another 4xx status"},
	{Redirect, "the receiver answered with a redirect, which is never followed"},
	{InformationalFinal, "the receiver sent an informational status and no final one"},
	{BadResponse, "the answer was not HTTP, or its headers were too large"},
	{AddressBlocked, "the endpoint's address may not be called"},
	{AuthFailure, "no access token could be had, or the receiver did not take it any more"},
	{Interrupted, "Waybill cancelled it, because it was stopped"},
	{NotSent, "nothing was sent: the failure was on Waybill's side"},
	{Unknown, "the process died during it"},
}

// Outcomes are all that this version gives.
func Outcomes() []Outcome { return codes(outcomes) }

// Sentence says what the outcome means. Of an outcome that this version does not
// know it is the code.
func (o Outcome) Sentence() string {
	if s := sentence(notices, o); s != string(o) {
		return s
	}
	return sentence(outcomes, o)
}

// Class groups outcomes by what follows from them.
type Class string

// The classes.
const (
	ClassDelivered Class = "delivered"
	ClassRetryable Class = "retryable"
	ClassTerminal  Class = "terminal"
)

// Class returns what follows from the outcome. An outcome that this version does
// not know is retryable: giving up needs a reason, trying again does not.
func (o Outcome) Class() Class {
	switch o {
	case Delivered:
		return ClassDelivered
	case StatusTerminal, Redirect, InformationalFinal, AddressBlocked:
		return ClassTerminal
	}
	return ClassRetryable
}

// AboutReceiver says whether the outcome is a word about the receiver. What is
// not is held against nobody: neither the breaker nor the endpoint's health
// hears of it.
func (o Outcome) AboutReceiver() bool {
	switch o {
	case Interrupted, NotSent, Unknown, AddressBlocked:
		return false
	}
	return true
}

// OfStatus returns the outcome that a final HTTP status stands for. A status
// outside 100 to 599 counts as 5xx, as RFC 9110 section 15 asks.
func OfStatus(status int) Outcome {
	switch {
	case status >= 100 && status < 200:
		return InformationalFinal
	case status >= 200 && status < 300:
		return Delivered
	case status >= 300 && status < 400:
		return Redirect
	case status == 408 || status == 425 || status == 429:
		return StatusRetryable
	case status >= 400 && status < 500:
		return StatusTerminal
	}
	return StatusRetryable
}

// Verdict is what happens to the delivery next.
type Verdict string

// The verdicts.
const (
	VerdictDelivered  Verdict = "delivered"
	VerdictRetry      Verdict = "retry"
	VerdictDeadLetter Verdict = "dead_letter"
)

// The states of a delivery.
const (
	StatePending      = "pending"
	StateDelivered    = "delivered"
	StateDeadLettered = "dead_lettered"
	StateCancelled    = "cancelled"
)

func codes[T ~string](list []said[T]) []T {
	out := make([]T, len(list))
	for i, s := range list {
		out[i] = s.code
	}
	return out
}

func sentence[T ~string](list []said[T], code T) string {
	for _, s := range list {
		if s.code == code {
			return s.sentence
		}
	}
	return string(code)
}
