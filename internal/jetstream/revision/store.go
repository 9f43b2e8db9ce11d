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

	"github.com/waybill-dev/waybill/streams"
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
	Change    string    `json:"change"`   // what this revision did: created, updated, deleted, …
	Reason    string    `json:"reason,omitempty"`
	UpdatedBy string    `json:"updated_by"` // the actor
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`
}

// Kind says how things of one kind are kept. All fields are required unless marked Optional.
type Kind[T any] struct {
	Bucket string
	Name   string // what one is called in errors: "channel"
	Meta   func(*T) *Meta
	// Deleted says whether a revision is the one that ended the thing, SetDeleted makes
	// it so or not so. It stays, so that the next revision has a number of its own.
	Deleted    func(*T) bool
	SetDeleted func(*T, bool)
	// Key of a thing, "" if it cannot be one. What is stored under another key is not
	// read. Optional: any key will do.
	Key func(*T) string
	// Check says what is wrong with a thing, which is not stored then. Optional.
	Check func(T) error
	// Title names what has a key, in errors. Optional: Name and the key.
	Title func(key string) string
	// See is the command that lists the things. Optional.
	See string
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
	kv, err := streams.Bucket(ctx, js, kind.Bucket)
	if err != nil {
		return nil, err
	}
	return &Store[T]{kind: kind, kv: kv, now: time.Now}, nil
}

// Create stores the first revision, or the next one of a name that was deleted.
func (s *Store[T]) Create(ctx context.Context, key string, v T, c Change) (T, error) {
	*s.kind.Meta(&v) = Meta{}
	s.kind.SetDeleted(&v, false)
	made, err := s.put(ctx, key, v, 0, c)
	if !errors.Is(err, ErrConflict) {
		return made, err
	}
	before, at, err := s.get(ctx, key)
	if err != nil {
		return v, err
	}
	if !s.kind.Deleted(&before) {
		return v, s.failed(key, ErrExists)
	}
	s.kind.Meta(&v).Revision = s.kind.Meta(&before).Revision
	return s.put(ctx, key, v, at, c)
}

// Set stores the whole of a thing, whatever it was before.
func (s *Store[T]) Set(ctx context.Context, key string, v T, actor, reason string) (T, error) {
	before, at, err := s.get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return v, err
	}
	c := Change{Actor: actor, Action: "updated", Reason: reason}
	m := *s.kind.Meta(&before)
	if m.Revision == 0 || s.kind.Deleted(&before) {
		c.Action, m.CreatedAt = "created", time.Time{}
	}
	*s.kind.Meta(&v) = m
	s.kind.SetDeleted(&v, false)
	return s.put(ctx, key, v, at, c)
}

// Update lets change alter the present revision and stores the next one, also
// when nothing differs: what somebody did is on record. It fails with
// ErrConflict rather than overwrite a revision that change has not seen.
func (s *Store[T]) Update(ctx context.Context, key string, c Change, change func(*T) error) (T, error) {
	v, at, err := s.get(ctx, key)
	if err != nil {
		return v, err
	}
	if s.kind.Deleted(&v) {
		m := s.kind.Meta(&v)
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
		s.kind.SetDeleted(v, true)
		return nil
	})
}

// put stores v as the revision that follows the one v says it is.
func (s *Store[T]) put(ctx context.Context, key string, v T, at uint64, c Change) (T, error) {
	now, m := s.now().UTC(), s.kind.Meta(&v)
	m.Revision++
	m.Change, m.Reason, m.UpdatedBy, m.UpdatedAt = c.Action, c.Reason, c.Actor, now
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	if s.kind.Check != nil {
		if err := s.kind.Check(v); err != nil {
			return v, err
		}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return v, s.failed(key, err)
	}
	if at == 0 {
		_, err = s.kv.Create(ctx, key, b)
	} else {
		_, err = s.kv.Update(ctx, key, b, at)
	}
	if errors.Is(err, jetstream.ErrKeyExists) { // also when the key has another revision
		err = ErrConflict
	}
	if err != nil {
		return v, s.failed(key, err)
	}
	return v, nil
}

// Get reads the present revision; ErrNotFound when there is none or it is deleted.
func (s *Store[T]) Get(ctx context.Context, key string) (T, error) {
	v, err := s.Last(ctx, key)
	if err == nil && s.kind.Deleted(&v) {
		return v, s.missing(key)
	}
	return v, err
}

// Last is Get, but of what is deleted too.
func (s *Store[T]) Last(ctx context.Context, key string) (T, error) {
	v, _, err := s.get(ctx, key)
	return v, err
}

func (s *Store[T]) get(ctx context.Context, key string) (v T, at uint64, err error) {
	entry, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return v, 0, s.missing(key)
	}
	if err != nil {
		return v, 0, s.failed(key, err)
	}
	if v, err = s.kind.DecodeAt(key, entry.Value()); err == nil {
		return v, entry.Revision(), nil
	}
	if v, at, err = Newest(ctx, s.kv, key, s.kind.DecodeAt); err != nil {
		return v, at, s.failed(key, err)
	}
	return v, at, nil
}

// List returns all that are not deleted, in order of their keys.
func (s *Store[T]) List(ctx context.Context) ([]T, error) {
	all, err := s.All(ctx)
	return slices.DeleteFunc(all, func(v T) bool { return s.kind.Deleted(&v) }), err
}

// All returns those that are deleted too, in order of their keys.
func (s *Store[T]) All(ctx context.Context) ([]T, error) {
	found := map[string]T{}
	err := Each(ctx, s.kv, "listing every "+s.kind.Name, func(entry jetstream.KeyValueEntry) (err error) {
		if found[entry.Key()], err = s.kind.DecodeAt(entry.Key(), entry.Value()); err != nil {
			found[entry.Key()], _, err = Newest(ctx, s.kv, entry.Key(), s.kind.DecodeAt)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]T, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out, nil
}

// Unreadable names the entries, as bucket/key, whose newest revision cannot be
// read: the one before it stands, if there is one.
func (s *Store[T]) Unreadable(ctx context.Context) (out []string, err error) {
	err = Each(ctx, s.kv, "reading every "+s.kind.Name, func(entry jetstream.KeyValueEntry) error {
		if _, err := s.kind.DecodeAt(entry.Key(), entry.Value()); err != nil {
			out = append(out, s.kind.Bucket+"/"+entry.Key())
		}
		return nil
	})
	return out, err
}

// missing says that there is none, and where to look.
func (s *Store[T]) missing(key string) error {
	err := s.failed(key, ErrNotFound)
	if s.kind.See != "" {
		err = fmt.Errorf("%w; see: %s", err, s.kind.See)
	}
	return err
}

func (s *Store[T]) failed(key string, err error) error {
	if s.kind.Title != nil {
		return fmt.Errorf("%s: %w", s.kind.Title(key), err)
	}
	return fmt.Errorf("%s %.64q: %w", s.kind.Name, key, err)
}

// Decode reads a stored revision. What somebody else has written there is none,
// also if it is JSON.
func (k Kind[T]) Decode(b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return v, fmt.Errorf("%s registry: %w", k.Name, err)
	}
	if k.Meta(&v).Revision == 0 || k.Key != nil && k.Key(&v) == "" {
		return v, fmt.Errorf("%s registry: what is stored there is no revision of one", k.Name)
	}
	return v, nil
}

// DecodeAt is Decode of what is stored under a key.
func (k Kind[T]) DecodeAt(key string, b []byte) (T, error) {
	v, err := k.Decode(b)
	if err == nil && k.Key != nil && k.Key(&v) != key {
		err = fmt.Errorf("%s registry: the key %.128q holds a revision of another one", k.Name, key)
	}
	return v, err
}
