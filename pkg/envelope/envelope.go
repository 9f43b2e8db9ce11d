// Package envelope is the event as a producer publishes it, the request body
// that a receiver gets, and the signatures over that body.
//
// A producer publishes a JSON object:
//
//	{"id":"evt_…","type":"payment.captured","timestamp":"2026-08-19T14:32:07.421Z",
//	 "deliver_by":"2026-08-19T15:00:00Z","subject":{"type":"payment","id":"pay_17"},
//	 "data":{…}}
//
// A receiver gets a POST with
//
//	{"id":"evt_…","type":"payment.captured","timestamp":"2026-08-19T14:32:07.421Z","deliveryAttempt":1,"data":{…}}
//
// where data is the producer's bytes: never decoded and encoded again,
// whatever number sizes, key order, escapes or whitespace they hold.
//
// Receivers written in Go check a request with [Verifier].
package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

const (
	// MaxEventBytes is the default limit on one event as the producer writes
	// it. Parse does not enforce it: whoever reads the bytes stops reading
	// there. 256 KiB leaves room inside the 1 MiB that a NATS server takes by
	// default, headers and all; the Standard Webhooks specification advises
	// under 20 kB.
	MaxEventBytes = 256 << 10

	// MaxDepth is how many arrays and objects may be open at once, the event
	// itself included. It bounds the parser's stack, and it is what common
	// receivers can still read: PHP's json_decode stops at 512 by default.
	MaxDepth = 512
)

// Event is a fact that a producer published.
type Event struct {
	ID        string    // the producer's own, the same for ever; see ValidateID
	Type      string    // dot-separated, for example lab_result.critical; see ValidateType
	Timestamp time.Time // when the fact happened, to the nanosecond

	// RawTimestamp is the timestamp as the producer wrote it, which is what
	// receivers get. Empty: Timestamp in UTC.
	RawTimestamp string

	// Data is any JSON value. After Parse it aliases the input: whoever
	// changes or reuses that buffer changes Data.
	Data []byte

	DeliverBy time.Time // the promise; zero: none
	Subject   *Subject  // the resource the event is about; nil: not said
}

// Subject names the resource that an event is about.
type Subject struct {
	Type string // 1 to MaxSubjectBytes bytes of printable UTF-8
	ID   string // the same
}

// Delivery is the body that a receiver gets, for decoding with encoding/json
// after [Verifier.Verify].
type Delivery struct {
	ID              string          `json:"id"`
	Type            string          `json:"type"`
	Timestamp       time.Time       `json:"timestamp"`
	DeliveryAttempt int             `json:"deliveryAttempt"` // 1 for the first; not an idempotency key
	Data            json.RawMessage `json:"data"`
}

// AppendBody appends the request body for the attempt with this number
// (1, 2, 3 …) and returns the extended buffer. These are the bytes to sign, to
// digest and to send. The event must have passed Parse or Validate.
func (e Event) AppendBody(dst []byte, attempt int) []byte {
	dst = e.appendIdentity(dst)
	dst = append(dst, `,"deliveryAttempt":`...)
	dst = strconv.AppendInt(dst, int64(attempt), 10)
	dst = append(dst, `,"data":`...)
	dst = append(dst, e.Data...)
	return append(dst, '}')
}

// AppendJSON appends the event as a producer would write it, with Data spliced
// in untouched, and returns the extended buffer. It is for whoever fills in
// what a producer left out. The event must have passed Parse or Validate.
func (e Event) AppendJSON(dst []byte) []byte {
	dst = e.appendIdentity(dst)
	if !e.DeliverBy.IsZero() {
		dst = append(dst, `,"deliver_by":"`...)
		dst = e.DeliverBy.UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, '"')
	}
	if e.Subject != nil {
		dst = append(dst, `,"subject":{"type":`...)
		dst = appendString(dst, e.Subject.Type)
		dst = append(dst, `,"id":`...)
		dst = appendString(dst, e.Subject.ID)
		dst = append(dst, '}')
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, e.Data...)
	return append(dst, '}')
}

// appendIdentity appends the opening brace and the three members that both
// shapes begin with. None of the three can hold a byte that JSON would escape.
func (e Event) appendIdentity(dst []byte) []byte {
	dst = append(dst, `{"id":"`...)
	dst = append(dst, e.ID...)
	dst = append(dst, `","type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `","timestamp":"`...)
	if e.RawTimestamp != "" {
		dst = append(dst, e.RawTimestamp...)
	} else {
		dst = e.Timestamp.UTC().AppendFormat(dst, time.RFC3339Nano)
	}
	return append(dst, '"')
}

// appendString appends s as a JSON string. Validate has refused control
// characters and invalid UTF-8, so two characters are left to escape.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// Digest is the SHA-256 of b: of a request body, what the ledger keeps of it.
func Digest(b []byte) [sha256.Size]byte { return sha256.Sum256(b) }

// DigestHex is Digest in lower-case hexadecimal, 64 characters.
func DigestHex(b []byte) string {
	d := Digest(b)
	return hex.EncodeToString(d[:])
}
