package escalation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/notify/channel"
)

// State of an incident.
type State string

// The states:
//
//	open ──a named person acknowledges──▶ acknowledged
//	  └────max_duration is over─────────▶ expired
const (
	Open         State = "open"
	Acknowledged State = "acknowledged"
	Expired      State = "expired"
)

// IncidentPrefix begins the id of every incident.
const IncidentPrefix = "inc_"

// maxCounted bounds the endpoints and reasons that an incident counts by name.
const maxCounted = 50

// otherNames counts what is beyond maxCounted.
const otherNames = "(others)"

// Incident is what people are told of in one go: the first dead letter of an
// endpoint under a policy, and those that follow it until a person acknowledges.
// It is one key of the bucket of incidents; only the escalator that holds the
// lease changes it, but for the acknowledgement.
type Incident struct {
	ID       string    `json:"id"`
	Tenant   string    `json:"tenant"`
	Policy   Policy    `json:"policy"` // as it was when the incident began
	State    State     `json:"state"`
	Scope    Scope     `json:"scope,omitempty"` // "" of those that are older than scopes: see About
	OpenedAt time.Time `json:"opened_at"`

	// First is the problem that began it, and FirstRevision its revision in the
	// bucket: those that followed have a higher one.
	First         Problem        `json:"first"`
	FirstRevision uint64         `json:"first_revision"`
	Count         int            `json:"count"` // as of the last change
	Seen          uint64         `json:"seen"`  // highest revision counted
	Reasons       map[string]int `json:"reasons"`
	Endpoints     map[string]int `json:"endpoints"`
	// DeliverBy is the earliest deadline among them.
	DeliverBy time.Time `json:"deliver_by,omitzero"`

	// Steps counts the steps begun, over all rounds: the next one is step
	// Steps % len(Policy.Steps) of round Steps / len(Policy.Steps).
	Steps    int               `json:"steps"`
	Messages int               `json:"messages"` // numbers given to messages
	Reach    map[string]*Reach `json:"reach"`    // by channel
	ToldAt   time.Time         `json:"told_at,omitzero"`
	// nobody could be told of those up to this revision, which was logged
	Alerted uint64 `json:"alerted,omitempty"`

	AckedBy string    `json:"acknowledged_by,omitempty"`
	AckedAt time.Time `json:"acknowledged_at,omitzero"`
	AckNote string    `json:"acknowledgement_note,omitempty"`
	// AckRevision is the revision of the acknowledgement: what joined later was
	// not seen by who acknowledged.
	AckRevision uint64    `json:"acknowledged_revision,omitempty"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	// Recorded: how it ended is in the ledger.
	Recorded bool `json:"recorded,omitempty"`
}

// Reach is how far one channel has come. At most one message is under way on it.
type Reach struct {
	Step int `json:"step"` // 1, 2, 3 …: the step that chose the channel
	// Told is the revision up to which the channel has told.
	Told   uint64    `json:"told"`
	ToldAt time.Time `json:"told_at,omitzero"`

	// The message under way, or the last one.
	Active    bool      `json:"active"`
	Message   int       `json:"message"`
	From      uint64    `json:"from"` // it covers the problems after From
	To        uint64    `json:"to"`   // up to To
	StartedAt time.Time `json:"started_at,omitzero"`
	Tries     int       `json:"tries"`            // of this message
	Failures  int       `json:"failures"`         // in a row, over messages
	Outcome   string    `json:"outcome"`          // of the last try
	TryAt     time.Time `json:"try_at,omitzero"`  // when the next try is due
	Error     string    `json:"error,omitempty"`  // of the last try
	Status    int       `json:"status,omitempty"` // of the last try
	// Resolved: after the acknowledgement, the channel has closed what it opened.
	Resolved bool `json:"resolved,omitempty"`
}

// ReachOf is how far a channel has come, which step chose.
func (i *Incident) ReachOf(name string, step int) *Reach {
	r := i.Reach[name]
	if r == nil {
		r = &Reach{Step: step}
		i.Reach[name] = r
	}
	return r
}

// Start puts a message under way on the channel: number, about the problems after
// from up to to. Its first try is due at tryAt. Nothing is sent yet.
func (r *Reach) Start(number int, from, to uint64, now, tryAt time.Time) {
	r.Active, r.Message, r.From, r.To, r.Tries = true, number, from, to, 0
	r.StartedAt, r.TryAt = now.UTC(), tryAt.UTC()
}

// Heard takes in whether a message about the problems up to a revision came
// through on a channel of the incident.
func (i *Incident) Heard(r *Reach, to uint64, told bool, now time.Time) {
	if !told {
		r.Failures++
		return
	}
	r.Told, r.ToldAt, r.Failures = max(r.Told, to), now.UTC(), 0
	if i.ToldAt.IsZero() {
		i.ToldAt = now.UTC()
	}
}

// Tried notes what came of a try of the message under way.
func (r *Reach) Tried(number int, came channel.Result) {
	r.Tries, r.Outcome, r.Error, r.Status = number, string(came.Outcome), came.Error, came.Status
}

// IncidentID follows from the problem that begins the incident, so that whoever
// begins it again after a crash finds it.
func IncidentID(first string) string {
	sum := sha256.Sum256([]byte("incident/" + first))
	return IncidentPrefix + hex.EncodeToString(sum[:10])
}

// Begin opens an incident with its first problem. Nothing has been sent yet.
func Begin(t Problem, p Policy, revision uint64, now time.Time) *Incident {
	i := &Incident{ID: IncidentID(t.ID), Tenant: t.Tenant, Policy: p, State: Open, Scope: t.scope(),
		OpenedAt: now.UTC(), First: t, FirstRevision: revision,
		Reasons: map[string]int{}, Endpoints: map[string]int{}, Reach: map[string]*Reach{}}
	i.Add(t, revision)
	return i
}

// Add counts one more problem, once for each: that is up to the caller, because
// what several store at the same time does not join in the order of revisions.
func (i *Incident) Add(t Problem, revision uint64) {
	i.Count++
	i.Seen = max(i.Seen, revision)
	count(i.Reasons, t.Reason)
	if t.EndpointID != "" {
		count(i.Endpoints, t.EndpointID)
	}
	if !t.DeliverBy.IsZero() && (i.DeliverBy.IsZero() || t.DeliverBy.Before(i.DeliverBy)) {
		i.DeliverBy = t.DeliverBy
	}
}

// Recount begins to count anew, with the first problem: what is stored may lack
// some that are below Seen.
func (i *Incident) Recount() {
	i.Count, i.Reasons, i.Endpoints, i.DeliverBy = 0, map[string]int{}, map[string]int{}, time.Time{}
	i.Add(i.First, i.FirstRevision)
}

func count(names map[string]int, name string) {
	if _, ok := names[name]; !ok && len(names) >= maxCounted {
		name = otherNames
	}
	names[name]++
}

// Told is the revision up to which some channel has told people.
func (i *Incident) Told() uint64 {
	most := uint64(0)
	for _, r := range i.Reach {
		most = max(most, r.Told)
	}
	return most
}

// MessageID identifies a message of the incident, on every channel and try.
func (i *Incident) MessageID(n int) string { return fmt.Sprintf("%s-%d", i.ID, n) }

// Encode gives the bytes that are stored.
func (i *Incident) Encode() ([]byte, error) { return json.Marshal(i) }

// DecodeIncident reads what Encode gave.
func DecodeIncident(b []byte) (*Incident, error) {
	var i Incident
	if err := json.Unmarshal(b, &i); err != nil {
		return nil, fmt.Errorf("incident: %w", err)
	}
	if i.ID == "" || len(i.Policy.Steps) == 0 || i.Reach == nil || i.Reasons == nil || i.Endpoints == nil {
		return nil, fmt.Errorf("incident %q: not whole", i.ID)
	}
	return &i, nil
}

// Member is a problem on record in the bucket, with the incident it belongs to.
type Member struct {
	Problem
	Incident string `json:"incident"`
}
