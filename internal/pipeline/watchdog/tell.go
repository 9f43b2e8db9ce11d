package watchdog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// minTry is what a try gets however near the deadline is.
	minTry = 2 * time.Second
	// leaveAlone is for how long an escalator that takes the incident up waits
	// before it repeats what the watchdog may be sending at this moment.
	leaveAlone = 30 * time.Second
	// width is how many alerts are being stored at once.
	width = 128
	// maxNamed is how many alerts get a record of their own of a try that failed.
	maxNamed = 100
)

func sortByDeadline(tasks []task) {
	slices.SortFunc(tasks, func(a, b task) int { return cmp.Or(a.by.Compare(b.by), cmp.Compare(a.seq, b.seq)) })
}

// tell tells people of each alert without the escalator, and says of which it
// could, or somebody had before.
func (w *Watchdog) tell(ctx context.Context, cs []alert) map[key]bool {
	groups := divide(w.policies.All(), cs)
	var mu sync.Mutex
	var wg sync.WaitGroup
	all := map[key]bool{}
	for _, g := range groups {
		wg.Go(func() {
			ok := w.tellGroup(ctx, g)
			mu.Lock()
			defer mu.Unlock()
			for k := range ok {
				all[k] = true
			}
		})
	}
	wg.Wait()
	return all
}

// tellGroup tells of what belongs into one incident: one message for what nobody has
// taken in hand, and one for each incident that the escalator began and told
// nobody of.
func (w *Watchdog) tellGroup(ctx context.Context, g *group) map[key]bool {
	ok := map[key]bool{}
	fresh, theirs := w.take(ctx, g, ok)
	if fresh != nil {
		w.send(ctx, fresh, ok)
	}
	for _, n := range theirs {
		w.send(ctx, n, ok)
	}
	return ok
}

// notice is one message to be sent.
type notice struct {
	incident *escalation.Incident
	revision uint64 // of the incident; 0: it is the escalator's, or not stored
	id       string // of the message
	members  []alert
}

// stored is what came of storing one alert's key.
type stored struct {
	revision uint64
	member   *escalation.Member // who had it before
}

// take stores each alert as part of an incident, in the form that the
// escalator knows: it goes on from there, reminds people, and tells nobody
// again. What cannot be stored is told all the same.
func (w *Watchdog) take(ctx context.Context, g *group, told map[key]bool) (*notice, []*notice) {
	ctx, cancel := context.WithTimeout(ctx, storeBound)
	defer cancel()
	kv, err := streams.Bucket(ctx, w.js, streams.IncidentsBucket)
	if err != nil {
		w.log.Warn().Err(err).Msg(logevent.WatchdogIncidentNotStored)
	}
	id := escalation.IncidentID(g.cs[0].ID)
	got := w.storeAll(ctx, kv, g.cs, id)
	fresh := &notice{}
	theirs := map[string]*notice{}
	for i, c := range g.cs {
		switch n, known := w.known(ctx, kv, theirs, got[i]); {
		case n == nil && known:
			told[c.key] = true
		case n != nil:
			n.members = append(n.members, c)
		default:
			w.add(fresh, g, c, got[i].revision)
		}
	}
	out := make([]*notice, 0, len(theirs))
	for _, n := range theirs {
		if len(n.members) > 0 {
			about := keyOf(n.members[0].ID)
			n.id = fmt.Sprintf("%s-w%x", n.incident.ID, about[:4])
			out = append(out, n)
		}
	}
	if fresh.incident == nil {
		return nil, out
	}
	w.open(ctx, kv, fresh)
	return fresh, out
}

// storeAll stores the alerts' keys.
func (w *Watchdog) storeAll(ctx context.Context, kv jetstream.KeyValue, cs []alert, incident string) []stored {
	got := make([]stored, len(cs))
	if kv == nil {
		return got
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i, c := range cs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			got[i] = storeOne(ctx, kv, c.Problem, incident)
		})
	}
	wg.Wait()
	return got
}

