package audit

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// States of an attempt in the answer to the first question.
const (
	Answered   = "answered"
	Unanswered = "unanswered"
	Unknown    = string(outcome.Unknown) // the process that made it died during it
	Missing    = "missing"               // no record has this number, and there is a higher one
)

// Attempt is a row of audit_attempts.
type Attempt struct {
	Tenant            string            `ch:"tenant" json:"tenant"`
	EventID           string            `ch:"event_id" json:"event_id"`
	EndpointID        string            `ch:"endpoint_id" json:"endpoint_id"`
	EventType         string            `ch:"event_type" json:"event_type"`
	Number            int64             `ch:"attempt" json:"attempt"`
	State             string            `ch:"state" json:"state"`
	At                time.Time         `ch:"at" json:"at"`
	ReplayID          string            `ch:"replay_id" json:"replay_id"`
	StartedAt         *time.Time        `ch:"started_at" json:"started_at"`
	ResolveUS         int64             `ch:"resolve_us" json:"resolve_us"`
	ConnectUS         int64             `ch:"connect_us" json:"connect_us"`
	TLSUS             int64             `ch:"tls_us" json:"tls_us"`
	FirstByteUS       int64             `ch:"first_byte_us" json:"first_byte_us"`
	DurationUS        int64             `ch:"duration_us" json:"duration_us"`
	Status            int64             `ch:"status" json:"status"`
	Outcome           string            `ch:"outcome" json:"outcome"`
	Class             string            `ch:"class" json:"class"`
	Decision          string            `ch:"decision" json:"decision"`
	Reason            string            `ch:"reason" json:"reason"`
	Error             string            `ch:"error" json:"error"`
	NextAttemptAt     *time.Time        `ch:"next_attempt_at" json:"next_attempt_at"`
	DeliverBy         *time.Time        `ch:"deliver_by" json:"deliver_by"`
	EndpointRevision  uint64            `ch:"endpoint_revision" json:"endpoint_revision"`
	URL               string            `ch:"url" json:"url"`
	RemoteAddr        string            `ch:"remote_addr" json:"remote_addr"`
	HTTPVersion       string            `ch:"http_version" json:"http_version"`
	TLSVersion        string            `ch:"tls_version" json:"tls_version"`
	PeerFingerprint   string            `ch:"peer_fingerprint" json:"peer_fingerprint"`
	PayloadDigest     string            `ch:"payload_digest" json:"payload_digest"`
	PayloadBytes      int64             `ch:"payload_bytes" json:"payload_bytes"`
	SignatureScheme   string            `ch:"signature_scheme" json:"signature_scheme"`
	KeyIDs            []string          `ch:"key_ids" json:"key_ids"`
	SignedAt          *time.Time        `ch:"signed_at" json:"signed_at"`
	ResponseHeaders   map[string]string `ch:"response_headers" json:"response_headers"`
	ResponseExcerpt   string            `ch:"response_excerpt" json:"response_excerpt"`
	ResponseBytes     int64             `ch:"response_bytes" json:"response_bytes"`
	ResponseTruncated bool              `ch:"response_truncated" json:"response_truncated"`
	Redactions        int64             `ch:"redactions" json:"redactions"`
	Dispatcher        string            `ch:"dispatcher" json:"dispatcher"`
	Software          string            `ch:"software" json:"software"`
	RecordID          string            `ch:"id" json:"record_id"`
	Idx               uint64            `ch:"idx" json:"idx"`
}

// Repetition is a row of audit_duplicates: one delivery and its requests.
type Repetition struct {
	Tenant     string `ch:"tenant" json:"tenant"`
	EventID    string `ch:"event_id" json:"event_id"`
	EndpointID string `ch:"endpoint_id" json:"endpoint_id"`
	EventType  string `ch:"event_type" json:"event_type"`
	// records of the event itself: more than one, it was stored more than once
	Published            uint64     `ch:"published" json:"published"`
	WithMsgID            bool       `ch:"with_msg_id" json:"with_msg_id"`
	DataDigests          uint64     `ch:"data_digests" json:"data_digests"`
	Requests             uint64     `ch:"requests" json:"requests"`
	MayHaveArrived       uint64     `ch:"may_have_arrived" json:"may_have_arrived"`
	Delivered            uint64     `ch:"delivered" json:"delivered"`
	AfterSuccess         uint64     `ch:"after_success" json:"after_success"`
	AfterSuccessByReplay uint64     `ch:"after_success_by_replay" json:"after_success_by_replay"`
	Unexplained          int64      `ch:"after_success_unexplained" json:"after_success_unexplained"`
	FirstAt              time.Time  `ch:"first_at" json:"first_at"`
	Repeats              []string   `ch:"repeats" json:"repeats"`
	ConformanceAt        *time.Time `ch:"conformance_at" json:"conformance_at"`
	ConformanceOutcome   string     `ch:"conformance_outcome" json:"conformance_outcome"`
}

