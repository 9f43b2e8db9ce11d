package endpointhealth

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// Run follows the bucket until ctx ends, then waits for the writes under way.
func (t *Tracker) Run(ctx context.Context) error {
	revision.Watch(ctx, t.o.JS, streams.EndpointHealthBucket, ">", t.begin,
		func(err error) { t.o.Log.Warn().Err(err).Msg(logevent.EndpointHealthWatchLost) })
	t.work.Wait()
	return nil
}

// begin returns what takes the entries of one watch.
func (t *Tracker) begin(jetstream.KeyValue) func(jetstream.KeyValueEntry) {
	seen, initial := map[string]bool{}, true
	return func(e jetstream.KeyValueEntry) {
		if e == nil {
			initial = false
			t.dropUnseen(seen)
			return
		}
		if initial && e.Operation() == jetstream.KeyValuePut {
			seen[e.Key()] = true
		}
		t.apply(e)
	}
}

// apply takes over what somebody wrote, ourselves included.
func (t *Tracker) apply(e jetstream.KeyValueEntry) {
	id := e.Key()
	t.mu.Lock()
	s := t.failing[id]
	if s != nil {
		s.heard = max(s.heard, e.Revision())
	}
	if e.Operation() != jetstream.KeyValuePut {
		// It succeeded, somewhere: what failed before does not count any more.
		if s != nil && s.revision < e.Revision() {
			s.failures, s.stored, s.revision = 0, entry{}, 0
			if !s.busy && s.disabled == 0 {
				delete(t.failing, id)
			}
		}
		t.mu.Unlock()
		return
	}
	var have entry
	if err := json.Unmarshal(e.Value(), &have); err != nil {
		t.mu.Unlock()
		t.o.Log.Error().Err(err).Str("endpoint_id", id).Msg(logevent.EndpointHealthUnreadable)
		return
	}
	if s == nil {
		s = &state{}
		t.failing[id] = s
	}
	if s.revision < e.Revision() {
		s.stored, s.revision, s.wrote = have, e.Revision(), t.o.Now()
	}
	t.mu.Unlock()
	if at, ok := t.succeeded.Load(id); ok && at.(*atomic.Int64).Load() > have.LastFailureAt.UnixNano() {
		t.clear(id, s) // it succeeded here before we heard of the failure
	}
}

// dropUnseen forgets what was removed while nobody watched.
func (t *Tracker) dropUnseen(seen map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.failing {
		if s.revision > 0 && !seen[id] && !s.busy {
			delete(t.failing, id)
		}
	}
}
