package escalator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// storeBound bounds one write of the bucket: past it the message is handed back.
const storeBound = 5 * time.Second

// take is the handler of ESCALATIONS: it stores a problem as part of an
// incident. Once that is stored, the message is done: the incident tells.
func (s *session) take(ctx context.Context, m stage.Message) stage.Settlement {
	t, err := escalation.Decode(m.Data)
	if err != nil {
		// Only our own stages write there: somebody else did. The line is the record of it.
		s.log.Error().Err(err).Str("subject", m.Subject).Uint64("seq", m.Seq).Msg(logevent.EscalationMalformed)
		return stage.Drop("malformed")
	}
	if !s.lease.Valid() {
		return stage.Later(transientPause)
	}
	if err := s.admit(ctx, arrival{Problem: t}); err != nil {
		s.log.Warn().Err(err).Str("record_id", t.ID).Msg(logevent.EscalationHandedBack)
		return stage.Later(transientPause)
	}
	return stage.Done()
}

// arrival is a problem that is to become part of an incident.
type arrival struct {
	escalation.Problem
	// from is the incident that ended before anybody was told of it, and
	// revision the problem's in it. Empty: it has just come.
	from     string
	revision uint64
}

// incident that the arrival begins, if it begins one: always the same.
func (t arrival) incident() string {
	if t.from == "" {
		return escalation.IncidentID(t.ID)
	}
	return escalation.IncidentID(t.ID + "/" + t.from)
}

// admit makes a problem part of the open incident of its group, or begins one.
func (s *session) admit(work context.Context, t arrival) error {
	ctx, cancel := context.WithTimeout(work, storeBound)
	defer cancel()
	err := s.place(ctx, work, t)
	var k *known
	if errors.As(err, &k) {
		return s.again(ctx, work, t.Problem, k)
	}
	return err
}

func (s *session) place(ctx, work context.Context, t arrival) error {
	p := escalation.Choose(s.policies.All(), t.Problem)
	g := s.groupFor(t.Problem, p)
	if done, err := s.joinCurrent(ctx, g, t); done || err != nil {
		return err
	}
	g.gate.Lock()
	defer g.gate.Unlock()
	if a := g.current; a != nil { // somebody else has begun one in between
		return s.joinTo(ctx, a, t)
	}
	err := s.begin(ctx, work, g, p, t)
	if g.current == nil { // nothing is open after all
		s.close(g)
	}
	return err
}

func (s *session) joinCurrent(ctx context.Context, g *group, t arrival) (done bool, err error) {
	g.gate.RLock()
	defer g.gate.RUnlock()
	if g.current == nil {
		return false, nil
	}
	return true, s.joinTo(ctx, g.current, t)
}

// joinTo stores a problem as part of an incident. The group's gate is held.
func (s *session) joinTo(ctx context.Context, a *actor, t arrival) error {
	rev, err := s.storeProblem(ctx, t, a.id)
	if err != nil {
		return err
	}
	a.join(member{rev, t.Problem})
	return nil
}

// known is what storeProblem says of a problem that was taken in before, by this
// session or another one.
type known struct {
	incident *escalation.Incident
	revision uint64 // of the incident
	problem  uint64 // revision of the problem
}

func (k *known) Error() string { return "it was taken in before, as part of " + k.incident.ID }

// storeProblem writes the problem's key. A *known error means that it is there,
// and that its incident is too.
func (s *session) storeProblem(ctx context.Context, t arrival, incident string) (uint64, error) {
	key := streams.TroubleKey(t.ID)
	b, err := json.Marshal(escalation.Member{Problem: t.Problem, Incident: incident})
	if err != nil {
		return 0, err
	}
	if t.from != "" {
		return s.kv.Put(ctx, key, b)
	}
	rev, err := s.kv.Create(ctx, key, b)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return rev, err
	}
	// The message came again, or whoever stored it died before the next line.
	e, err := s.kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	var m escalation.Member
	if err := json.Unmarshal(e.Value(), &m); err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	if m.ID != t.ID {
		return 0, fmt.Errorf("%s is the key of %q too", key, m.ID)
	}
	i, err := s.kv.Get(ctx, streams.IncidentKey(m.Incident))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		// It was to begin an incident, and that was never stored.
		return s.kv.Update(ctx, key, b, e.Revision())
	}
	if err != nil {
		return 0, err
	}
	doc, err := escalation.DecodeIncident(i.Value())
	if err != nil {
		return 0, err
	}
	return 0, &known{doc, i.Revision(), e.Revision()}
}

// again makes sure of a problem that was taken in before. A write that was
// stored and reported as failed leaves one that no actor knows of, or an
// incident that has none.
func (s *session) again(ctx, work context.Context, t escalation.Problem, k *known) error {
	if k.incident.Recorded {
		return nil
	}
	a := s.actor(k.incident.ID)
	if a == nil {
		return s.takeUp(ctx, work, map[string]*actor{k.incident.ID: newActor(s, s.groupOf(k.incident), k.incident,
			k.revision)})
	}
	if a.knows(k.problem) {
		return nil
	}
	// A message may cover its revision by now, without it: it gets a new one.
	a.group.gate.RLock()
	defer a.group.gate.RUnlock()
	b, err := json.Marshal(escalation.Member{Problem: t, Incident: a.id})
	if err != nil {
		return err
	}
	rev, err := s.kv.Update(ctx, streams.TroubleKey(t.ID), b, k.problem)
	if err != nil {
		return err
	}
	a.join(member{rev, t})
	return nil
}

// begin opens an incident with its first problem. The group's gate is held alone.
// If the process dies after the first write, the message comes again and finds
// a problem without an incident; after the second, the incident is loaded.
func (s *session) begin(ctx, work context.Context, g *group, p escalation.Policy, t arrival) error {
	id, rev := t.incident(), t.revision
	if t.from == "" {
		var err error
		if rev, err = s.storeProblem(ctx, t, id); err != nil {
			return err
		}
	}
	doc := escalation.Begin(t.Problem, p, rev, time.Now())
	doc.Scope = g.scope
	a, err := s.create(ctx, g, doc, id)
	if err != nil || a == nil {
		return err
	}
	if t.from != "" { // its key says still that it belongs to the incident that has ended
		if _, err := s.storeProblem(ctx, t, id); err != nil {
			s.log.Warn().Err(err).Str("record_id", t.ID).Msg(logevent.IncidentNotMoved)
		}
	}
	g.current = a
	s.open(g)
	s.launch(work, a)
	s.log.Warn().Str("incident_id", id).Str("tenant", t.Tenant).Str("event_id", t.EventID).Str("endpoint_id",
		t.EndpointID).
		Str("reason", t.Reason).Str("escalation_policy", p.Name).Str("scope", string(g.scope)).Msg(logevent.IncidentOpened)
	return nil
}

// create stores an incident, together with what is to be sent first: nothing
// more needs to be written before it is sent. nil means that it is there.
func (s *session) create(ctx context.Context, g *group, doc *escalation.Incident, id string) (*actor, error) {
	doc.ID = id
	a := newActor(s, g, doc, 0)
	a.join(member{doc.FirstRevision, doc.First})
	now := time.Now()
	a.apply(escalation.Next(doc, a.pending(), now), now, doc.Seen)
	b, err := doc.Encode()
	if err != nil {
		return nil, err
	}
	a.revision, err = s.kv.Create(ctx, streams.IncidentKey(id), b)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil, nil // the bucket has forgotten the problem, but not that people were told of it
	}
	if err != nil {
		return nil, fmt.Errorf("incident %s: %w", id, err)
	}
	a.dirty = false
	return a, nil
}
