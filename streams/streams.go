// Package streams owns the topology: every stream, consumer, subject, header
// and message id that the stages share. The definitions are the JSON files
// beside this one, in the form that the nats CLI reads too
// (nats stream add --config streams/events.json).
//
// No other package spells a subject.
package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Streams and buckets.
const (
	Events      = "EVENTS"
	Deliveries  = "DELIVERIES"
	Retry       = "RETRY"
	Claims      = "CLAIMS"
	Ledger      = "LEDGER"
	Replays     = "REPLAYS"
	Escalations = "ESCALATIONS"
	Checkpoints = "CHECKPOINTS"
	// EventIDs says which ids EVENTS holds: see internal/events/eventids.
	EventIDs = "EVENT_IDS"

	EndpointsBucket  = "endpoints"
	EventTypesBucket = "event_types"
	// ChannelsBucket, EscalationPoliciesBucket: by whom and how people are told.
	ChannelsBucket           = "channels"
	EscalationPoliciesBucket = "escalation_policies"
	// IncidentsBucket holds what people are being told of: see IncidentKey and TroubleKey.
	IncidentsBucket = "incidents"
	// EndpointHealthBucket says which endpoints fail, and since when.
	EndpointHealthBucket = "endpoint_health"
	// StatusBucket says how far the sink and the watchdog have come, and which
	// alarms are raised.
	StatusBucket = "status"
	// LeasesBucket says who does what only one may do at a time.
	LeasesBucket = "leases"

	// RatesBucket keeps the turns of endpoints that have a rate limit.
	RatesBucket = "rates"
	// FifoBucket keeps how far the head of each endpoint that keeps order has come.
	FifoBucket = "fifo"

	// EndpointsStream is the stream behind EndpointsBucket.
	EndpointsStream = "KV_" + EndpointsBucket
	// EventTypesStream is the stream behind EventTypesBucket.
	EventTypesStream = "KV_" + EventTypesBucket
	// The streams behind the buckets of channels and policies.
	ChannelsStream           = "KV_" + ChannelsBucket
	EscalationPoliciesStream = "KV_" + EscalationPoliciesBucket
)

// LedgerSinkLease is the key in LeasesBucket of the one sink that writes.
const LedgerSinkLease = "ledger-sink"

// EscalatorLease is the key in LeasesBucket of the one escalator that tells
// people: two would group one burst into two messages.
const EscalatorLease = "escalator"

// RetireLease is the key in LeasesBucket of the one who retires months.
const RetireLease = "ledger-retire"

// WatchdogLease is the key in LeasesBucket of the one watchdog that acts.
const WatchdogLease = "watchdog"

// Keys of StatusBucket.
const (
	// StatusSink is a SinkStatus.
	StatusSink = "ledger-sink"
	// StatusWatchdog is where in LEDGER a watchdog that starts begins to read.
	StatusWatchdog = "watchdog"
	// StatusAlarms are the alarms, StatusMarks what EVENTS and LEDGER held.
	StatusAlarms = "alarms"
	StatusMarks  = "marks"
)

// LedgerWanted is the subject of a request to the sink that writes: store soon
// what LEDGER has. The answer, empty, says that this is done. It is a courtesy to
// whoever reads the ledger right after something happened: nothing relies on it.
const LedgerWanted = "waybill.ledger.wanted"

// SinkStatus is how far ClickHouse has come, as the sink last said.
type SinkStatus struct {
	StreamSeq   uint64 `json:"stream_seq"`   // of the last record in ClickHouse
	StreamEpoch int64  `json:"stream_epoch"` // when LEDGER was made, in nanoseconds
}

// Durable consumers. Those of DELIVERIES and RETRY exist once per partition:
// see DispatchConsumer and RetryConsumer.
const (
	FanoutConsumer    = "fanout"
	ReplayConsumer    = "replay"
	RecorderConsumer  = "recorder"
	EscalatorConsumer = "escalator"
)

