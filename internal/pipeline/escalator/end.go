package escalator

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// resolveTries is how often a channel is asked to close what it opened.
const resolveTries = 6

// resolveWithin is how soon a channel should close what it opened.
const resolveWithin = time.Minute

// end puts on record how the incident ended, and tells the channels that keep
// something open. If the process dies before Recorded is stored, it is done
// again: the records are recognised by their ids. It returns when to look again.
func (a *actor) end(ctx context.Context, now time.Time) time.Time {
	if !a.ackStored {
		a.pending()
		store := a.endExpired
		if a.doc.State == escalation.Acknowledged {
			store = a.endAcknowledged
		}
		if err := store(ctx); err != nil {
			a.s.log.Warn().Err(err).Str("incident_id", a.id).Msg(logevent.IncidentNotRecorded)
			return now.Add(saveAgain)
		}
		a.ackStored = true
	}
	if a.doc.State == escalation.Acknowledged {
		if at, left := a.resolveDue(now); left {
			return at
		}
	}
	a.doc.Recorded, a.dirty = true, true
	return time.Time{}
}

func (a *actor) endAcknowledged(ctx context.Context) error {
	var msgs []*nats.Msg
	for _, m := range a.members {
		if m.revision > a.doc.AckRevision && m.revision > a.doc.Told() {
			// It came after the person looked, and nobody was told of it.
			if err := a.s.admit(ctx, arrival{m.Problem, a.id, m.revision}); err != nil {
				return err
			}
			continue
		}
		r := record.Record{ID: record.AckedID(a.id + "/" + m.ID), Kind: record.EscalationAcked, At: a.doc.AckedAt,
			Tenant:  m.Tenant,
			EventID: m.EventID, EndpointID: m.EndpointID, EventType: m.EventType, ReplayID: m.ReplayID, DeliverBy: m.DeliverBy,
			Reason: m.Reason, Actor: a.doc.AckedBy, Detail: a.doc.AckNote, IncidentID: a.id, EscalationPolicy: a.doc.Policy.Name,
			Software: a.s.o.Software}
		msg, err := r.Message()
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	if err := a.store(ctx, msgs); err != nil {
		return err
	}
	a.s.log.Info().Str("incident_id", a.id).Str("tenant", a.doc.Tenant).Str("actor", a.doc.AckedBy).Int("dead_letters",
		len(msgs)).Msg(logevent.IncidentAcknowledged)
	for name, r := range a.doc.Reach {
		c, ok := a.s.channels.Get(name)
		r.Resolved = !ok || !sender.Resolves(c) || r.Told == 0
		r.Active, r.Tries, r.TryAt = false, 0, a.doc.AckedAt
	}
	return nil
}

func (a *actor) endExpired(ctx context.Context) error {
	untold := a.between(a.doc.Told(), a.doc.Seen)
	var msgs []*nats.Msg
	for _, m := range untold {
		r := record.Record{ID: record.EscalationID(a.id, "", 0, m.ID), Kind: record.Escalation, At: a.doc.EndedAt,
			Tenant:  m.Tenant,
			EventID: m.EventID, EndpointID: m.EndpointID, EventType: m.EventType, ReplayID: m.ReplayID, DeliverBy: m.DeliverBy,
			Reason: m.Reason,
			Action: "expire", Outcome: string(outcome.Expired), Class: string(outcome.ClassTerminal),
			Error:      "nobody could be told before the incident's longest time was over",
			IncidentID: a.id, EscalationPolicy: a.doc.Policy.Name, Dispatcher: a.s.o.Name, Software: a.s.o.Software}
		msg, err := r.Message()
		if err != nil {
			return err
		}
		msgs = append(msgs, msg)
	}
	if err := a.store(ctx, msgs); err != nil {
		return err
	}
	a.s.log.Error().Str("incident_id", a.id).Str("tenant", a.doc.Tenant).Int("dead_letters", a.doc.Count).Int("untold",
		len(untold)).
		Dur("max_duration", a.doc.Policy.MaxDuration).Msg(logevent.IncidentExpired + ": nobody acknowledged")
	return nil
}

func (a *actor) store(ctx context.Context, msgs []*nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	for len(msgs) > 0 {
		n := min(chunk, len(msgs))
		if _, err := a.s.pub.PublishAll(ctx, msgs[:n]...); err != nil {
			return fmt.Errorf("records of the end: %w", err)
		}
		msgs = msgs[n:]
	}
	return nil
}

// resolveDue asks every channel that keeps something open to close it, and says
// whether one is left.
func (a *actor) resolveDue(now time.Time) (at time.Time, left bool) {
	for name, r := range a.doc.Reach {
		if r.Resolved {
			continue
		}
		left = true
		if a.inLane[name] {
			continue
		}
		if now.Before(r.TryAt) {
			at = earlier(at, r.TryAt)
			continue
		}
		a.inLane[name] = true
		m := escalation.Resolution(a.doc, a.s.o.Source, a.s.o.Link(a.id), now)
		m.Try = r.Tries + 1
		a.s.lanes.submit(&job{a: a, channel: name, try: m.Try, step: r.Step,
			members: []member{{a.doc.FirstRevision, a.doc.First}},
			tellBy:  a.doc.AckedAt.Add(resolveWithin), policy: a.doc.Policy.Name, action: channel.Resolve, message: m})
	}
	return at, left
}

// resolved takes in what came of asking a channel to close.
func (a *actor) resolved(o tried, r *escalation.Reach, now time.Time) {
	r.Tries = o.job.try
	r.Resolved = o.result.Class != outcome.ClassRetryable || r.Tries >= resolveTries
	r.TryAt = now.Add(escalation.RetryIn(r.Tries, o.job.tellBy, now, o.result.RetryAfter, a.s.o.Random())).UTC()
}
