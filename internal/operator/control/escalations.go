package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/streams"
)

// Escalation is an incident as people are shown it. Incidents that ended stay
// for a week; after that the ledger has them alone.
type Escalation struct {
	ID        string             `json:"id"`
	Tenant    string             `json:"tenant"`
	State     escalation.State   `json:"state"`
	Scope     escalation.Scope   `json:"scope"` // endpoint, endpoints or tenant; "" mixes
	Takes     string             `json:"takes"` // what an acknowledgement takes, in words
	Policy    string             `json:"escalation_policy"`
	OpenedAt  time.Time          `json:"opened_at"`
	DeliverBy time.Time          `json:"deliver_by,omitzero"` // earliest of its dead letters
	Count     int                `json:"count"`               // dead letters
	Reasons   map[string]int     `json:"reasons"`
	Endpoints map[string]int     `json:"endpoints"`
	First     escalation.Problem `json:"first"`
	Told      bool               `json:"told"` // a channel took a message
	ToldAt    time.Time          `json:"told_at,omitzero"`
	Step      int                `json:"step"`  // the last one begun
	Round     int                `json:"round"` // 1, 2, 3 …
	Channels  []EscalationReach  `json:"channels"`
	AckedBy   string             `json:"acknowledged_by,omitempty"`
	AckedAt   time.Time          `json:"acknowledged_at,omitzero"`
	AckNote   string             `json:"acknowledgement_note,omitempty"`
	EndedAt   time.Time          `json:"ended_at,omitzero"`
}

// EscalationReach is how far one channel has come.
type EscalationReach struct {
	Channel string    `json:"channel"`
	Step    int       `json:"step"`
	Told    bool      `json:"told"`
	ToldAt  time.Time `json:"told_at,omitzero"`
	Outcome string    `json:"outcome,omitempty"` // of the last try
	Tries   int       `json:"tries"`             // of the last message
	TryAt   time.Time `json:"try_at,omitzero"`   // when the next try is due, if one is
	Error   string    `json:"error,omitempty"`
}

func showIncident(i *escalation.Incident) Escalation {
	n := len(i.Policy.Steps)
	scope, _ := i.About()
	e := Escalation{ID: i.ID, Tenant: i.Tenant, State: i.State, Scope: scope, Takes: i.Taken(), Policy: i.Policy.Name,
		OpenedAt: i.OpenedAt, DeliverBy: i.DeliverBy, Count: i.Count,
		Reasons: i.Reasons, Endpoints: i.Endpoints, First: i.First, Told: i.Told() > 0, ToldAt: i.ToldAt,
		Channels: []EscalationReach{},
		AckedBy:  i.AckedBy, AckedAt: i.AckedAt, AckNote: i.AckNote, EndedAt: i.EndedAt}
	if i.Steps > 0 {
		e.Step, e.Round = (i.Steps-1)%n+1, (i.Steps-1)/n+1
	}
	for name, r := range i.Reach {
		reach := EscalationReach{Channel: name, Step: r.Step, Told: r.Told > 0, ToldAt: r.ToldAt, Outcome: r.Outcome,
			Tries: r.Tries, Error: r.Error}
		if r.Active {
			reach.TryAt = r.TryAt
		}
		e.Channels = append(e.Channels, reach)
	}
	slices.SortFunc(e.Channels, func(a, b EscalationReach) int {
		if a.Step != b.Step {
			return a.Step - b.Step
		}
		return strings.Compare(a.Channel, b.Channel)
	})
	return e
}

// EscalationFilter narrows a listing. Zero fields do not.
type EscalationFilter struct {
	Tenant string
	State  escalation.State
}

