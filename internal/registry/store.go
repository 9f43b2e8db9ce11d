package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/streams"
)

// ErrNotFound says that there is no such endpoint.
var ErrNotFound = errors.New("no such endpoint")

// ErrConflict says that somebody else changed it at the same moment.
var ErrConflict = errors.New("it was changed by somebody else at the same moment; look again and repeat")

// Store changes endpoints and event types. A change is one write of one key, so it is there
// whole or not at all; its record in the ledger follows from the write itself,
// made by fanout's recorder, so that no change can go unrecorded.
type Store struct {
	js    jetstream.JetStream
	kv    jetstream.KeyValue // endpoints
	types jetstream.KeyValue // event types
	now   func() time.Time
}

// OpenStore binds to the buckets.
func OpenStore(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	kv, err := js.KeyValue(ctx, streams.EndpointsBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w; make it with: waybill streams apply", streams.EndpointsBucket, err)
	}
	types, err := openEventTypes(ctx, js)
	if err != nil {
		return nil, err
	}
	return &Store{js: js, kv: kv, types: types, now: time.Now}, nil
}

// Create stores the first revision of an endpoint.
func (s *Store) Create(ctx context.Context, e Endpoint, actor string) (Endpoint, error) {
	now := s.now().UTC()
	e.Revision, e.Change, e.UpdatedBy, e.CreatedAt, e.UpdatedAt, e.EnabledAt = 1, "created", actor, now, now, now
	b, err := encode(e)
	if err != nil {
		return e, err
	}
	_, err = s.kv.Create(ctx, e.ID, b)
	return e, stored("endpoint "+e.ID, err)
}

// stored says what kept a revision from being stored, if anything did. JetStream
// answers ErrKeyExists when the key has another revision than was expected.
func stored(what string, err error) error {
	if errors.Is(err, jetstream.ErrKeyExists) {
		err = ErrConflict
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// Update lets change alter the present revision and stores the next one. A
// nil change result with no difference still makes a revision: an action that
// somebody took is on record. It fails with ErrConflict rather than overwrite
// a revision that change has not seen.
func (s *Store) Update(ctx context.Context, id, actor, what, reason string, change func(*Endpoint) error) (Endpoint,
	error) {
	e, at, err := s.get(ctx, id)
	if err != nil {
		return e, err
	}
	if e.State == Deleted {
		return e, fmt.Errorf("endpoint %s: %w: it was deleted at %s by %s", id, ErrNotFound, e.UpdatedAt.Format(time.RFC3339),
			e.UpdatedBy)
	}
	if err := change(&e); err != nil {
		return e, err
	}
	e.Revision++
	e.Change, e.Reason, e.UpdatedBy, e.UpdatedAt = what, reason, actor, s.now().UTC()
	b, err := encode(e)
	if err != nil {
		return e, err
	}
	_, err = s.kv.Update(ctx, id, b, at)
	return e, stored("endpoint "+id, err)
}

// DisableUnchanged is how Waybill itself disables an endpoint. It fails with
// ErrConflict when the endpoint has changed since: somebody dealt with it.
func (s *Store) DisableUnchanged(ctx context.Context, e *Endpoint, reason outcome.Reason, detail string) error {
	_, err := s.Update(ctx, e.ID, ActorWaybill, "disabled", string(reason), func(now *Endpoint) error {
		if now.Revision != e.Revision {
			return fmt.Errorf("endpoint %s: %w", e.ID, ErrConflict)
		}
		now.State, now.StateReason = Disabled, detail
		return nil
	})
	return err
}

// Get reads the present revision; a deleted endpoint is returned too.
func (s *Store) Get(ctx context.Context, id string) (Endpoint, error) {
	e, _, err := s.get(ctx, id)
	return e, err
}

func (s *Store) get(ctx context.Context, id string) (Endpoint, uint64, error) {
	entry, err := s.kv.Get(ctx, id)
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return Endpoint{}, 0, fmt.Errorf("endpoint %q: %w; see: waybill endpoint list", id, ErrNotFound)
	}
	if err != nil {
		return Endpoint{}, 0, fmt.Errorf("endpoint %s: %w", id, err)
	}
	if e, err := decodeAt(id, entry.Value()); err == nil {
		return e, entry.Revision(), nil
	}
	e, at, err := revision.Newest(ctx, s.kv, id, decodeAt)
	if err != nil {
		err = fmt.Errorf("endpoint %s: %w", id, err)
	}
	return e, at, err
}

// List returns the endpoints of a tenant, or of all when it is empty, oldest
// first; deleted ones only when asked for.
func (s *Store) List(ctx context.Context, tenant string, deleted bool) ([]Endpoint, error) {
	out := []Endpoint{}
	err := revision.Each(ctx, s.kv, "listing endpoints", func(entry jetstream.KeyValueEntry) error {
		e, err := decodeAt(entry.Key(), entry.Value())
		if err != nil {
			e, _, err = revision.Newest(ctx, s.kv, entry.Key(), decodeAt)
		}
		if err == nil && (tenant == "" || e.Tenant == tenant) && (deleted || e.State != Deleted) {
			out = append(out, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Endpoint) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// Unreadable names the entries, as bucket/key, whose newest revision cannot be
// read: the one before it stands, if there is one.
func (s *Store) Unreadable(ctx context.Context) (out []string, err error) {
	err = revision.Each(ctx, s.kv, "reading endpoints", func(entry jetstream.KeyValueEntry) error {
		if _, err := decodeAt(entry.Key(), entry.Value()); err != nil {
			out = append(out, streams.EndpointsBucket+"/"+entry.Key())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = revision.Each(ctx, s.types, "reading event types", func(entry jetstream.KeyValueEntry) error {
		if _, err := decodeEventTypeAt(entry.Key(), entry.Value()); err != nil {
			out = append(out, streams.EventTypesBucket+"/"+entry.Key())
		}
		return nil
	})
	return out, err
}

func encode(e Endpoint) ([]byte, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", e.ID, err)
	}
	return b, nil
}

// Decode reads a stored revision.
func Decode(b []byte) (Endpoint, error) {
	var e Endpoint
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("endpoint registry: %w", err)
	}
	if e.ID == "" || e.Revision == 0 {
		return e, errors.New("endpoint registry: what is stored there is no revision of an endpoint")
	}
	return e, nil
}

// decodeAt reads a revision that is stored under a key.
func decodeAt(key string, b []byte) (Endpoint, error) {
	e, err := Decode(b)
	if err == nil && e.ID != key {
		err = fmt.Errorf("endpoint registry: the key %.64q holds a revision of another endpoint", key)
	}
	return e, err
}