// RepetitionTotals are over every delivery that was asked about, shown or not.
type RepetitionTotals struct {
	Deliveries           uint64 `ch:"deliveries" json:"deliveries"`
	Requests             uint64 `ch:"requests" json:"requests"`
	Repeated             uint64 `ch:"repeated" json:"repeated"` // may have arrived more than once
	AfterSuccess         uint64 `ch:"after_success" json:"after_success"`
	AfterSuccessByReplay uint64 `ch:"after_success_by_replay" json:"after_success_by_replay"`
	Unexplained          int64  `ch:"unexplained" json:"after_success_unexplained"`
	WithoutMsgID         uint64 `ch:"without_msg_id" json:"without_msg_id"`
	StoredTwice          uint64 `ch:"stored_twice" json:"stored_twice"`
	OtherData            uint64 `ch:"other_data" json:"other_data"`
	Checked              uint64 `ch:"checked" json:"conformance_checked"`
}

// Add sums.
func (t *RepetitionTotals) Add(o RepetitionTotals) {
	t.Deliveries += o.Deliveries
	t.Requests += o.Requests
	t.Repeated += o.Repeated
	t.AfterSuccess += o.AfterSuccess
	t.AfterSuccessByReplay += o.AfterSuccessByReplay
	t.Unexplained += o.Unexplained
	t.WithoutMsgID += o.WithoutMsgID
	t.StoredTwice += o.StoredTwice
	t.OtherData += o.OtherData
	t.Checked += o.Checked
}

// Failure is a row of audit_failures.
type Failure struct {
	What              string     `ch:"what" json:"what"` // dead_letter, rejected_event
	Tenant            string     `ch:"tenant" json:"tenant"`
	EventID           string     `ch:"event_id" json:"event_id"`
	EndpointID        string     `ch:"endpoint_id" json:"endpoint_id"`
	EventType         string     `ch:"event_type" json:"event_type"`
	FailedAt          time.Time  `ch:"failed_at" json:"failed_at"`
	Reason            string     `ch:"reason" json:"reason"`
	Detail            string     `ch:"detail" json:"detail"`
	Attempts          int64      `ch:"attempts" json:"attempts"`
	ReplayID          string     `ch:"replay_id" json:"replay_id"`
	DeliverBy         *time.Time `ch:"deliver_by" json:"deliver_by"`
	EscalatedAt       *time.Time `ch:"escalated_at" json:"escalated_at"`
	EscalationOutcome string     `ch:"escalation_outcome" json:"escalation_outcome"`
	TimeToHumanUS     *int64     `ch:"time_to_human_us" json:"time_to_human_us"`
	Within5Minutes    bool       `ch:"within_5_minutes" json:"within_5_minutes"`
	// that a human is told within 5 minutes: kept, broken, or open for now
	Promise          string     `ch:"promise" json:"promise"`
	EscalatedInTime  bool       `ch:"escalated_in_time" json:"escalated_in_time"`
	IncidentID       string     `ch:"incident_id" json:"incident_id"`
	AcknowledgedAt   *time.Time `ch:"acknowledged_at" json:"acknowledged_at"`
	AcknowledgedBy   string     `ch:"acknowledged_by" json:"acknowledged_by"`
	Owner            string     `ch:"owner" json:"owner"`
	Resolution       string     `ch:"resolution" json:"resolution"`
	ResolvedAt       *time.Time `ch:"resolved_at" json:"resolved_at"`
	ResolvedBy       string     `ch:"resolved_by" json:"resolved_by"`
	ResolutionReason string     `ch:"resolution_reason" json:"resolution_reason"`
	SucceededAt      *time.Time `ch:"succeeded_at" json:"succeeded_at"`
	Idx              uint64     `ch:"idx" json:"idx"`
}

