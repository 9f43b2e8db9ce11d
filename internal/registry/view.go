package registry

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/streams"
)

// View is the registry as one stage sees it, kept up to date by Run. Reading it
// takes no lock and no request. Safe for concurrent use.
type View struct {
	endpoints  *watched[Endpoint]
	eventTypes *watched[EventType]
	snapshot   atomic.Pointer[snapshot]
	rules      atomic.Pointer[typeRules]
	barrier    barrier
	ready      chan struct{} // closed when the first snapshots are whole
}

// snapshot is immutable, but for the cache of matches.
type snapshot struct {
	byID     map[string]*Endpoint
	byTenant map[string][]*Endpoint // in order of id
	enabled  int
	fifo     []*Endpoint
	matches  sync.Map     // tenant + " " + type → []*Endpoint
	cached   atomic.Int64 // entries of matches
}

// maxCachedMatches bounds the cache: event types come from producers.
const maxCachedMatches = 10_000

// NewView makes an empty view. Run fills it.
func NewView(js jetstream.JetStream, log zerolog.Logger) *View {
	v := &View{ready: make(chan struct{})}
	v.endpoints = newWatched(js, log, streams.EndpointsBucket, streams.EndpointsStream, decodeShared,
		func(all map[string]*Endpoint) { v.snapshot.Store(newSnapshot(all)) })
	v.eventTypes = newWatched(js, log, streams.EventTypesBucket, streams.EventTypesStream, DecodeEventType,
		func(all map[string]*EventType) { v.rules.Store(newTypeRules(all)) })
	v.snapshot.Store(newSnapshot(map[string]*Endpoint{}))
	v.rules.Store(newTypeRules(nil))
	v.barrier.reach = v.reach
	return v
}

// decodeShared reads a revision that all who look at the view share.
func decodeShared(b []byte) (Endpoint, error) {
	e, err := Decode(b)
	e.opened = new(atomic.Pointer[Opened])
	return e, err
}

// Ready is closed once the view holds everything. Nobody MUST match before.
func (v *View) Ready() <-chan struct{} { return v.ready }

// Check is a readiness check: it fails until the view holds everything.
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
	if !v.endpoints.live.Load() || !v.eventTypes.live.Load() {
		if err := v.Fresh(ctx); err != nil {
			return nil, false, err
		}
	}
	e, ok := v.Get(id)
	return e, ok, nil
}

// Enabled counts the endpoints that can be owed something.
func (v *View) Enabled() int { return v.snapshot.Load().enabled }

// Fifo are the endpoints that keep order, deleted ones too. The result is
// shared: it MUST NOT be changed.
func (v *View) Fifo() []*Endpoint { return v.snapshot.Load().fifo }

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
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return v.endpoints.reach(ctx) })
	g.Go(func() error { return v.eventTypes.reach(ctx) })
	return g.Wait()
}

// Run watches the buckets until ctx ends, opening a watch again whenever it ends.
func (v *View) Run(ctx context.Context) error {
	g := new(errgroup.Group)
	g.Go(func() error { return v.endpoints.run(ctx) })
	g.Go(func() error { return v.eventTypes.run(ctx) })
	g.Go(func() error {
		for _, ready := range []chan struct{}{v.endpoints.ready, v.eventTypes.ready} {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
		}
		close(v.ready)
		return nil
	})
	return g.Wait()
}

func newSnapshot(byID map[string]*Endpoint) *snapshot {
	s := &snapshot{byID: byID, byTenant: map[string][]*Endpoint{}}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		e := byID[id]
		s.byTenant[e.Tenant] = append(s.byTenant[e.Tenant], e)
		if e.State == Enabled {
			s.enabled++
		}
		if e.Ordering == FIFO {
			s.fifo = append(s.fifo, e)
		}
	}
	return s
}
