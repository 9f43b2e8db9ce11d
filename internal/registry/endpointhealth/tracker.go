// Package endpointhealth knows since when an endpoint has had no success, and
// disables one for which that has lasted too long. What it knows is in a small
// key-value bucket that only endpoints which fail are in: dispatchers share it,
// and it outlasts them. It costs healthy endpoints nothing, and those that fail
// one write every few minutes.
package endpointhealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

const (
	defaultEvery = 5 * time.Minute
	// minFailures keeps a few attempts, far apart, from looking like an outage.
	minFailures = 5
	// requestBound keeps a request to a server that is away from piling up.
	requestBound = 10 * time.Second
)

// Options of New. All are required unless marked Optional.
type Options struct {
	JS    jetstream.JetStream
	Store *registry.Store
	Log   zerolog.Logger
	Every time.Duration    // Optional: least time between two writes for one endpoint. Default 5 min.
	Now   func() time.Time // Optional: time.Now
}

// Tracker is safe for concurrent use.
type Tracker struct {
	o  Options
	kv jetstream.KeyValue

	succeeded sync.Map // endpoint → *atomic.Int64, when it succeeded here last

	mu      sync.RWMutex
	failing map[string]*state
	work    sync.WaitGroup // writes under way
}

// entry is what the bucket holds of an endpoint that fails.
type entry struct {
	FirstFailureAt time.Time `json:"first_failure_at"`
	LastFailureAt  time.Time `json:"last_failure_at"`
	Failures       int       `json:"failures"` // about: those of a process that died are missing
}

// state of an endpoint that fails, guarded by Tracker.mu.
type state struct {
	stored   entry // zero: the bucket has none
	revision uint64
	heard    uint64    // the latest revision that the watch told: an answer to a write may come after what followed it
	since    time.Time // of the failures below
	last     time.Time
	failures int // not in stored yet
	wrote    time.Time
	busy     bool   // a request for it is under way
	disabled uint64 // the endpoint's revision that was taken out of service: attempts under way at it say nothing new
}

// New binds to the bucket.
func New(ctx context.Context, o Options) (*Tracker, error) {
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	kv, err := streams.Bucket(ctx, o.JS, streams.EndpointHealthBucket)
	if err != nil {
		return nil, err
	}
	return &Tracker{o: o, kv: kv, failing: map[string]*state{}}, nil
}

// Observe takes note of an attempt's end. It does not wait for anything.
func (t *Tracker) Observe(e *registry.Endpoint, success bool) {
	if success {
		t.success(e.ID)
		return
	}
	now := t.o.Now()
	t.mu.Lock()
	s := t.failing[e.ID]
	if s == nil {
		s = &state{}
		t.failing[e.ID] = s
	}
	if e.Revision <= s.disabled {
		t.mu.Unlock()
		return
	}
	s.forgetBefore(e.EnabledAt)
	if s.failures == 0 {
		s.since = now
	}
	s.failures++
	s.last = now
	since, failures := s.sum()
	over := e.DisableAfter > 0 && failures >= minFailures && now.Sub(since) >= e.DisableAfter
	due := s.stored.Failures == 0 || now.Sub(s.wrote) >= t.o.Every
	if s.busy || !over && !due {
		t.mu.Unlock()
		return
	}
	s.busy = true
	t.mu.Unlock()
	t.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestBound)
		defer cancel()
		t.write(ctx, e.ID, s)
		if over {
			t.disable(ctx, e, s)
		}
		t.mu.Lock()
		s.busy = false
		t.mu.Unlock()
	})
}

// forgetBefore drops failures from before somebody enabled the endpoint: it has
// its whole time again.
func (s *state) forgetBefore(enabled time.Time) {
	if s.failures > 0 && s.since.Before(enabled) {
		s.failures = 0
	}
	if s.stored.Failures > 0 && s.stored.FirstFailureAt.Before(enabled) {
		s.stored = entry{} // written over at the next write, under its revision
	}
}

// sum is since when there has been no success, and how many failures since.
func (s *state) sum() (time.Time, int) {
	since, n := s.since, s.failures+s.stored.Failures
	if s.stored.Failures > 0 && (s.failures == 0 || s.stored.FirstFailureAt.Before(since)) {
		since = s.stored.FirstFailureAt
	}
	return since, n
}

