package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/streams"
)

// rewatchPause is the pause before a watch that ended is opened again.
const rewatchPause = 250 * time.Millisecond

// View is the registry as one stage sees it, kept up to date by Run. Reading it
// takes no lock and no request. Safe for concurrent use.
type View struct {
	js       jetstream.JetStream
	log      zerolog.Logger
	snapshot atomic.Pointer[snapshot]
	barrier  barrier
	live     atomic.Bool // the watch is open and has caught up

	mu      sync.Mutex    // guards what follows; held by the watch for each change
	applied uint64        // the bucket's sequence that the snapshot includes
	moved   chan struct{} // closed and replaced when applied moves
	ready   chan struct{} // closed when the first snapshot is whole
}

// snapshot is immutable, but for the cache of matches.
type snapshot struct {
	byID     map[string]*Endpoint
	byTenant map[string][]*Endpoint // in order of id
	enabled  int
	matches  sync.Map     // tenant + " " + type → []*Endpoint
	cached   atomic.Int64 // entries of matches
}

// maxCachedMatches bounds the cache: event types come from producers.
const maxCachedMatches = 10_000

// NewView makes an empty view. Run fills it.
func NewView(js jetstream.JetStream, log zerolog.Logger) *View {
	v := &View{js: js, log: log, moved: make(chan struct{}), ready: make(chan struct{})}
	v.snapshot.Store(newSnapshot(map[string]*Endpoint{}))
	v.barrier.reach = v.reach
	return v
}

// Ready is closed once the view holds every endpoint. Nobody MUST match before.
func (v *View) Ready() <-chan struct{} { return v.ready }

// Check is a readiness check: it fails until the view holds every endpoint.
func (v *View) Check(context.Context) error {
	select {
	case <-v.ready:
		return nil
	default:
		return errors.New("the endpoints have not been read yet")
	}
}

// Get returns the newest revision that has been seen of an endpoint.
func (v *View) Get(id string) (*Endpoint, bool) {
	e, ok := v.snapshot.Load().byID[id]
	return e, ok
}

// Current is Get, but for the time when the server was away and changes may
// have been missed: then it asks.
func (v *View) Current(ctx context.Context, id string) (*Endpoint, bool, error) {
	if !v.live.Load() {
		if err := v.Fresh(ctx); err != nil {
			return nil, false, err
		}
	}
	e, ok := v.Get(id)
	return e, ok, nil
}

// Enabled counts the endpoints that can be owed something.
func (v *View) Enabled() int { return v.snapshot.Load().enabled }

// Match returns the enabled endpoints of a tenant that subscribe to a type, in
// order of id. The result is shared: it MUST NOT be changed.
func (v *View) Match(tenant, eventType string) []*Endpoint {
	s := v.snapshot.Load()
	key := tenant + " " + eventType
	if m, ok := s.matches.Load(key); ok {
		return m.([]*Endpoint)
	}
	var out []*Endpoint
	for _, e := range s.byTenant[tenant] {
		if e.Subscribes(eventType) {
			out = append(out, e)
		}
	}
	if s.cached.Add(1) <= maxCachedMatches {
		s.matches.Store(key, out)
	}
	return out
}

// All returns the newest revisions that have been seen, in no order.
func (v *View) All() []*Endpoint {
	return slices.Collect(maps.Values(v.snapshot.Load().byID))
}

// Fresh returns once the view includes every change that was stored before the
// call: an endpoint whose creation was answered is owed the next event.
// Concurrent calls share their requests to the server.
func (v *View) Fresh(ctx context.Context) error { return v.barrier.wait(ctx) }

func (v *View) reach(ctx context.Context) error {
	s, err := v.js.Stream(ctx, streams.EndpointsStream)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	want := s.CachedInfo().State.LastSeq
	for {
		v.mu.Lock()
		applied, moved := v.applied, v.moved
		v.mu.Unlock()
		if applied >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("registry: %w", ctx.Err())
		}
	}
}

// Run watches the bucket until ctx ends, opening the watch again whenever it ends.
func (v *View) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := v.watch(ctx); err != nil && ctx.Err() == nil {
			v.log.Warn().Err(err).Msg("registry.watch_lost")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
	return nil
}

func (v *View) watch(ctx context.Context) error {
	kv, err := v.js.KeyValue(ctx, streams.EndpointsBucket)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	// A server that restarted has forgotten the watch. The client would notice
	// after missed heartbeats, many seconds later.
	away := v.js.Conn().StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer v.live.Store(false)
	defer v.js.Conn().RemoveStatusListener(away)
	// The first values come in one snapshot: until they are whole, the old one stays.
	whole, initial := map[string]*Endpoint{}, true
	var seq uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-away:
			return errors.New("the server was away")
		case entry, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("the watch ended")
			case entry == nil:
				initial = false
				v.install(whole, seq)
				v.live.Store(true)
				v.markReady()
			default:
				seq = max(seq, entry.Revision())
				v.apply(whole, entry)
				if !initial {
					v.install(whole, seq)
				}
			}
		}
	}
}

func (v *View) apply(into map[string]*Endpoint, entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		delete(into, entry.Key())
		return
	}
	e, err := Decode(entry.Value())
	if err != nil {
		// Keeping the revision before is safer than forgetting an endpoint that is owed deliveries.
		v.log.Error().Err(err).Str("endpoint", entry.Key()).Msg("registry.unreadable")
		return
	}
	e.opened = new(atomic.Pointer[Opened])
	into[entry.Key()] = &e
}

func (v *View) install(endpoints map[string]*Endpoint, seq uint64) {
	v.snapshot.Store(newSnapshot(maps.Clone(endpoints)))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.applied = max(v.applied, seq)
	close(v.moved)
	v.moved = make(chan struct{})
}

func (v *View) markReady() {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.ready:
	default:
		close(v.ready)
	}
}

func newSnapshot(byID map[string]*Endpoint) *snapshot {
	s := &snapshot{byID: byID, byTenant: map[string][]*Endpoint{}}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		e := byID[id]
		s.byTenant[e.Tenant] = append(s.byTenant[e.Tenant], e)
		if e.State == Enabled {
			s.enabled++
		}
	}
	return s
}