// LedgerSinkConsumer is the consumer that the sink which writes makes for
// itself: not durable, because the position lives in ClickHouse. It shows how
// far behind the sink is.
const LedgerSinkConsumer = "ledger-sink"

// Headers of the messages between stages. Times are RFC 3339 with nanoseconds,
// UTC; numbers are decimal.
const (
	// HeaderEvent to HeaderType identify the delivery.
	HeaderEvent    = "Waybill-Event"
	HeaderEndpoint = "Waybill-Endpoint"
	HeaderTenant   = "Waybill-Tenant"
	HeaderType     = "Waybill-Type"
	// HeaderOwedAt is when the delivery came to be owed: the start of its window.
	HeaderOwedAt = "Waybill-Owed-At"
	// HeaderDeliverBy is the deadline. Absent: none.
	HeaderDeliverBy = "Waybill-Deliver-By"
	// HeaderAttempts counts the attempts made before this message. The next
	// attempt is number HeaderAttempts + 1.
	HeaderAttempts = "Waybill-Attempts"
	// HeaderSpent counts the attempts made within the present budget: less
	// than HeaderAttempts when this is a replay, which brings a new budget.
	HeaderSpent = "Waybill-Spent"
	// HeaderDue is when the next attempt may start. Absent: now. HeaderWait is how
	// long that was to be when it was decided, in nanoseconds: a clock that is set
	// back makes nobody wait longer.
	HeaderDue  = "Waybill-Due"
	HeaderWait = "Waybill-Wait"
	// HeaderResponded is "1" when any attempt got a response.
	HeaderResponded = "Waybill-Responded"
	// HeaderTurn is when a delivery to an endpoint with a rate limit may be
	// attempted, and HeaderTurnOf the limit, per second, that gave it this turn.
	HeaderTurn   = "Waybill-Turn"
	HeaderTurnOf = "Waybill-Turn-Of"
	// HeaderOrdering is "fifo" when the endpoint keeps order.
	HeaderOrdering = "Waybill-Ordering"
	// HeaderReplay is the id of the replay that this delivery belongs to.
	HeaderReplay = "Waybill-Replay"
	// HeaderEventSeq is the event's sequence in EVENTS.
	HeaderEventSeq = "Waybill-Event-Seq"
	// HeaderOnlyEndpoint on an event sends it to that endpoint of its tenant
	// alone, whatever types the endpoint subscribes to: a test of the endpoint.
	HeaderOnlyEndpoint = "Waybill-Only-Endpoint"
	// HeaderNoMsgID is "1" on an event whose producer gave no Nats-Msg-Id.
	HeaderNoMsgID = "Waybill-No-Msg-Id"
	// HeaderRefused marks an event that ingest refused, with the reason, as JSON.
	HeaderRefused = "Waybill-Refused"
	// HeaderTraceparent and HeaderTracestate carry W3C trace context from the
	// producer to the receiver.
	HeaderTraceparent = "traceparent"
	// HeaderLastAttempt is the traceparent of the attempt before: the next one's
	// span links to it. Absent: there was none, or it was not traced.
	HeaderLastAttempt = "Waybill-Last-Attempt"
	// HeaderRepeated is 1 when the attempt before cost nothing and is made again.
	HeaderRepeated = "Waybill-Repeated"
	// HeaderHeldSince, if there is one, is when somebody may first have taken the
	// attempt that the message asks for: the message states again what was stated
	// before, by somebody who may have died.
	HeaderHeldSince  = "Waybill-Held-Since"
	HeaderTracestate = "tracestate"
	// HeaderTimeAssigned is "1" on an event whose timestamp Waybill assigned: its
	// producer gave none, so another timestamp does not make it another event.
	HeaderTimeAssigned = "Waybill-Time-Assigned"
	// HeaderLastSeq and HeaderLastAt are the last event of EVENTS that a segment of
	// EVENT_IDS covers, and when it was stored: by them a segment is recognised
	// that speaks of events which the stream has lost.
	HeaderLastSeq = "Waybill-Last-Seq"
	HeaderLastAt  = "Waybill-Last-At"
)

