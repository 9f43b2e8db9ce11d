package escalator

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

// fixPause is the pause before a channel that refuses for good is tried again
// while nobody has been told: somebody may have mended it.
const fixPause = time.Minute

// member is a problem of an incident, at its revision in the bucket.
type member struct {
	revision uint64
	escalation.Problem
}

type acknowledgement struct {
	doc      *escalation.Incident
	revision uint64
}

// actor drives one incident. Its goroutine alone reads and writes doc; what
// others tell it goes through the fields behind mu and through results.
type actor struct {
	s        *session
	group    *group
	id       string
	doc      *escalation.Incident
	revision uint64 // of doc in the bucket

	members    []member // in order of revision
	inLane     map[string]bool
	unrecorded int       // results whose records are not stored yet
	dirty      bool      // doc differs from what is stored
	counted    bool      // in no more than its counts
	savedAt    time.Time // when saving was last tried
	ackStored  bool      // the records of the end are stored

	mu      sync.Mutex // guards joined, known and acked
	joined  []member
	known   map[uint64]struct{} // revisions that have joined
	acked   *acknowledgement
	wake    chan struct{}
	results chan tried
	stored  chan struct{} // one for each result whose records are stored
	gone    chan struct{} // closed when run has returned
}

func newActor(s *session, g *group, doc *escalation.Incident, revision uint64) *actor {
	return &actor{s: s, group: g, id: doc.ID, doc: doc, revision: revision, inLane: map[string]bool{},
		known: map[uint64]struct{}{}, wake: make(chan struct{}, 1),
		results: make(chan tried, 2*laneWidth), stored: make(chan struct{}), gone: make(chan struct{})}
}

// join adds a problem that is stored as part of the incident.
func (a *actor) join(m member) {
	a.mu.Lock()
	if _, ok := a.known[m.revision]; !ok {
		a.known[m.revision] = struct{}{}
		a.joined = append(a.joined, m)
	}
	a.mu.Unlock()
	a.nudge()
}

// knows says whether the problem at a revision has joined.
func (a *actor) knows(revision uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.known[revision]
	return ok
}

// acknowledge tells the actor that a person has acknowledged.
func (a *actor) acknowledge(k acknowledgement) {
	a.mu.Lock()
	a.acked = &k
	a.mu.Unlock()
	a.nudge()
}

func (a *actor) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run drives the incident until it is over and on record, or ctx ends.
func (a *actor) run(ctx context.Context) {
	defer close(a.gone)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if a.doc.Recorded && !a.dirty && !a.counted && a.unrecorded == 0 {
			return
		}
		select {
		case <-ctx.Done():
			a.leave()
			return
		case <-timer.C:
		case <-a.wake:
		case o := <-a.results:
			a.result(o, time.Now())
		case <-a.stored:
			a.unrecorded--
		}
		at := a.step(ctx, time.Now())
		wait := time.Hour
		if !at.IsZero() {
			wait = max(time.Until(at), 0)
		}
		timer.Reset(wait)
	}
}

// leave stores how far the incident has come, for whoever takes it up.
func (a *actor) leave() {
	for {
		select {
		case o := <-a.results:
			a.result(o, time.Now())
			continue
		default:
		}
		break
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveBound)
	defer cancel()
	a.savedAt = time.Time{}
	a.save(ctx, time.Now())
}

// step does all that is due, and returns when to look again.
func (a *actor) step(ctx context.Context, now time.Time) time.Time {
	if k := a.takeAck(); k != nil && a.doc.State == escalation.Open {
		a.adopt(*k)
	}
	at := time.Time{}
	if a.doc.State == escalation.Open {
		at = a.plan(now)
	}
	if a.doc.State != escalation.Open && !a.doc.Recorded { // also when plan ended it
		at = a.end(ctx, now)
	}
	return earlier(at, a.save(ctx, now))
}

