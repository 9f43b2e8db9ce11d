package outcome

// Reason says why something ended as it did: why a delivery became a dead letter
// or was cancelled, why an event was rejected or matched nobody, why Waybill
// disabled an endpoint.
type Reason string

// Why a delivery became a dead letter.
const (
	ReasonEndpointUnreachable Reason = "endpoint_unreachable"
	ReasonAttemptsExhausted   Reason = "attempts_exhausted"
	ReasonSignatureRejected   Reason = "signature_rejected"
	ReasonPermanentlyRejected Reason = "permanently_rejected"
	ReasonEndpointGone        Reason = "endpoint_gone" // An endpoint that answered 410 is disabled for this reason, too.
	ReasonAddressBlocked      Reason = "address_blocked"
	ReasonDeadlineExceeded    Reason = "deadline_exceeded"
	ReasonEndpointFailing     Reason = "endpoint_failing" // Not attempted: the endpoint failed the attempts of others.
	ReasonInternalError       Reason = "internal_error"   // Not attempted: we could not make a request.
	ReasonNotAttempted        Reason = "not_attempted"    // Its time was over first.
	ReasonEndpointDisabled    Reason = "endpoint_disabled"
	ReasonEndpointDeleted     Reason = "endpoint_deleted"
	ReasonInvalidEvent        Reason = "invalid_event"
	ReasonPayloadTooLarge     Reason = "payload_too_large"
	ReasonNotStorable         Reason = "not_storable" // The server can never store what waits for the next attempt.
)

// Why an event was rejected, besides ReasonInvalidEvent, ReasonPayloadTooLarge
// and ReasonNotStorable.
const (
	ReasonSubjectMismatch   Reason = "subject_mismatch"
	ReasonIDMismatch        Reason = "id_mismatch"
	ReasonIDInUse           Reason = "id_in_use"
	ReasonUnsupportedHeader Reason = "unsupported_header" // Of a message that ingest did not take.
)

// Why an event is owed to nobody, and why a replay owes nothing.
const (
	ReasonNoSubscription  Reason = "no_subscription"
	ReasonEndpointUnknown Reason = "endpoint_unknown"
	ReasonDuplicate       Reason = "duplicate"
	ReasonEventExpired    Reason = "event_expired"
)

// ReasonSustainedFailure: Waybill disabled the endpoint, which took nothing for
// as long as its settings allow.
const ReasonSustainedFailure Reason = "sustained_failure"

var deadLetters = []said[Reason]{
	{ReasonEndpointUnreachable, "no answer to any attempt is on record"},
	{ReasonAttemptsExhausted, "the endpoint answered, and no attempt is on record as accepted"},
	{ReasonSignatureRejected, "the endpoint answered 401 or 403: it did not take the signature or credentials"},
	{ReasonPermanentlyRejected, "the endpoint rejected it for good"},
	{ReasonEndpointGone, "the endpoint said it is gone (410), and was disabled"},
	{ReasonAddressBlocked, "the endpoint's address may not be called"},
	{ReasonDeadlineExceeded, "the time for attempts ran out"},
	{ReasonEndpointFailing, "no attempt was made, because the endpoint kept failing"},
	{ReasonInternalError, "no attempt was made: the failure is on Waybill's side"},
	{ReasonNotAttempted, "no attempt was made before its time was over"},
	{ReasonEndpointDisabled, "the endpoint is disabled"},
	{ReasonEndpointDeleted, "the endpoint was deleted"},
	{ReasonInvalidEvent, "the event is not valid"},
	{ReasonPayloadTooLarge, "the event is too large"},
	{ReasonNotStorable, "the NATS server can never store what follows from the event, such as for its size"},
}

var rejections = []said[Reason]{
	{ReasonSubjectMismatch, "the event does not agree with the subject it was published on"},
	{ReasonIDMismatch, "the event's id differs from its Nats-Msg-Id"},
	{ReasonIDInUse, "a different event has this id"},
	{ReasonUnsupportedHeader, "the message has a header that producers cannot use"},
}

var unowed = []said[Reason]{
	{ReasonNoSubscription, "no endpoint of the tenant is subscribed to the type"},
	{ReasonEndpointUnknown, "the endpoint that the event names is not there"},
	{ReasonDuplicate, "the same event was accepted before"},
	{ReasonEventExpired, "EVENTS does not keep the event any more"},
	{ReasonSustainedFailure, "the endpoint took nothing for longer than its settings allow"},
}

// DeadLetters are the reasons of dead letters that this version gives.
func DeadLetters() []Reason { return codes(deadLetters) }

// Sentence says what the reason means, for people. Of a reason that this version
// does not know it is the code.
func (r Reason) Sentence() string {
	for _, list := range [][]said[Reason]{deadLetters, rejections, unowed} {
		if s := sentence(list, r); s != string(r) {
			return s
		}
	}
	return string(r)
}

// Known says whether this version has a sentence for the reason.
func (r Reason) Known() bool { return r.Sentence() != string(r) }