// FailureTotals counts failures of one kind and reason.
type FailureTotals struct {
	What           string `ch:"what" json:"what"`
	Reason         string `ch:"reason" json:"reason"`
	Count          uint64 `ch:"count" json:"count"`
	Told           uint64 `ch:"told" json:"told"`
	Within5Minutes uint64 `ch:"within" json:"within_5_minutes"`
	Broken         uint64 `ch:"broken" json:"promise_broken"`
	BeforeDeadline uint64 `ch:"in_time" json:"escalated_in_time"`
	Acknowledged   uint64 `ch:"acked" json:"acknowledged"`
	Open           uint64 `ch:"open" json:"open"`
}

// Signed is a row of audit_integrity: one attempt and its bytes.
type Signed struct {
	Tenant          string     `ch:"tenant" json:"tenant"`
	EventID         string     `ch:"event_id" json:"event_id"`
	EndpointID      string     `ch:"endpoint_id" json:"endpoint_id"`
	EventType       string     `ch:"event_type" json:"event_type"`
	Number          int64      `ch:"attempt" json:"attempt"`
	At              time.Time  `ch:"at" json:"at"`
	Outcome         string     `ch:"outcome" json:"outcome"`
	State           string     `ch:"state" json:"state"` // signed, unknown, not_sent
	PayloadDigest   string     `ch:"payload_digest" json:"payload_digest"`
	PayloadBytes    int64      `ch:"payload_bytes" json:"payload_bytes"`
	SignatureScheme string     `ch:"signature_scheme" json:"signature_scheme"`
	KeyIDs          []string   `ch:"key_ids" json:"key_ids"`
	SignedAt        *time.Time `ch:"signed_at" json:"signed_at"`
	ReplayID        string     `ch:"replay_id" json:"replay_id"`
	DigestsOfNumber uint64     `ch:"digests_of_number" json:"digests_of_number"`
	DataDigest      string     `ch:"data_digest" json:"data_digest"`
	DataDigests     uint64     `ch:"data_digests" json:"data_digests"`
	DataBytes       int64      `ch:"data_bytes" json:"data_bytes"`
	EventAt         *time.Time `ch:"event_at" json:"event_at"`
	Agrees          bool       `ch:"agrees" json:"agrees"`
	Idx             uint64     `ch:"idx" json:"idx"`
	// Compared says how a payload or data that was given compares; empty: none was.
	Compared string `ch:"-" json:"compared,omitempty"`
}

// SignedTotals are over every attempt that was asked about.
type SignedTotals struct {
	Attempts uint64   `ch:"attempts" json:"attempts"`
	Signed   uint64   `ch:"signed" json:"signed"`
	Unknown  uint64   `ch:"unknown" json:"unknown"`
	NotSent  uint64   `ch:"not_sent" json:"not_sent"`
	Disagree uint64   `ch:"disagree" json:"disagree"`
	NoData   uint64   `ch:"no_data" json:"without_data_digest"`
	Schemes  []string `ch:"schemes" json:"schemes"`
	KeyIDs   []string `ch:"keys" json:"key_ids"`
}

