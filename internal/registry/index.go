package registry

import (
	"slices"
	"sync"
	"sync/atomic"
)

// maxCached bounds what all answers hold that an index keeps for the next event
// of a type: types come from producers.
const maxCached = 1 << 20

// index answers which things of a tenant match an event type. A change costs
// what it changes, whatever the index holds, and takes from one tenant the
// answers that are kept, from the others nothing.
type index[T any] struct {
	compare func(a, b *T) int // a total order: 0 only for the same thing
	matches func(t *T, eventType string) bool

	tenants sync.Map     // tenant → *shelf[T]
	cached  atomic.Int64 // what the answers hold that are kept
	looked  atomic.Int64 // things that were compared with a type, ever
}

// shelf is what one tenant has.
type shelf[T any] struct {
	mu     sync.RWMutex // guards what follows
	things []*T         // in order
	found  map[string][]*T
	weight int64 // of found
}

// put replaces what a tenant has: was and is are the thing before and after,
// nil for none.
func (x *index[T]) put(tenant string, was, is *T) {
	if was == nil && is == nil {
		return
	}
	v, ok := x.tenants.Load(tenant)
	if !ok {
		v, _ = x.tenants.LoadOrStore(tenant, &shelf[T]{})
	}
	s := v.(*shelf[T])
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil {
		if at, ok := slices.BinarySearchFunc(s.things, was, x.compare); ok {
			s.things = slices.Delete(s.things, at, at+1)
		}
	}
	if is != nil {
		at, _ := slices.BinarySearchFunc(s.things, is, x.compare)
		s.things = slices.Insert(s.things, at, is)
	}
	x.forget(s)
}

// forget drops the answers of a shelf, which is locked.
func (x *index[T]) forget(s *shelf[T]) {
	x.cached.Add(-s.weight)
	s.found, s.weight = nil, 0
}

// match returns what matches, in order. The result is shared: it MUST NOT be
// changed.
func (x *index[T]) match(tenant, eventType string) []*T {
	v, ok := x.tenants.Load(tenant)
	if !ok {
		return nil
	}
	s := v.(*shelf[T])
	s.mu.RLock()
	out, ok := s.found[eventType]
	s.mu.RUnlock()
	if ok {
		return out
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out, ok := s.found[eventType]; ok {
		return out
	}
	for _, t := range s.things {
		if x.matches(t, eventType) {
			out = append(out, t)
		}
	}
	x.looked.Add(int64(len(s.things)))
	x.keep(s, eventType, out)
	return out
}

// keep remembers an answer of a shelf, which is locked, while there is room.
// Without room, a tenant gives up what it has kept: it hurts nobody else.
func (x *index[T]) keep(s *shelf[T], eventType string, out []*T) {
	weight := int64(len(out) + 1)
	if x.cached.Load()+weight > maxCached {
		x.forget(s)
	}
	if x.cached.Load()+weight > maxCached {
		return
	}
	if s.found == nil {
		s.found = map[string][]*T{}
	}
	s.found[eventType] = out
	s.weight += weight
	x.cached.Add(weight)
}