func storeOne(ctx context.Context, kv jetstream.KeyValue, t escalation.Problem, incident string) stored {
	name := streams.TroubleKey(t.ID)
	b, err := json.Marshal(escalation.Member{Problem: t, Incident: incident})
	if err != nil {
		return stored{}
	}
	rev, err := kv.Create(ctx, name, b)
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return stored{revision: rev}
	}
	e, err := kv.Get(ctx, name)
	if err != nil {
		return stored{}
	}
	var m escalation.Member
	if err := json.Unmarshal(e.Value(), &m); err != nil || m.ID != t.ID {
		return stored{}
	}
	return stored{revision: e.Revision(), member: &m}
}

// known says whether somebody has taken the alert in hand: the notice that
// tells of it, or none when people know.
func (w *Watchdog) known(ctx context.Context, kv jetstream.KeyValue, theirs map[string]*notice, s stored) (n *notice,
	known bool) {
	if s.member == nil {
		return nil, false
	}
	id := s.member.Incident
	if n, ok := theirs[id]; ok {
		return n.unlessTold(s.revision)
	}
	e, err := kv.Get(ctx, streams.IncidentKey(id))
	if err != nil {
		return nil, false // it was to begin one, and that was never stored
	}
	doc, err := escalation.DecodeIncident(e.Value())
	if err != nil {
		return nil, false
	}
	n = &notice{incident: doc}
	if !w.alive.Load() && doc.Told() == 0 {
		n.revision = e.Revision() // nobody else changes it now
	}
	theirs[id] = n
	return n.unlessTold(s.revision)
}

// unlessTold is the notice, or none when people know of the problem at a revision.
func (n *notice) unlessTold(revision uint64) (*notice, bool) {
	acked := n.incident.State == escalation.Acknowledged && revision <= n.incident.AckRevision
	if revision <= n.incident.Told() || acked {
		return nil, true
	}
	return n, true
}

// add makes a alert part of the incident that the watchdog begins.
func (w *Watchdog) add(n *notice, g *group, c alert, revision uint64) {
	if n.incident == nil {
		n.incident = escalation.Begin(c.Problem, g.policy, revision, time.Now())
		n.incident.Scope = g.scope
	} else {
		n.incident.Add(c.Problem, max(revision, n.incident.Seen+1))
	}
	n.members = append(n.members, c)
}

// open stores the incident as one whose first message is under way. If the
// process dies on the next line, an escalator sends that message, under its id.
func (w *Watchdog) open(ctx context.Context, kv jetstream.KeyValue, n *notice) {
	i, now := n.incident, time.Now()
	i.Steps, i.Messages = 1, 1
	n.id = i.MessageID(1)
	for _, c := range i.Policy.Steps[0].Channels {
		i.ReachOf(c, 1).Start(i.Messages, 0, i.Seen, now, now.Add(leaveAlone))
	}
	if kv == nil || i.FirstRevision == 0 {
		return
	}
	b, err := i.Encode()
	if err == nil {
		n.revision, err = kv.Create(ctx, streams.IncidentKey(i.ID), b)
	}
	if err != nil {
		w.log.Warn().Err(err).Str("incident_id", i.ID).Msg(logevent.WatchdogIncidentNotStored)
	}
}

// send tells through the steps of the policy, one after the other until a
// channel has taken the message, and puts every try on record.
func (w *Watchdog) send(ctx context.Context, n *notice, ok map[key]bool) {
	if n.revision > 0 && len(n.members) < n.incident.Count {
		n.revision = 0 // it holds others that this message does not tell of
	}
	toldOne := false
	for i, step := range n.incident.Policy.Steps {
		if w.sendStep(ctx, n, i+1, step) {
			toldOne = true
			break
		}
	}
	if toldOne {
		for _, c := range n.members {
			ok[c.key] = true
		}
	}
	w.save(ctx, n)
	first := n.members[0]
	e := w.log.Warn()
	if !toldOne {
		e = w.log.Error()
	}
	e.Str("incident_id", n.incident.ID).Str("tenant", first.Tenant).Str("event_id", first.EventID).Str("endpoint_id",
		first.EndpointID).
		Str("reason", first.Reason).Int("concerns", len(n.members)).Bool("told", toldOne).Msg(logevent.WatchdogTold)
}

