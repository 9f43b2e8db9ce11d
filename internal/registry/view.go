package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/streams"
)

// View is the registry as one stage sees it, kept up to date by Run. Reading it
// takes no request. Safe for concurrent use.
type View struct {
	js         jetstream.JetStream
	endpoints  *revision.Follower[Endpoint]
	eventTypes *revision.Follower[EventType]
	present    atomic.Pointer[endpointState]
	rules      atomic.Pointer[eventTypeState]
	barrier    barrier
	ready      chan struct{} // closed when the first states are whole
}

// NewView makes an empty view. Run fills it.
func NewView(js jetstream.JetStream, log zerolog.Logger) *View {
	v := &View{js: js, ready: make(chan struct{})}
	v.present.Store(newEndpointState())
	v.rules.Store(newEventTypeState())
	v.endpoints = revision.NewFollower(revision.FollowerOptions[Endpoint]{JS: js, Log: log,
		Bucket:  streams.EndpointsBucket,
		Decode:  decodeShared,
		New:     func() revision.State[Endpoint] { return newEndpointState() },
		Install: func(s revision.State[Endpoint]) { v.present.Store(s.(*endpointState)) }})
	v.eventTypes = revision.NewFollower(revision.FollowerOptions[EventType]{JS: js, Log: log,
		Bucket:  streams.EventTypesBucket,
		Decode:  EventTypes().DecodeAt,
		New:     func() revision.State[EventType] { return newEventTypeState() },
		Install: func(s revision.State[EventType]) { v.rules.Store(s.(*eventTypeState)) }})
	v.barrier = newBarrier(v.reach)
	return v
}

// decodeShared reads a revision that all who look at the view share.
func decodeShared(key string, b []byte) (Endpoint, error) {
	e, err := Endpoints().DecodeAt(key, b)
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

// Note says which entries of the registry cannot be read, for people; "": none.
func (v *View) Note() string {
	all := v.Unreadable()
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("the newest revision of %s of the registry cannot be read, such as %s; the one before it "+
		"stands: waybill doctor",
		text.Count(len(all), "entry", "entries"), all[0])
}

// Unreadable are the entries, as bucket/key, whose newest revision cannot be read.
func (v *View) Unreadable() []string {
	return append(v.endpoints.Unreadable(), v.eventTypes.Unreadable()...)
}

// Get returns the newest revision that has been seen of an endpoint.
func (v *View) Get(id string) (*Endpoint, bool) {
	e, ok := v.present.Load().byID.Load(id)
	if !ok {
		return nil, false
	}
	return e.(*Endpoint), true
}

// Current is Get, but for the time when the server was away and changes may
// have been missed: then it asks.
func (v *View) Current(ctx context.Context, id string) (*Endpoint, bool, error) {
	if !v.endpoints.Live() || !v.eventTypes.Live() {
		if err := v.Fresh(ctx); err != nil {
			return nil, false, err
		}
	}
	e, ok := v.Get(id)
	return e, ok, nil
}

// Enabled counts the endpoints that can be owed something.
func (v *View) Enabled() int { return int(v.present.Load().enabled.Load()) }

// Fifo are the endpoints that keep order, deleted ones too, in order of id. The
// result is shared: it MUST NOT be changed.
func (v *View) Fifo() []*Endpoint { return *v.present.Load().fifo.Load() }

// Match returns the enabled endpoints of a tenant that subscribe to a type, in
// order of id. The result is shared: it MUST NOT be changed.
func (v *View) Match(tenant, eventType string) []*Endpoint {
	return v.present.Load().enabledOf.match(tenant, eventType)
}

// EventTypes are what is set for a tenant's event type, what wins first. The
// result is shared: it MUST NOT be changed.
func (v *View) EventTypes(tenant, eventType string) []*EventType {
	return v.rules.Load().byTenant.match(tenant, eventType)
}

// All returns the newest revisions that have been seen, in no order.
func (v *View) All() []*Endpoint {
	var out []*Endpoint
	v.present.Load().byID.Range(func(_, e any) bool { out = append(out, e.(*Endpoint)); return true })
	return out
}

// Fresh returns once the view includes every change that was stored before the
// call: an endpoint whose creation was answered is owed the next event.
// Concurrent calls share their requests to the server.
func (v *View) Fresh(ctx context.Context) error { return v.barrier.wait(ctx) }

func (v *View) reach(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return reach(ctx, v.js, streams.EndpointsStream, v.endpoints.Reach) })
	g.Go(func() error { return reach(ctx, v.js, streams.EventTypesStream, v.eventTypes.Reach) })
	return g.Wait()
}