// SegmentSubject is where the n-th segment of the ids of EVENTS is kept. epoch is
// when EVENTS was made, in nanoseconds: a stream made anew begins anew.
func SegmentSubject(epoch int64, n uint64) string {
	return fmt.Sprintf("event_ids.segment.%d.%d", epoch, n)
}

// DisownedSubject is where it is kept that the event at seq was rejected because its
// id was in use: it never comes to own the id, also when its owner has expired.
func DisownedSubject(epoch int64, seq uint64) string {
	return fmt.Sprintf("event_ids.disowned.%d.%d", epoch, seq)
}

// EventSubjects matches the subjects of all events: ingest listens to it, all
// ingests as one group, IngestQueue.
const (
	EventSubjects = "events.>"
	IngestQueue   = "ingest"
)

// IngestSubject is where ingest publishes what EVENTS keeps under an event's
// subject: the stream turns it into the event's subject. No producer may
// publish there.
func IngestSubject(eventSubject string) string { return "ingest." + eventSubject }

// EventMsgID is the message id of an event in EVENTS. It begins with the
// tenant: one tenant's ids never meet another's.
func EventMsgID(tenant, id string) string { return tenant + "/" + id }

// IsEventMsgID says whether a message in EVENTS has the message id of this
// event. One that was stored before tenants were part of it has the bare id.
func IsEventMsgID(msgID, tenant, id string) bool {
	return msgID == id || msgID == EventMsgID(tenant, id)
}

// RefusalMsgID is the message id in EVENTS of a refused event, by its digest. No
// tenant has such a name, so that a refused event never holds an event's id.
func RefusalMsgID(digest string) string { return "!refused/" + digest }

// RejectedSubject is where each event that was rejected is announced, once it is
// on record. No stream keeps it.
func RejectedSubject(tenant string) string { return "rejected." + tenant }

// InboxPrefix begins the reply subjects that ingest answers to: an answer MUST
// NOT end in a stream, a bucket or the JetStream API, for whoever chooses its
// subject would write there with ingest's permissions.
const InboxPrefix = "_INBOX"

// EventSubject is where a producer publishes an event.
func EventSubject(tenant, eventType string) string { return "events." + tenant + "." + eventType }

// ParseEventSubject splits an event's subject into tenant and type.
func ParseEventSubject(subject string) (tenant, eventType string, err error) {
	rest, ok := strings.CutPrefix(subject, "events.")
	if ok {
		tenant, eventType, ok = strings.Cut(rest, ".")
	}
	if !ok || tenant == "" || eventType == "" {
		return "", "", fmt.Errorf("subject %q: want events.<tenant>.<type>", subject)
	}
	return tenant, eventType, nil
}

// DeliverySubject is where fanout publishes a delivery for its first attempt.
func DeliverySubject(partition int, endpoint string) string {
	return "deliveries." + strconv.Itoa(partition) + "." + endpoint
}

// FifoSubject is where a delivery waits for its turn at an endpoint that keeps order.
func FifoSubject(endpoint string) string { return "deliveries.fifo." + endpoint }

// FifoConsumer is the durable of an endpoint that keeps order.
func FifoConsumer(endpoint string) string { return "fifo-" + endpoint }

// MaxFifo is how many endpoints may keep order: each costs the work queue a
// consumer, and every acknowledgement looks at all of them.
const MaxFifo = 100

// RetrySubject is where a delivery waits for a later attempt.
func RetrySubject(partition int, endpoint string) string {
	return "retry." + strconv.Itoa(partition) + "." + endpoint
}

// ClaimSubject is where a dispatcher says that an attempt is about to start.
func ClaimSubject(endpoint string) string { return "claims." + endpoint }

