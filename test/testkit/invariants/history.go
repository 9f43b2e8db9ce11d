// Package invariants checks what Waybill promises against what happened: what
// producers were told, what receivers got, what LEDGER holds and what
// ClickHouse holds. It knows nothing of how the system works or was run.
package invariants

import (
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// History is everything that was observed from outside, after everything has
// come to rest.
type History struct {
	Published []Published
	Replayed  []Replayed
	Contested []Contested
	Requests  []Request
	// Ledger is ClickHouse's table records, ordered by index.
	Ledger []Row
	// Stream is LEDGER, ordered by sequence, from its first message on.
	Stream []Message
	// Queued counts the messages left in each work queue, by stream.
	Queued map[string]uint64
	// Tolerance is how far apart the clocks of dispatchers and receivers may be.
	Tolerance time.Duration
}

// Published is an event that its producer was told is stored.
type Published struct {
	ID string
	// Owed are endpoints that existed, enabled and subscribed, from before the
	// event was published until everything was at rest. Others may be owed it too.
	Owed []string
	// Invalid: it must be on record as rejected.
	Invalid bool
}

// Contested is an id of a tenant under which producers published different events.
type Contested struct{ Tenant, ID string }

// Replayed is a replay whose operator was told that it will happen.
type Replayed struct {
	ID      string
	EventID string
	Targets []string // endpoints
}

// Request is one HTTP request that a receiver read whole.
type Request struct {
	EndpointID string
	EventID    string // header webhook-id
	BodyID     string // the body's id
	Attempt    int    // the body's deliveryAttempt
	Digest     string // SHA-256 of the body's bytes, lower-case hex
	Content    string // what the same event has in every body: of all but deliveryAttempt
	At         time.Time
	Signature  error  // why the signature is wrong; nil: it is right
	Answer     string // what the receiver did, for people
}

// Row is one row of ClickHouse's table records.
type Row struct {
	Idx       uint64
	StreamSeq uint64
	Body      []byte
	Record    record.Record
}

// Message is one message of LEDGER.
type Message struct {
	Seq  uint64
	Body []byte
	ID   string // header Nats-Msg-Id
}

// Violation is one promise that was not kept.
type Violation struct {
	Rule       Rule
	EventID    string // empty: it is not about one event
	EndpointID string // empty: it is not about one delivery
	Detail     string
}

// Rule names a promise.
type Rule string

// The rules.
const (
	RuleRecorded   Rule = "an acknowledged event is on record, once, as accepted, unmatched or rejected"
	RuleOwed       Rule = "an accepted event is owed to every endpoint that matched"
	RuleReplayed   Rule = "a replay that was confirmed is on record for each of its endpoints"
	RuleEnded      Rule = "a delivery ends exactly once"
	RuleOrder      Rule = "a delivery is owed before it is attempted, and not attempted after its end"
	RuleNumbers    Rule = "the attempts of a delivery are numbered 1, 2, 3 … without a hole, each once"
	RuleOnRecord   Rule = "every request is on record under its number"
	RuleOneRequest Rule = "no number is used for two requests"
	RuleOneContent Rule = "a receiver gets one content under an id, whatever is published under it"
	RuleContested  Rule = "of different events under one id of a tenant one stands, and each other one is on record as " +
		"rejected"
	RuleDigest    Rule = "the digest on record is that of the bytes received"
	RuleHappened  Rule = "an answer on record was given to a request"
	RuleSignature Rule = "every request is signed, and names its event"
	RuleDue       Rule = "no attempt starts before it is due"
	RuleDeadline  Rule = "no attempt starts after its deadline"
	RuleQueues    Rule = "nothing is left in a queue"
	RuleEqual     Rule = "the ledger equals the stream, record for record, in order"
	RuleIndex     Rule = "the ledger's indices are 0, 1, 2 …, and no record is there twice"
	RuleGap       Rule = "no message is missing in LEDGER"
)

// Rules lists every rule that Check applies.
func Rules() []Rule {
	return []Rule{RuleRecorded, RuleOwed, RuleReplayed, RuleEnded, RuleOrder, RuleNumbers, RuleOnRecord, RuleOneRequest,
		RuleOneContent, RuleContested, RuleDigest,
		RuleHappened, RuleSignature, RuleDue, RuleDeadline, RuleQueues, RuleEqual, RuleIndex, RuleGap}
}
