package escalator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// session is the work under one holding of the lease.
type session struct {
	*Escalator
	lease *lease.Lease
	lanes *lanes
	// records ends when what has not been put on record is left for the next one.
	records context.Context

	mu     sync.Mutex // guards what follows
	fronts map[string]*front
	byID   map[string]*actor
	actors sync.WaitGroup
}

// front is the incidents of one tenant under one policy.
type front struct {
	escalation.Front
	own        map[string]*group // by endpoint; they stay, so that one gate guards an endpoint for ever
	many, rest *group
}

// group is the incidents about one thing; one of them is open. Its front, scope
// and endpoint never change.
type group struct {
	front    *front // nil: nothing joins it
	scope    escalation.Scope
	endpoint string
	// gate is held shared while a problem is stored and joined, and alone where
	// what has been stored must be known whole: to begin an incident, and to say
	// up to which revision a message covers.
	gate    sync.RWMutex
	current *actor
}

func newSession(e *Escalator, l *lease.Lease) *session {
	s := &session{Escalator: e, lease: l, fronts: map[string]*front{}, byID: map[string]*actor{}}
	s.lanes = &lanes{s: s, by: map[string]*lane{}}
	return s
}

// run takes up what is under way, then takes in what comes, until ctx ends.
func (s *session) run(ctx context.Context) error {
	// What is under way goes on for a moment when ctx ends: a message that was
	// sent and not put on record would be sent again by the next one.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.records = work
	if err := s.load(ctx, work); err != nil {
		return err
	}
	loop, err := stage.NewLoop(stage.LoopOptions{JS: s.js, Stream: streams.Escalations,
		Consumer: streams.EscalatorConsumer,
		Handle:   func(_ context.Context, m stage.Message) stage.Settlement { return s.take(work, m) }, Concurrency: intake,
		AckWait:      s.ackWait,
		DrainTimeout: s.o.DrainTimeout, Log: s.log})
	if err != nil {
		return err
	}
	s.log.Info().Int("incidents", len(s.byID)).Msg(logevent.EscalatorLeading)
	g := new(errgroup.Group)
	g.Go(func() error { return loop.Run(ctx) })
	g.Go(func() error { return s.follow(ctx) })
	err = g.Wait()
	s.lanes.drain(s.o.DrainTimeout)
	stop()
	s.actors.Wait()
	s.metrics.open.Set(0)
	return err
}

func (s *session) actor(id string) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// launch starts an incident's actor, unless it has one.
func (s *session) launch(work context.Context, a *actor) bool {
	s.mu.Lock()
	if s.byID[a.id] != nil {
		s.mu.Unlock()
		return false
	}
	s.byID[a.id] = a
	n := len(s.byID)
	s.mu.Unlock()
	s.metrics.open.Set(float64(n))
	s.actors.Go(func() {
		a.run(work)
		s.mu.Lock()
		delete(s.byID, a.id)
		n := len(s.byID)
		s.mu.Unlock()
		if work.Err() == nil {
			s.metrics.open.Set(float64(n))
		}
	})
	return true
}

// load reads the incidents that are not over, and what belongs to them.
func (s *session) load(ctx, work context.Context) error {
	found := map[string]*actor{}
	err := s.each(ctx, streams.IncidentKeys, 0, func(e jetstream.KeyValueEntry) {
		doc, err := escalation.DecodeIncident(e.Value())
		if err != nil {
			s.log.Error().Err(err).Str("key", e.Key()).Msg(logevent.IncidentUnreadable)
			return
		}
		if doc.Recorded {
			return
		}
		if doc.State == escalation.Acknowledged && doc.AckRevision == 0 {
			doc.AckRevision = e.Revision()
		}
		found[doc.ID] = newActor(s, s.groupOf(doc), doc, e.Revision())
	})
	if err != nil {
		return err
	}
	return s.takeUp(ctx, work, found)
}

// takeUp starts the actors of incidents that are stored, with what belongs to them.
func (s *session) takeUp(ctx, work context.Context, found map[string]*actor) error {
	from := uint64(0)
	for _, a := range found {
		if from == 0 || a.doc.FirstRevision < from {
			from = a.doc.FirstRevision
		}
	}
	if from == 0 {
		return nil
	}
	err := s.each(ctx, streams.TroubleKeys, from, func(e jetstream.KeyValueEntry) {
		var m escalation.Member
		if err := json.Unmarshal(e.Value(), &m); err != nil {
			s.log.Error().Err(err).Str("key", e.Key()).Msg(logevent.IncidentUnreadable)
			return
		}
		if a := found[m.Incident]; a != nil {
			a.join(member{e.Revision(), m.Problem})
		}
	})
	if err != nil {
		return err
	}
	for _, a := range found {
		a.doc.Recount()                        // each of them has joined
		open := a.doc.State == escalation.Open // afterwards it is the actor's alone
		if !s.launch(work, a) {
			continue
		}
		a.group.gate.Lock()
		if a.group.current == nil && open {
			a.group.current = a
			s.open(a.group)
		}
		a.group.gate.Unlock()
	}
	return nil
}

// each calls do for every key that matches a pattern, as it is now, from a revision on.
func (s *session) each(ctx context.Context, pattern string, from uint64, do func(jetstream.KeyValueEntry)) error {
	options := []jetstream.WatchOpt{jetstream.IgnoreDeletes()}
	if from > 0 {
		options = append(options, jetstream.ResumeFromRevision(from))
	}
	w, err := s.kv.Watch(ctx, pattern, options...)
	if err != nil {
		return fmt.Errorf("reading the incidents: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("reading the incidents: the connection to NATS was lost")
			case e == nil:
				return nil
			}
			do(e)
		}
	}
}

// follow sees acknowledgements.
func (s *session) follow(ctx context.Context) error {
	take := func(e jetstream.KeyValueEntry) {
		if e == nil || e.Operation() != jetstream.KeyValuePut {
			return
		}
		doc, err := escalation.DecodeIncident(e.Value())
		if err != nil || doc.State != escalation.Acknowledged {
			return
		}
		if a := s.actor(doc.ID); a != nil {
			a.acknowledge(acknowledgement{doc, e.Revision()})
		}
	}
	revision.Watch(ctx, s.js, streams.IncidentsBucket, streams.IncidentKeys,
		func(jetstream.KeyValue) func(jetstream.KeyValueEntry) { return take },
		func(err error) { s.log.Warn().Err(err).Msg(logevent.IncidentsWatchLost) })
	return nil
}
