package revision

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// View is the bucket as one process sees it, kept up to date by Run. Reading it
// takes no request. Safe for concurrent use.
type View[T any] struct {
	*Follower[T]
	kind Kind[T]
	all  atomic.Pointer[present[T]]
}

// NewView makes an empty view. Run fills it.
func NewView[T any](js jetstream.JetStream, kind Kind[T], log zerolog.Logger) *View[T] {
	v := &View[T]{kind: kind}
	v.all.Store(&present[T]{kind: kind})
	v.Follower = NewFollower(FollowerOptions[T]{JS: js, Log: log, Bucket: kind.Bucket, Decode: kind.DecodeAt,
		New:     func() State[T] { return &present[T]{kind: kind} },
		Install: func(s State[T]) { v.all.Store(s.(*present[T])) }})
	return v
}

// Get returns the newest revision that has been seen and is not deleted.
func (v *View[T]) Get(key string) (T, bool) {
	if t, ok := v.all.Load().byKey.Load(key); ok {
		return *t.(*T), true
	}
	var none T
	return none, false
}

// All returns everything that is not deleted, in order of the keys. The result
// is shared: it MUST NOT be changed.
func (v *View[T]) All() []T { return v.all.Load().list() }

// present is what a view holds that is not deleted.
type present[T any] struct {
	kind  Kind[T]
	byKey sync.Map // key → *T

	mu     sync.Mutex // guards what follows
	listed []T        // nil: it has changed since it was made
}

// Apply implements State.
func (p *present[T]) Apply(key string, _, is *T) {
	if is == nil || p.kind.Deleted(is) {
		p.byKey.Delete(key)
	} else {
		p.byKey.Store(key, is)
	}
	p.mu.Lock()
	p.listed = nil
	p.mu.Unlock()
}

// list is made when it is asked for: of many changes, once.
func (p *present[T]) list() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listed == nil {
		type entry struct {
			key string
			t   *T
		}
		var entries []entry
		p.byKey.Range(func(key, t any) bool { entries = append(entries, entry{key.(string), t.(*T)}); return true })
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
		p.listed = make([]T, 0, len(entries))
		for _, e := range entries {
			p.listed = append(p.listed, *e.t)
		}
	}
	return p.listed
}
