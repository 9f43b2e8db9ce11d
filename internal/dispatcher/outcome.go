package dispatcher

// Outcome is what became of one attempt. The values are written to the ledger:
// they MUST NOT change.
type Outcome string

const (
	OutcomeDelivered          Outcome = "delivered"
	OutcomeTimeout            Outcome = "timeout"
	OutcomeConnectionRefused  Outcome = "connection_refused"
	OutcomeConnectionReset    Outcome = "connection_reset" // Closed or reset before an answer was complete enough.
	OutcomeDNSFailure         Outcome = "dns_failure"
	OutcomeTLSFailure         Outcome = "tls_failure"
	OutcomeConnectionFailed   Outcome = "connection_failed"   // Any other failure to send the request.
	OutcomeStatusRetryable    Outcome = "status_retryable"    // 408, 425, 429, 5xx.
	OutcomeStatusTerminal     Outcome = "status_terminal"     // Any other 4xx.
	OutcomeRedirect           Outcome = "redirect"            // 3xx, never followed.
	OutcomeInformationalFinal Outcome = "informational_final" // 1xx and nothing after it.
	OutcomeBadResponse        Outcome = "bad_response"        // Not HTTP, or headers beyond the limit.
	OutcomeAddressBlocked     Outcome = "address_blocked"
	OutcomeAuthFailure        Outcome = "auth_failure" // No access token could be had, or one that had served was not taken any more.
	OutcomeInterrupted        Outcome = "interrupted"  // We cancelled it, at shutdown.
	OutcomeNotSent            Outcome = "not_sent"     // No byte of the request left, and the failure was ours.
	OutcomeUnknown            Outcome = "unknown"      // The process died during it.
)

// outcomes are all that this version gives.
func outcomes() []Outcome {
	return []Outcome{OutcomeDelivered, OutcomeTimeout, OutcomeConnectionRefused, OutcomeConnectionReset, OutcomeDNSFailure, OutcomeTLSFailure,
		OutcomeConnectionFailed, OutcomeStatusRetryable, OutcomeStatusTerminal, OutcomeRedirect, OutcomeInformationalFinal, OutcomeBadResponse,
		OutcomeAddressBlocked, OutcomeAuthFailure, OutcomeInterrupted, OutcomeNotSent, OutcomeUnknown}
}

// Class groups outcomes by what follows from them. Written to the ledger.
type Class string

const (
	ClassDelivered Class = "delivered"
	ClassRetryable Class = "retryable"
	ClassTerminal  Class = "terminal"
)

// Class returns what follows from the outcome. An outcome that this version does
// not know is retryable: giving up needs a reason, trying again does not.
func (o Outcome) Class() Class {
	switch o {
	case OutcomeDelivered:
		return ClassDelivered
	case OutcomeStatusTerminal, OutcomeRedirect, OutcomeInformationalFinal, OutcomeAddressBlocked:
		return ClassTerminal
	}
	return ClassRetryable
}

// AboutReceiver says whether the outcome is a word about the receiver. What is
// not is held against nobody: neither the breaker nor the endpoint's health
// hears of it.
func (o Outcome) AboutReceiver() bool {
	switch o {
	case OutcomeInterrupted, OutcomeNotSent, OutcomeUnknown, OutcomeAddressBlocked:
		return false
	}
	return true
}

// reasons are all that this version gives.
func reasons() []ReasonCode {
	return []ReasonCode{ReasonEndpointUnreachable, ReasonAttemptsExhausted, ReasonSignatureRejected, ReasonPermanentlyRejected,
		ReasonEndpointGone, ReasonAddressBlocked, ReasonDeadlineExceeded, ReasonEndpointFailing, ReasonInternalError, ReasonNotAttempted,
		ReasonEndpointDisabled, ReasonEndpointDeleted, ReasonInvalidEvent, ReasonPayloadTooLarge}
}

// StatusOutcome returns the outcome that a final HTTP status stands for. A status
// outside 100 to 599 counts as 5xx, as RFC 9110 section 15 asks.
func StatusOutcome(status int) Outcome {
	switch {
	case status >= 100 && status < 200:
		return OutcomeInformationalFinal
	case status >= 200 && status < 300:
		return OutcomeDelivered
	case status >= 300 && status < 400:
		return OutcomeRedirect
	case status == 408 || status == 425 || status == 429:
		return OutcomeStatusRetryable
	case status >= 400 && status < 500:
		return OutcomeStatusTerminal
	}
	return OutcomeStatusRetryable
}

// ReasonCode says why a delivery became a dead letter. The values are written to
// the ledger: they MUST NOT change.
type ReasonCode string

const (
	ReasonEndpointUnreachable ReasonCode = "endpoint_unreachable"
	ReasonAttemptsExhausted   ReasonCode = "attempts_exhausted"
	ReasonSignatureRejected   ReasonCode = "signature_rejected"
	ReasonPermanentlyRejected ReasonCode = "permanently_rejected"
	ReasonEndpointGone        ReasonCode = "endpoint_gone"
	ReasonAddressBlocked      ReasonCode = "address_blocked"
	ReasonDeadlineExceeded    ReasonCode = "deadline_exceeded"
	ReasonEndpointFailing     ReasonCode = "endpoint_failing" // Not attempted: the endpoint failed the attempts of others.
	ReasonInternalError       ReasonCode = "internal_error"   // Not attempted: we could not make a request.
	ReasonNotAttempted        ReasonCode = "not_attempted"    // Its time was over first.
	ReasonEndpointDisabled    ReasonCode = "endpoint_disabled"
	ReasonEndpointDeleted     ReasonCode = "endpoint_deleted"
	ReasonInvalidEvent        ReasonCode = "invalid_event"
	ReasonPayloadTooLarge     ReasonCode = "payload_too_large"
	ReasonNotStorable         ReasonCode = "not_storable" // The server can never store what waits for the next attempt.
)
