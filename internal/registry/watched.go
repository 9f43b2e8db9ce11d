package registry

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/revision"
)

// rewatchPause is the pause before a watch that ended is opened again.
const rewatchPause = 250 * time.Millisecond

// watched is a bucket as one stage sees it: its values, decoded, kept up to
// date by run.
type watched[T any] struct {
	js             jetstream.JetStream
	log            zerolog.Logger
	bucket, stream string
	decode         func([]byte) (T, error)
	// install is given every new state, whole: the map is its own.
	install func(map[string]*T)
	live    atomic.Bool // the watch is open and has caught up

	mu      sync.Mutex    // guards what follows; held by the watch for each change
	applied uint64        // the bucket's sequence that was installed last
	moved   chan struct{} // closed and replaced when applied moves
	ready   chan struct{} // closed when the first state was installed
}

func newWatched[T any](js jetstream.JetStream, log zerolog.Logger, bucket, stream string, decode func([]byte) (T, error), install func(map[string]*T)) *watched[T] {
	return &watched[T]{js: js, log: log, bucket: bucket, stream: stream, decode: decode, install: install,
		moved: make(chan struct{}), ready: make(chan struct{})}
}

// reach returns once everything was installed that is stored when it is called.
func (w *watched[T]) reach(ctx context.Context) error {
	s, err := w.js.Stream(ctx, w.stream)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	want := s.CachedInfo().State.LastSeq
	for {
		w.mu.Lock()
		applied, moved := w.applied, w.moved
		w.mu.Unlock()
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

// run watches the bucket until ctx ends, opening the watch again whenever it ends.
func (w *watched[T]) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.watch(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn().Err(err).Str("bucket", w.bucket).Msg("registry.watch_lost")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
	return nil
}

func (w *watched[T]) watch(ctx context.Context) error {
	defer w.live.Store(false)
	// The first values come in one snapshot: until they are whole, the old one stays.
	whole, initial := map[string]*T{}, true
	var seq uint64
	return revision.Watch(ctx, w.js, w.bucket, func(entry jetstream.KeyValueEntry) {
		if entry == nil {
			initial = false
			w.advance(whole, seq)
			w.live.Store(true)
			w.markReady()
			return
		}
		seq = max(seq, entry.Revision())
		w.apply(whole, entry)
		if !initial {
			w.advance(whole, seq)
		}
	})
}

func (w *watched[T]) apply(into map[string]*T, entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		delete(into, entry.Key())
		return
	}
	value, err := w.decode(entry.Value())
	if err != nil {
		// Keeping the revision before is safer than forgetting an endpoint that is owed deliveries.
		w.log.Error().Err(err).Str("bucket", w.bucket).Str("key", entry.Key()).Msg("registry.unreadable")
		return
	}
	into[entry.Key()] = &value
}

func (w *watched[T]) advance(values map[string]*T, seq uint64) {
	w.install(maps.Clone(values))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.applied = max(w.applied, seq)
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *watched[T]) markReady() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.ready:
	default:
		close(w.ready)
	}
}