// Day is one day of audit_controls, summed over what was asked about.
type Day struct {
	Day                string `ch:"day_" json:"day"`
	Records            uint64 `ch:"records" json:"records"`
	EventsAccepted     uint64 `ch:"events_accepted" json:"events_accepted"`
	EventsUnmatched    uint64 `ch:"events_unmatched" json:"events_unmatched"`
	EventsRejected     uint64 `ch:"events_rejected" json:"events_rejected"`
	Owed               uint64 `ch:"owed" json:"owed"`
	Attempts           uint64 `ch:"attempts" json:"attempts"`
	Delivered          uint64 `ch:"delivered" json:"delivered"`
	AttemptsUnknown    uint64 `ch:"attempts_unknown" json:"attempts_unknown"`
	DeadLettered       uint64 `ch:"dead_lettered" json:"dead_lettered"`
	Cancelled          uint64 `ch:"cancelled" json:"cancelled"`
	PeopleTold         uint64 `ch:"people_told" json:"people_told"`
	PeopleNotTold      uint64 `ch:"people_not_told" json:"people_not_told"`
	Acknowledged       uint64 `ch:"acknowledged" json:"acknowledged"`
	ReplaysRequested   uint64 `ch:"replays_requested" json:"replays_requested"`
	Changes            uint64 `ch:"changes" json:"changes"`
	ConformanceChecks  uint64 `ch:"conformance_checks" json:"conformance_checks"`
	EscalationTests    uint64 `ch:"escalation_tests" json:"escalation_tests"`
	AlarmsRaised       uint64 `ch:"alarms_raised" json:"alarms_raised"`
	AlarmsCleared      uint64 `ch:"alarms_cleared" json:"alarms_cleared"`
	NotToldInTime      uint64 `ch:"not_told_in_time" json:"not_told_in_time"`
	WatchdogHandedOver uint64 `ch:"watchdog_handed_over" json:"watchdog_handed_over"`
	LedgerGaps         uint64 `ch:"ledger_gaps" json:"ledger_gaps"`
	Checkpoints        uint64 `ch:"checkpoints" json:"checkpoints"`
}

// Change is a row of audit_changes.
type Change struct {
	At               time.Time         `ch:"at" json:"at"`
	Tenant           string            `ch:"tenant" json:"tenant"`
	Kind             string            `ch:"kind" json:"kind"`
	Action           string            `ch:"action" json:"action"`
	Actor            string            `ch:"actor" json:"actor"`
	Reason           string            `ch:"reason" json:"reason"`
	Detail           string            `ch:"detail" json:"detail"`
	EndpointID       string            `ch:"endpoint_id" json:"endpoint_id"`
	EndpointRevision uint64            `ch:"endpoint_revision" json:"endpoint_revision"`
	URL              string            `ch:"url" json:"url"`
	Subject          string            `ch:"subject" json:"subject"`
	Revision         uint64            `ch:"revision" json:"revision"`
	Settings         map[string]string `ch:"settings" json:"settings"`
	Idx              uint64            `ch:"idx" json:"idx"`
}

// Replay is a row of replays.
type Replay struct {
	Tenant       string     `ch:"tenant" json:"tenant"`
	ReplayID     string     `ch:"replay_id" json:"replay_id"`
	EventID      string     `ch:"event_id" json:"event_id"`
	EndpointID   string     `ch:"endpoint_id" json:"endpoint_id"`
	RequestedAt  *time.Time `ch:"requested_at" json:"requested_at"`
	Actor        string     `ch:"actor" json:"actor"`
	Reason       string     `ch:"reason" json:"reason"`
	AttemptCount uint64     `ch:"attempt_count" json:"attempt_count"`
	State        string     `ch:"state" json:"state"`
	EndedAt      *time.Time `ch:"ended_at" json:"ended_at"`
	EndReason    string     `ch:"end_reason" json:"end_reason"`
}

// Checkpoint is a signed statement of the ledger's size and root.
type Checkpoint struct {
	Size   uint64    `ch:"size" json:"size"`
	At     time.Time `ch:"at" json:"at"`
	Origin string    `ch:"origin" json:"origin"`
	Key    string    `ch:"key" json:"key"`
	Root   string    `ch:"root" json:"root"`
}

// Checkpoints are those of a period.
type Checkpoints struct {
	Count     uint64      `json:"count"`
	Witnessed uint64      `json:"witnessed"` // with a witness's signature or a timestamp
	First     *Checkpoint `json:"first"`
	Last      *Checkpoint `json:"last"`
	Covering  *Checkpoint `json:"covering"` // the first that covers every record of the period
	LastIdx   uint64      `json:"last_idx"` // of the period's records
	Records   bool        `json:"has_records"`
}

// Add sums.
func (t *SignedTotals) Add(o SignedTotals) {
	t.Attempts += o.Attempts
	t.Signed += o.Signed
	t.Unknown += o.Unknown
	t.NotSent += o.NotSent
	t.Disagree += o.Disagree
	t.NoData += o.NoData
	t.Schemes = union(t.Schemes, o.Schemes)
	t.KeyIDs = union(t.KeyIDs, o.KeyIDs)
}

func union(a, b []string) []string {
	out := append(append([]string{}, a...), b...)
	slices.Sort(out)
	return slices.Compact(out)
}
