// Package revision keeps small registries in JetStream key-value buckets: each
// change of a thing is one write of one key, with who made it and why in it, so
// that a change happened whole or not at all and none can go unrecorded.
package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNotFound says that there is no such thing, or no longer.
var ErrNotFound = errors.New("there is none of that name")

// ErrExists says that the name is taken.
var ErrExists = errors.New("the name is taken")

// ErrConflict says that somebody else changed it at the same moment.
var ErrConflict = errors.New("it was changed by somebody else at the same moment; look again and repeat")

// Meta is what each revision says about itself. Things embed it.
type Meta struct {
	Revision  uint64    `json:"revision"` // 1, 2, 3 …, over deletion too
	Change    string    `json:"change"`   // created, updated, deleted
	Reason    string    `json:"reason,omitempty"`
	UpdatedBy string    `json:"updated_by"` // the actor
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`
	Deleted   bool      `json:"deleted,omitempty"`
}

// Kind says how things of one kind are kept. All fields are required.
type Kind[T any] struct {
	Bucket string
	Name   string // what one is called in errors: "channel"
	Meta   func(*T) *Meta
}

// Change is what somebody does to a thing.
type Change struct {
	Actor  string // who
	Action string // created, updated, deleted
	Reason string // why. Optional
}

// Store changes the things of one bucket, by their keys.
type Store[T any] struct {
	kind Kind[T]
	kv   jetstream.KeyValue
	now  func() time.Time
}

// Open binds to the bucket, which must be there.
func Open[T any](ctx context.Context, js jetstream.JetStream, kind Kind[T]) (*Store[T], error) {
	kv, err := js.KeyValue(ctx, kind.Bucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w; make it with: waybill streams apply", kind.Bucket, err)
	}
	return &Store[T]{kind: kind, kv: kv, now: time.Now}, nil
}

// Create stores the first revision, or the next one of a name that was deleted.
func (s *Store[T]) Create(ctx context.Context, key string, v T, c Change) (T, error) {
	before, at, err := s.get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		at = 0
	case err != nil:
		return v, err
	case !s.kind.Meta(&before).Deleted:
		return v, s.failed(key, ErrExists)
	}
	*s.kind.Meta(&v) = Meta{Revision: s.kind.Meta(&before).Revision, CreatedAt: s.now().UTC()}
	return s.put(ctx, key, v, at, c)
}

// Update lets change alter the present revision and stores the next one. It
// fails with ErrConflict rather than overwrite a revision that change has not seen.
func (s *Store[T]) Update(ctx context.Context, key string, c Change, change func(*T) error) (T, error) {
	v, at, err := s.get(ctx, key)
	if err != nil {
		return v, err
	}
	if m := s.kind.Meta(&v); m.Deleted {
		return v, fmt.Errorf("%w: it was deleted at %s by %s", s.failed(key, ErrNotFound), m.UpdatedAt.Format(time.RFC3339),
			m.UpdatedBy)
	}
	if err := change(&v); err != nil {
		return v, err
	}
	return s.put(ctx, key, v, at, c)
}

// Delete stores a last revision that says so.
func (s *Store[T]) Delete(ctx context.Context, key, actor, reason string) (T, error) {
	return s.Update(ctx, key, Change{Actor: actor, Action: "deleted", Reason: reason}, func(v *T) error {
		s.kind.Meta(v).Deleted = true
		return nil
	})
}

func (s *Store[T]) put(ctx context.Context, key string, v T, at uint64, c Change) (T, error) {
	m := s.kind.Meta(&v)
	m.Revision++
	m.Change, m.Reason, m.UpdatedBy, m.UpdatedAt = c.Action, c.Reason, c.Actor, s.now().UTC()
	b, err := json.Marshal(v)
	if err != nil {
		return v, s.failed(key, err)
	}
	if at == 0 {
		_, err = s.kv.Create(ctx, key, b)
	} else {
		_, err = s.kv.Update(ctx, key, b, at)
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		err = ErrConflict
	}
	if err != nil {
		return v, s.failed(key, err)
	}
	return v, nil
}

// Get reads the present revision; ErrNotFound when there is none or it is deleted.
func (s *Store[T]) Get(ctx context.Context, key string) (T, error) {
	v, _, err := s.get(ctx, key)
	if err == nil && s.kind.Meta(&v).Deleted {
		return v, s.failed(key, ErrNotFound)
	}
	return v, err
}

func (s *Store[T]) get(ctx context.Context, key string) (v T, at uint64, err error) {
	entry, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return v, 0, s.failed(key, ErrNotFound)
	}
	if err != nil {
		return v, 0, s.failed(key, err)
	}
	if v, err = s.kind.Decode(entry.Value()); err == nil {
		return v, entry.Revision(), nil
	}
	if v, at, err = Newest(ctx, s.kv, key, s.kind.decodeAt); err != nil {
		return v, at, s.failed(key, err)
	}
	return v, at, nil
}

// List returns all that are not deleted, in order of their keys.
func (s *Store[T]) List(ctx context.Context) ([]T, error) {
	found := map[string]T{}
	err := Each(ctx, s.kv, "listing every "+s.kind.Name, func(entry jetstream.KeyValueEntry) (err error) {
		if found[entry.Key()], err = s.kind.Decode(entry.Value()); err != nil {
			found[entry.Key()], _, err = Newest(ctx, s.kv, entry.Key(), s.kind.decodeAt)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.kind.present(found), nil
}

// Unreadable names the entries, as bucket/key, whose newest revision cannot be read.
func (s *Store[T]) Unreadable(ctx context.Context) (out []string, err error) {
	err = Each(ctx, s.kv, "reading every "+s.kind.Name, func(entry jetstream.KeyValueEntry) error {
		if _, err := s.kind.Decode(entry.Value()); err != nil {
			out = append(out, s.kind.Bucket+"/"+entry.Key())
		}
		return nil
	})
	return out, err
}

func (k Kind[T]) present(all map[string]T) []T {
	out := []T{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		v := all[key]
		if !k.Meta(&v).Deleted {
			out = append(out, v)
		}
	}
	return out
}

func (s *Store[T]) failed(key string, err error) error {
	return fmt.Errorf("%s %.64q: %w", s.kind.Name, key, err)
}

// Decode reads a stored revision. What somebody else has written there is none,
// also if it is JSON.
func (k Kind[T]) Decode(b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("registry of every %s: %w", k.Name, err)
	}
	if k.Meta(&v).Revision == 0 {
		return v, fmt.Errorf("registry of every %s: what is stored there is no revision of one", k.Name)
	}
	return v, nil
}

func (k Kind[T]) decodeAt(_ string, b []byte) (T, error) { return k.Decode(b) }