// Escalations lists incidents, the latest first.
func (c *Control) Escalations(ctx context.Context, f EscalationFilter) ([]Escalation, error) {
	switch f.State {
	case "", escalation.Open, escalation.Acknowledged, escalation.Expired:
	default:
		return nil, invalid("state", "%.40q; want open, acknowledged or expired", string(f.State))
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w, err := c.incidents.Watch(ctx, streams.IncidentKeys, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, failed(err)
	}
	defer w.Stop()
	out := []Escalation{}
	for {
		select {
		case <-ctx.Done():
			return nil, failed(ctx.Err())
		case e, ok := <-w.Updates():
			if !ok {
				return nil, failure(CodeUnavailable, "the connection to NATS was lost; try again")
			}
			if e == nil {
				slices.SortFunc(out, func(a, b Escalation) int {
					if d := b.OpenedAt.Compare(a.OpenedAt); d != 0 {
						return d
					}
					return strings.Compare(a.ID, b.ID)
				})
				return out, nil
			}
			i, err := escalation.DecodeIncident(e.Value())
			if err != nil {
				return nil, failed(err)
			}
			if (f.Tenant == "" || i.Tenant == f.Tenant) && (f.State == "" || i.State == f.State) {
				out = append(out, showIncident(i))
			}
		}
	}
}

// Escalation returns one incident, by its id or by the id of the record of a
// dead letter in it.
func (c *Control) Escalation(ctx context.Context, id string) (Escalation, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	i, _, err := c.incident(ctx, id)
	if err != nil {
		return Escalation{}, err
	}
	return showIncident(i), nil
}

func (c *Control) incident(ctx context.Context, id string) (*escalation.Incident, uint64, error) {
	unknown := failure(CodeNotFound, "there is no incident %.120q; those that ended over a week ago are in the ledger "+
		"alone; see: waybill escalation list", id)
	if !strings.HasPrefix(id, escalation.IncidentPrefix) {
		e, err := c.incidents.Get(ctx, streams.TroubleKey(id))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil, 0, unknown
		}
		if err != nil {
			return nil, 0, failed(err)
		}
		var m escalation.Member
		if err := json.Unmarshal(e.Value(), &m); err != nil {
			return nil, 0, failed(err)
		}
		id = m.Incident
	}
	e, err := c.incidents.Get(ctx, streams.IncidentKey(id))
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return nil, 0, unknown
	}
	if err != nil {
		return nil, 0, failed(err)
	}
	i, err := escalation.DecodeIncident(e.Value())
	if err != nil {
		return nil, 0, failed(err)
	}
	return i, e.Revision(), nil
}

// ackTries bounds how often an acknowledgement is repeated when the escalator
// writes at the same moment.
const ackTries = 20

// AcknowledgeEscalation says that a named person takes an incident: nobody else
// is told from then on. It is one write of the incident's key, from which the
// escalator puts it on record.
func (c *Control) AcknowledgeEscalation(ctx context.Context, id, by, note string) (Escalation, error) {
	if err := checkText("by", "say who takes it", by, maxActor, true); err != nil {
		return Escalation{}, err
	}
	if err := checkText("note", "", note, maxReason, false); err != nil {
		return Escalation{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for range ackTries {
		i, rev, err := c.incident(ctx, id)
		if err != nil {
			return Escalation{}, err
		}
		if i.State != escalation.Open {
			return showIncident(i), failure(CodeConflict, "incident %s is over: %s", i.ID, howEnded(i))
		}
		i.State, i.AckedBy, i.AckNote, i.AckedAt = escalation.Acknowledged, by, note, c.o.Now().UTC()
		b, err := i.Encode()
		if err != nil {
			return Escalation{}, failed(err)
		}
		_, err = c.incidents.Update(ctx, streams.IncidentKey(i.ID), b, rev)
		if errors.Is(err, jetstream.ErrKeyExists) {
			continue // the escalator has written in between
		}
		if err != nil {
			return Escalation{}, failed(err)
		}
		return showIncident(i), nil
	}
	return Escalation{}, failure(CodeConflict, "incident %s is being written all the time; try again", id)
}

func howEnded(i *escalation.Incident) string {
	if i.State == escalation.Acknowledged {
		return "acknowledged by " + i.AckedBy + " at " + i.AckedAt.Format(time.RFC3339)
	}
	return "expired at " + i.EndedAt.Format(time.RFC3339) +
		" without an acknowledgement; take its dead letters with: waybill deadletter ack"
}
