package revision

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// rewatchPause is the pause before a watch that ended is opened again.
const rewatchPause = 250 * time.Millisecond

// View is the bucket as one process sees it, kept up to date by Run. Reading it
// takes no request. Safe for concurrent use.
type View[T any] struct {
	js   jetstream.JetStream
	kind Kind[T]
	log  zerolog.Logger

	all   atomic.Pointer[map[string]T] // replaced whole, never changed
	ready chan struct{}                // closed when the first snapshot is whole
	once  sync.Once
}

// NewView makes an empty view. Run fills it.
func NewView[T any](js jetstream.JetStream, kind Kind[T], log zerolog.Logger) *View[T] {
	v := &View[T]{js: js, kind: kind, log: log, ready: make(chan struct{})}
	v.all.Store(&map[string]T{})
	return v
}

// Ready is closed once the view holds everything. Nobody MUST decide before.
func (v *View[T]) Ready() <-chan struct{} { return v.ready }

// Get returns the newest revision that has been seen and is not deleted.
func (v *View[T]) Get(key string) (T, bool) {
	t, ok := (*v.all.Load())[key]
	if ok && v.kind.Meta(&t).Deleted {
		ok = false
	}
	return t, ok
}

// All returns everything that is not deleted, in order of the keys.
func (v *View[T]) All() []T { return v.kind.present(*v.all.Load()) }

// Run watches the bucket until ctx ends, opening the watch again whenever it ends.
func (v *View[T]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := v.watch(ctx); err != nil && ctx.Err() == nil {
			v.log.Warn().Err(err).Str("bucket", v.kind.Bucket).Msg("registry.watch_lost")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
	return nil
}

func (v *View[T]) watch(ctx context.Context) error {
	// The first values come in one snapshot: until they are whole, the old one stays.
	whole, initial := map[string]T{}, true
	return Watch(ctx, v.js, v.kind.Bucket, func(entry jetstream.KeyValueEntry) {
		if entry == nil {
			initial = false
		} else {
			v.apply(whole, entry)
		}
		if !initial {
			next := maps.Clone(whole)
			v.all.Store(&next)
			v.once.Do(func() { close(v.ready) })
		}
	})
}

func (v *View[T]) apply(into map[string]T, entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		delete(into, entry.Key())
		return
	}
	t, err := v.kind.Decode(entry.Value())
	if err != nil {
		// Keeping the revision before is safer than forgetting whom to tell.
		v.log.Error().Err(err).Str("bucket", v.kind.Bucket).Str("key", entry.Key()).Msg("registry.unreadable")
		return
	}
	into[entry.Key()] = t
}