// plan decides what is due and hands it to the lanes.
func (a *actor) plan(now time.Time) time.Time {
	pending := a.pending()
	plan := escalation.Next(a.doc, pending, now)
	if len(plan.Starts) > 0 || plan.Alert {
		// Behind the gate, everything that was stored has joined: a message covers
		// all up to a revision, with nothing missing.
		a.group.gate.Lock()
		pending = a.pending()
		plan = escalation.Next(a.doc, pending, now)
		a.apply(plan, now, pending.Last)
		a.group.gate.Unlock()
	} else {
		a.apply(plan, now, pending.Last)
	}
	if a.doc.State != escalation.Open {
		a.detach()
		return time.Time{}
	}
	return earlier(plan.At, a.submitDue(now))
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// pending counts what has joined, and says what the channels lack.
func (a *actor) pending() escalation.Pending {
	a.mu.Lock()
	joined := a.joined
	a.joined = nil
	a.mu.Unlock()
	for _, m := range joined {
		if m.ID != a.doc.First.ID { // which is counted from the beginning
			a.doc.Add(m.Problem, m.revision)
			a.counted = true
		}
		a.members = append(a.members, m)
	}
	// Those that were stored at the same time join in any order, and not all
	// before this is called.
	slices.SortFunc(a.members, func(x, y member) int { return cmp.Compare(x.revision, y.revision) })
	p := escalation.Pending{Last: a.doc.Seen}
	for _, m := range a.between(a.doc.Told(), a.doc.Seen) {
		p.TellBy = earlier(p.TellBy, m.TellBy())
	}
	return p
}

// between are the members after one revision up to another.
func (a *actor) between(from, to uint64) []member {
	at := func(rev uint64) int {
		n, _ := slices.BinarySearchFunc(a.members, rev+1,
			func(m member, rev uint64) int { return cmp.Compare(m.revision, rev) })
		return n
	}
	return a.members[at(from):max(at(from), at(to))]
}

// apply puts a plan into the incident; nothing is sent yet.
func (a *actor) apply(plan escalation.Plan, now time.Time, last uint64) {
	if plan.Expire {
		a.doc.State, a.doc.EndedAt, a.dirty = escalation.Expired, now.UTC(), true
		return
	}
	starts := plan.Starts
	if plan.Alert {
		starts = append(starts, escalation.Start{Channel: escalation.Nobody})
		a.doc.Alerted = last
	}
	for _, st := range starts {
		r := a.doc.ReachOf(st.Channel, st.Step)
		a.doc.Messages++
		r.Start(a.doc.Messages, a.coveredFrom(st, r, last), last, now, now)
	}
	if len(starts) > 0 || plan.Steps != a.doc.Steps {
		a.doc.Steps, a.dirty = plan.Steps, true
	}
}

// coveredFrom is the revision after which a message's problems begin.
func (a *actor) coveredFrom(st escalation.Start, r *escalation.Reach, last uint64) uint64 {
	switch {
	case st.Channel != escalation.Nobody && st.Again && r.Told >= last:
		return 0 // a reminder of everything
	case st.Channel != escalation.Nobody:
		return r.Told
	case st.Again:
		return 0
	}
	return max(r.To, a.doc.Told()) // nobody tells of a thing once, but for reminders
}

// submitDue hands to the lanes every try that is due, and returns when the next one is.
func (a *actor) submitDue(now time.Time) time.Time {
	var next time.Time
	for name, r := range a.doc.Reach {
		if !r.Active || a.inLane[name] {
			continue
		}
		if now.Before(r.TryAt) {
			next = earlier(next, r.TryAt)
			continue
		}
		a.inLane[name] = true
		a.s.lanes.submit(a.job(name, r, now))
	}
	return next
}

// job is one try of the message under way on a channel.
func (a *actor) job(name string, r *escalation.Reach, now time.Time) *job {
	covered := slices.Clone(a.between(r.From, r.To))
	if len(covered) == 0 {
		covered = []member{{a.doc.FirstRevision, a.doc.First}}
	}
	j := &job{a: a, channel: name, number: r.Message, try: r.Tries + 1, step: r.Step, to: r.To, members: covered,
		tellBy: covered[0].TellBy(),
		policy: a.doc.Policy.Name, action: channel.Trigger, first: r.To > a.doc.Told(), again: r.From < r.Told}
	problems := make([]escalation.Problem, len(covered))
	for i, m := range covered {
		problems[i] = m.Problem
		j.tellBy = earlier(j.tellBy, m.TellBy())
	}
	n := escalation.Notice{Incident: a.doc, Members: problems, Again: j.again, Step: r.Step, Number: r.Message,
		Source: a.s.o.Source, Link: a.s.o.Link(a.id), Now: now}
	j.message = n.Message()
	j.message.Try = j.try
	return j
}

// result takes in what came of a try.
func (a *actor) result(o tried, now time.Time) {
	a.unrecorded++
	a.inLane[o.job.channel] = false
	r := a.doc.Reach[o.job.channel]
	a.dirty = true
	if o.job.action == channel.Resolve {
		a.resolved(o, r, now)
		return
	}
	a.doc.Heard(r, o.job.to, o.result.Told(), now)
	if r.Message != o.job.number {
		return // another message has taken its place
	}
	r.Tried(o.job.try, o.result)
	switch {
	case o.result.Told():
		r.Active = false
	case o.job.channel == escalation.Nobody:
		r.Active, a.doc.Alerted = false, max(a.doc.Alerted, o.job.to)
	case o.result.Class == outcome.ClassTerminal && a.doc.Told() >= o.job.to:
		r.Active = false
	case o.result.Class == outcome.ClassTerminal:
		r.TryAt = now.Add(fixPause).UTC()
	default:
		r.TryAt = now.Add(escalation.RetryIn(r.Failures, o.job.tellBy, now, o.result.RetryAfter, a.s.o.Random())).UTC()
	}
}

func (a *actor) takeAck() *acknowledgement {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.acked
	a.acked = nil
	return k
}

// adopt makes the acknowledgement part of the incident: nobody else is told.
func (a *actor) adopt(k acknowledgement) {
	a.doc.State, a.doc.AckedBy, a.doc.AckedAt, a.doc.AckNote = escalation.Acknowledged, k.doc.AckedBy, k.doc.AckedAt,
		k.doc.AckNote
	a.doc.EndedAt, a.dirty = k.doc.AckedAt, true
	a.doc.AckRevision = k.revision
	a.revision = max(a.revision, k.revision)
	a.detach()
	for _, r := range a.doc.Reach {
		r.Active = false
	}
}

// detach lets the next problem of the group begin an incident of its own.
func (a *actor) detach() {
	a.group.gate.Lock()
	if a.group.current == a {
		a.group.current = nil
		a.s.close(a.group)
	}
	a.group.gate.Unlock()
	a.pending() // what joined until now, for the records
}