// sendStep uses all channels of a step at once.
func (w *Watchdog) sendStep(ctx context.Context, n *notice, number int, s escalation.Step) bool {
	results := make([]channel.Result, len(s.Channels))
	var wg sync.WaitGroup
	for i, name := range s.Channels {
		wg.Go(func() { results[i] = w.sendOne(ctx, n, number, name) })
	}
	wg.Wait()
	told := false
	for i, r := range results {
		told = told || r.Told()
		w.note(n, number, s.Channels[i], r)
		w.recordTry(ctx, n, number, s.Channels[i], r)
	}
	return told
}

func (w *Watchdog) sendOne(ctx context.Context, n *notice, number int, name string) channel.Result {
	c, ok := w.channels.Get(name)
	if !ok {
		what := outcome.Misconfigured
		if name == escalation.Nobody {
			what = outcome.NobodyTold
		}
		return channel.Result{Class: outcome.ClassTerminal, Outcome: what, StartedAt: time.Now().UTC(),
			Error: "there is no such channel; make it with: waybill channel create"}
	}
	c, err := c.Open(w.o.Keys)
	if err != nil {
		return channel.Result{Class: outcome.ClassTerminal, Outcome: outcome.Misconfigured, StartedAt: time.Now().UTC(),
			Error: err.Error()}
	}
	by := n.members[0].by
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(by)/2, minTry))
	defer cancel()
	return w.o.Sender.Send(ctx, c, w.message(n, number))
}

func (w *Watchdog) message(n *notice, number int) channel.Message {
	problems := make([]escalation.Problem, len(n.members))
	for i, c := range n.members {
		problems[i] = c.Problem
	}
	m := escalation.Notice{Incident: n.incident, Members: problems, Step: number, Number: 1, Source: w.o.Source,
		Link: w.o.Link(n.incident.ID), Now: time.Now()}.Message()
	m.ID, m.Try = n.id, n.try()
	return m
}

// try is how often these alerts have been told, this time included.
func (n *notice) try() int {
	most := 1
	for _, c := range n.members {
		most = max(most, c.try)
	}
	return most
}

// note makes a try part of the incident.
func (w *Watchdog) note(n *notice, number int, name string, r channel.Result) {
	i, now := n.incident, time.Now()
	reach := i.Reach[name]
	if reach == nil { // the escalator's, or a later step's, which open does not start
		reach = i.ReachOf(name, number)
		reach.Start(1, 0, i.Seen, now, time.Time{})
		reach.Active = false
	}
	reach.Tried(1, r)
	i.Steps = max(i.Steps, number)
	i.Heard(reach, i.Seen, r.Told(), now)
	if r.Told() {
		reach.Active = false
	}
}

// save stores how far the incident has come, unless an escalator has it by now.
func (w *Watchdog) save(ctx context.Context, n *notice) {
	if n.revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeBound)
	defer cancel()
	b, err := n.incident.Encode()
	if err == nil {
		var kv jetstream.KeyValue
		if kv, err = streams.Bucket(ctx, w.js, streams.IncidentsBucket); err == nil {
			n.revision, err = kv.Update(ctx, streams.IncidentKey(n.incident.ID), b, n.revision)
		}
	}
	if err != nil {
		w.log.Warn().Err(err).Str("incident_id", n.incident.ID).Msg(logevent.WatchdogIncidentNotStored)
	}
}

// recordTry puts a try on record, for each alert that the message tells of.
func (w *Watchdog) recordTry(ctx context.Context, n *notice, number int, name string, r channel.Result) {
	named := n.members
	if !r.Told() {
		named = named[:min(len(named), maxNamed)]
	}
	kind, address := "", ""
	if c, ok := w.channels.Get(name); ok {
		kind, address = string(c.Kind), c.Address()
	}
	try := escalation.Try{Incident: n.incident.ID, Policy: n.incident.Policy.Name, Step: number, Channel: name, Kind: kind,
		Address: address, Message: n.id, Action: "trigger", Actor: Actor, Result: r, Program: w.o.Name,
		Software: w.o.Software}
	msgs := make([]*nats.Msg, 0, len(named))
	for _, c := range named {
		try.Number, try.Detail = c.try, c.detail()
		rec := try.Record(c.Problem)
		m, err := rec.Message()
		if err != nil {
			w.log.Error().Err(err).Msg(logevent.WatchdogNotRecorded)
			continue
		}
		msgs = append(msgs, m)
	}
	w.publish(context.WithoutCancel(ctx), named, msgs, "told_"+string(r.Class))
}