func reach(ctx context.Context, js jetstream.JetStream, stream string, to func(context.Context, uint64) error) error {
	s, err := js.Stream(ctx, stream)
	if err == nil {
		err = to(ctx, s.CachedInfo().State.LastSeq)
	}
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	return nil
}

// Run watches the buckets until ctx ends, opening a watch again whenever it ends.
func (v *View) Run(ctx context.Context) error {
	g := new(errgroup.Group)
	g.Go(func() error { return v.endpoints.Run(ctx) })
	g.Go(func() error { return v.eventTypes.Run(ctx) })
	g.Go(func() error {
		for _, ready := range []<-chan struct{}{v.endpoints.Ready(), v.eventTypes.Ready()} {
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

// endpointState is what the bucket of endpoints holds.
type endpointState struct {
	byID      sync.Map // id → *Endpoint
	enabledOf index[Endpoint]
	enabled   atomic.Int64
	fifo      atomic.Pointer[[]*Endpoint]
	keepOrder map[string]*Endpoint // what fifo is made of
}

func newEndpointState() *endpointState {
	s := &endpointState{keepOrder: map[string]*Endpoint{}}
	s.enabledOf.compare = func(a, b *Endpoint) int { return strings.Compare(a.ID, b.ID) }
	s.enabledOf.matches = func(e *Endpoint, eventType string) bool { return e.Subscribes(eventType) }
	s.fifo.Store(new([]*Endpoint))
	return s
}

// Apply implements revision.State.
func (s *endpointState) Apply(key string, was, is *Endpoint) {
	if is == nil {
		s.byID.Delete(key)
	} else {
		s.byID.Store(key, is)
	}
	before, after := enabled(was), enabled(is)
	switch {
	case before != nil && after != nil && before.Tenant != after.Tenant:
		s.enabledOf.put(before.Tenant, before, nil)
		s.enabledOf.put(after.Tenant, nil, after)
	case after != nil:
		s.enabledOf.put(after.Tenant, before, after)
	case before != nil:
		s.enabledOf.put(before.Tenant, before, nil)
	}
	s.enabled.Add(count(after) - count(before))
	if was != nil && was.Ordering == FIFO || is != nil && is.Ordering == FIFO {
		delete(s.keepOrder, key)
		if is != nil && is.Ordering == FIFO {
			s.keepOrder[key] = is
		}
		fifo := make([]*Endpoint, 0, len(s.keepOrder))
		for _, id := range slices.Sorted(maps.Keys(s.keepOrder)) {
			fifo = append(fifo, s.keepOrder[id])
		}
		s.fifo.Store(&fifo)
	}
}

func enabled(e *Endpoint) *Endpoint {
	if e == nil || e.State != Enabled {
		return nil
	}
	return e
}

func count(e *Endpoint) int64 {
	if e == nil {
		return 0
	}
	return 1
}

// eventTypeState is what the bucket of event types holds.
type eventTypeState struct{ byTenant index[EventType] }

func newEventTypeState() *eventTypeState {
	s := &eventTypeState{}
	s.byTenant.compare = func(a, b *EventType) int { return subscription.Compare(a.Pattern, b.Pattern) }
	s.byTenant.matches = func(e *EventType, eventType string) bool { return subscription.Match(e.Pattern, eventType) }
	return s
}

// Apply implements revision.State. The tenant is part of the key.
func (s *eventTypeState) Apply(_ string, was, is *EventType) {
	before, after := inForce(was), inForce(is)
	switch {
	case after != nil:
		s.byTenant.put(after.Tenant, before, after)
	case before != nil:
		s.byTenant.put(before.Tenant, before, nil)
	}
}

func inForce(e *EventType) *EventType {
	if e == nil || e.Deleted {
		return nil
	}
	return e
}
