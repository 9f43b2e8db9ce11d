package revision

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// newestBound bounds the search for the last revision that can be read.
const newestBound = 5 * time.Second

// State is what a Follower makes of a bucket. Apply changes one key: was and is
// are its values before and after, nil for none. A change MUST cost what it
// changes, however much the bucket holds: many come at once. Apply is called by
// one goroutine; others read the state meanwhile.
type State[T any] interface {
	Apply(key string, was, is *T)
}

// FollowerOptions are all required.
type FollowerOptions[T any] struct {
	JS     jetstream.JetStream
	Log    zerolog.Logger
	Bucket string
	Decode func(key string, b []byte) (T, error)
	// New makes an empty state. Install makes a state that is whole the one that
	// is read; until then the one before stays. What is installed goes on changing.
	New     func() State[T]
	Install func(State[T])
}

// Follower keeps a state level with a bucket.
type Follower[T any] struct {
	o    FollowerOptions[T]
	live atomic.Bool

	mu      sync.Mutex    // guards what follows
	applied uint64        // the bucket's sequence that was applied last
	moved   chan struct{} // closed and replaced when applied moves
	ready   chan struct{} // closed when the first state was installed
	unread  map[string]struct{}

	values map[string]*T // what the state holds; the watch's own
}

// NewFollower makes one that knows nothing yet. Run fills it.
func NewFollower[T any](o FollowerOptions[T]) *Follower[T] {
	return &Follower[T]{o: o, moved: make(chan struct{}), ready: make(chan struct{}), unread: map[string]struct{}{}}
}

// Ready is closed once the first state is whole.
func (f *Follower[T]) Ready() <-chan struct{} { return f.ready }

// Live says that the watch is open and has caught up.
func (f *Follower[T]) Live() bool { return f.live.Load() }

// Unreadable are the entries, as bucket/key, whose newest revision cannot be
// read, in order. The last revision that can be read stands.
func (f *Follower[T]) Unreadable() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(f.unread)) {
		out = append(out, f.o.Bucket+"/"+key)
	}
	return out
}

// Reach returns once everything was applied up to a sequence of the bucket's stream.
func (f *Follower[T]) Reach(ctx context.Context, want uint64) error {
	for {
		f.mu.Lock()
		applied, moved := f.applied, f.moved
		f.mu.Unlock()
		if applied >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("bucket %s was read up to %d of %d: %w", f.o.Bucket, applied, want, ctx.Err())
		}
	}
}

// Run watches the bucket until ctx ends, opening the watch again whenever it ends.
func (f *Follower[T]) Run(ctx context.Context) error {
	defer f.live.Store(false)
	begin := func(kv jetstream.KeyValue) func(jetstream.KeyValueEntry) { return f.begin(ctx, kv) }
	Watch(ctx, f.o.JS, f.o.Bucket, ">", begin, func(err error) {
		f.live.Store(false)
		f.o.Log.Warn().Err(err).Str("bucket", f.o.Bucket).Msg(logevent.RegistryWatchLost)
	})
	return nil
}

// begin returns what takes the entries of one watch.
func (f *Follower[T]) begin(ctx context.Context, kv jetstream.KeyValue) func(jetstream.KeyValueEntry) {
	// The first values come in one snapshot: until they are whole, the old ones stay.
	before, values, state := f.values, map[string]*T{}, f.o.New()
	unread := map[string]struct{}{}
	initial, seq := true, uint64(0)
	return func(entry jetstream.KeyValueEntry) {
		if entry == nil {
			initial = false
			f.values = values
			f.o.Install(state)
			f.mu.Lock()
			f.unread = unread
			f.mu.Unlock()
			f.advance(seq)
			f.live.Store(true)
			return
		}
		seq = max(seq, entry.Revision())
		key, was := entry.Key(), values[entry.Key()]
		is, readable := f.read(ctx, kv, entry, first(was, before[key]))
		if is == nil {
			delete(values, key)
		} else {
			values[key] = is
		}
		state.Apply(key, was, is)
		f.mu.Lock()
		if delete(unread, key); !readable {
			unread[key] = struct{}{}
		}
		f.mu.Unlock()
		if !initial {
			f.advance(seq)
		}
	}
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// read decodes an entry. Where that fails, the last revision that can be read
// stands: safer than forgetting an endpoint that is owed deliveries, or whom to
// tell. have is what was read of the key before.
func (f *Follower[T]) read(ctx context.Context, kv jetstream.KeyValue, entry jetstream.KeyValueEntry, have *T) (is *T,
	readable bool) {
	if entry.Operation() != jetstream.KeyValuePut {
		return nil, true
	}
	value, err := f.o.Decode(entry.Key(), entry.Value())
	if err == nil {
		return &value, true
	}
	f.o.Log.Error().Err(err).Str("bucket", f.o.Bucket).Str("key", entry.Key()).Msg(logevent.RegistryUnreadable)
	if have == nil {
		bounded, cancel := context.WithTimeout(ctx, newestBound)
		defer cancel()
		if value, _, found := Newest(bounded, kv, entry.Key(), f.o.Decode); found == nil {
			have = &value
		}
	}
	return have, false
}

func (f *Follower[T]) advance(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = max(f.applied, seq)
	close(f.moved)
	f.moved = make(chan struct{})
	select {
	case <-f.ready:
	default:
		close(f.ready)
	}
}

// Newest reads the last revision of a key that decode takes, and the sequence of
// its last revision whether that can be read or not: what somebody wrote over a
// thing that is none hides nothing, and the next revision can be stored.
func Newest[T any](ctx context.Context, kv jetstream.KeyValue, key string, decode func(string, []byte) (T, error)) (v T,
	at uint64, err error) {
	all, err := kv.History(ctx, key)
	if err != nil {
		return v, 0, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		at = max(at, all[i].Revision())
		if all[i].Operation() != jetstream.KeyValuePut {
			break // what was before it was removed
		}
		read, failed := decode(key, all[i].Value())
		if failed == nil {
			return read, at, nil
		}
		if err == nil {
			err = failed // of the newest
		}
	}
	if err == nil {
		err = jetstream.ErrKeyNotFound
	}
	return v, at, err
}