// success is on the path of every attempt that is delivered: without failures
// it reads, and writes one word.
func (t *Tracker) success(id string) {
	at, ok := t.succeeded.Load(id)
	if !ok {
		at, _ = t.succeeded.LoadOrStore(id, new(atomic.Int64))
	}
	at.(*atomic.Int64).Store(t.o.Now().UnixNano())
	t.mu.RLock()
	s := t.failing[id]
	t.mu.RUnlock()
	if s != nil {
		t.clear(id, s)
	}
}

// clear forgets an endpoint's failures, here and in the bucket.
func (t *Tracker) clear(id string, s *state) {
	t.mu.Lock()
	s.failures = 0
	revision := s.revision
	if revision == 0 {
		delete(t.failing, id)
	}
	if revision == 0 || s.busy {
		t.mu.Unlock()
		return // of a write under way the watch hears, and then it is cleared
	}
	s.busy = true
	t.mu.Unlock()
	t.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestBound)
		defer cancel()
		err := t.kv.Delete(ctx, id, jetstream.LastRevision(revision))
		t.mu.Lock()
		defer t.mu.Unlock()
		s.busy = false
		if err == nil && s.revision == revision {
			s.stored, s.revision = entry{}, 0
		} // else the next success repeats it
	})
}

// write brings the bucket up to date. When somebody else wrote first, the watch
// tells, and the next failure writes on top of that.
func (t *Tracker) write(ctx context.Context, id string, s *state) {
	t.mu.Lock()
	since, n := s.sum()
	add, revision := s.failures, s.revision
	next := entry{FirstFailureAt: since.UTC(), LastFailureAt: s.last.UTC(), Failures: n}
	t.mu.Unlock()
	b, err := json.Marshal(next)
	if err == nil && revision == 0 {
		revision, err = t.kv.Create(ctx, id, b)
	} else if err == nil {
		revision, err = t.kv.Update(ctx, id, b, revision)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.wrote = t.o.Now()
	if err != nil {
		if !errors.Is(err, jetstream.ErrKeyExists) {
			t.o.Log.Debug().Err(err).Str("endpoint_id", id).Msg(logevent.EndpointHealthNotWritten)
		}
		return
	}
	s.failures = max(0, s.failures-add)
	if s.failures > 0 {
		s.since = s.last
	}
	if revision > max(s.revision, s.heard) {
		s.stored, s.revision = next, revision
	}
}

// disable takes an endpoint out of service, unless somebody changed it, or it
// succeeded elsewhere, in the meantime.
func (t *Tracker) disable(ctx context.Context, e *registry.Endpoint, s *state) {
	now, err := t.kv.Get(ctx, e.ID)
	if err != nil {
		return // it succeeded elsewhere; or the next failure asks again
	}
	var have entry
	if json.Unmarshal(now.Value(), &have) != nil || have.FirstFailureAt.Before(e.EnabledAt) ||
		t.o.Now().Sub(have.FirstFailureAt) < e.DisableAfter {
		return
	}
	detail := fmt.Sprintf("no success since %s, %s failed", have.FirstFailureAt.UTC().Format(time.RFC3339),
		text.Count(have.Failures, "attempt", "attempts"))
	err = t.o.Store.DisableUnchanged(ctx, e, outcome.ReasonSustainedFailure, detail)
	if err != nil {
		if !errors.Is(err, registry.ErrConflict) && !errors.Is(err, registry.ErrNotFound) {
			t.o.Log.Warn().Err(err).Str("endpoint_id", e.ID).Msg(logevent.EndpointNotDisabled)
		}
		return
	}
	t.o.Log.Warn().Str("tenant", e.Tenant).Str("endpoint_id", e.ID).Str("reason",
		string(outcome.ReasonSustainedFailure)).Str("detail", detail).Msg(logevent.EndpointDisabled)
	t.mu.Lock()
	s.disabled = e.Revision
	t.mu.Unlock()
	if err := t.kv.Delete(ctx, e.ID, jetstream.LastRevision(now.Revision())); err != nil {
		t.o.Log.Debug().Err(err).Str("endpoint_id", e.ID).Msg(logevent.EndpointHealthNotCleared)
	}
}