// LedgerSubject is where a record of a kind is published. The kind's dots
// become dashes, so that a kind is one token.
func LedgerSubject(kind, tenant string) string {
	return "ledger." + strings.ReplaceAll(kind, ".", "-") + "." + tenant
}

// LedgerSubjects matches every record's subject.
const LedgerSubjects = "ledger.>"

// CheckpointsSubject is where the ledger's checkpoints are published: signed notes.
const CheckpointsSubject = "checkpoints"

// CheckpointID is the message id of a checkpoint when it is signed. With
// cosignatures it is published again, under the id of so many signatures.
func CheckpointID(origin string, size uint64, cosignatures int) string {
	id := origin + "/" + strconv.FormatUint(size, 10)
	if cosignatures > 0 {
		id += "/" + strconv.Itoa(cosignatures)
	}
	return id
}

// ReplaySubject is where a replay is asked for.
func ReplaySubject(tenant string) string { return "replays." + tenant }

// EscalationSubject is where a message owed to people is published. Its message
// id is the id of the record that it is about.
func EscalationSubject(tenant string) string { return "escalations." + tenant }

// AlertSubject is where the escalator says what no policy tells anybody about.
// No stream of ours keeps it.
func AlertSubject(tenant string) string { return "waybill.alerts." + tenant }

// IncidentKey is the key in IncidentsBucket of an incident; IncidentKeys matches all.
func IncidentKey(incident string) string { return "i." + incident }

// TroubleKey is the key in IncidentsBucket of one dead letter or rejected
// event, by its record's id; TroubleKeys matches all. Ids hold characters that
// keys cannot, so the key is a digest.
func TroubleKey(record string) string {
	sum := sha256.Sum256([]byte(record))
	return "t." + hex.EncodeToString(sum[:16])
}

// Patterns of IncidentsBucket.
const (
	IncidentKeys = "i.>"
	TroubleKeys  = "t.>"
)

// Ours says whether a subject belongs to Waybill, JetStream or the server: what
// somebody else publishes there would be taken for ours.
func Ours(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")
	switch first {
	case "events", "ingest", "rejected", "deliveries", "retry", "claims", "ledger", "replays", "escalations", "event_ids",
		CheckpointsSubject, "_INBOX":
		return true
	}
	return strings.HasPrefix(subject, "$")
}

// DispatchConsumer is the durable of a partition's first attempts.
func DispatchConsumer(partition int) string { return "dispatch-" + strconv.Itoa(partition) }

// RetryConsumer is the durable of a partition's later attempts.
func RetryConsumer(partition int) string { return "retry-" + strconv.Itoa(partition) }

// Partition of an endpoint, in [0, partitions). Rendezvous hashing: adding a
// partition moves only the endpoints that the new one wins.
func Partition(endpoint string, partitions int) int {
	h := fnv.New64a()
	h.Write([]byte(endpoint))
	best, bestScore := 0, uint64(0)
	for p := range partitions {
		if score := mix(h.Sum64() + uint64(p+1)*0x9e3779b97f4a7c15); p == 0 || score > bestScore {
			best, bestScore = p, score
		}
	}
	return best
}

// mix is the finalizer of SplitMix64: every bit of x moves every bit of the result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// DeliveryID is the message id of a delivery in DELIVERIES.
func DeliveryID(event, endpoint string) string { return event + "/" + endpoint }

// ReplayDeliveryID is the message id of a replayed delivery in DELIVERIES: the
// plain id would be dropped as a duplicate.
func ReplayDeliveryID(event, endpoint, replay string) string {
	return event + "/" + endpoint + "/r" + replay
}

// AttemptID is the message id in CLAIMS of attempt number n, and in RETRY of
// the delivery after its n-th attempt.
func AttemptID(event, endpoint string, n int) string {
	return event + "/" + endpoint + "/" + strconv.Itoa(n)
}
