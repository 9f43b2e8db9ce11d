package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
)

// What a change comes to when there is nothing to change, and when somebody else
// changed it at the same moment: as of every revisioned thing.
var (
	ErrNotFound = revision.ErrNotFound
	ErrConflict = revision.ErrConflict
)

// Store changes endpoints and event types. A change is one write of one key, so it is there
// whole or not at all; its record in the ledger follows from the write itself,
// made by package recorder, so that no change can go unrecorded.
type Store struct {
	js        jetstream.JetStream
	endpoints *revision.Store[Endpoint]
	types     *revision.Store[EventType]
}

// OpenStore binds to the buckets.
func OpenStore(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	endpoints, err := revision.Open(ctx, js, Endpoints())
	if err != nil {
		return nil, err
	}
	types, err := revision.Open(ctx, js, EventTypes())
	if err != nil {
		return nil, err
	}
	return &Store{js: js, endpoints: endpoints, types: types}, nil
}

// Create stores the first revision of an endpoint.
func (s *Store) Create(ctx context.Context, e Endpoint, actor string) (Endpoint, error) {
	e.EnabledAt = time.Now().UTC()
	e, err := s.endpoints.Create(ctx, e.ID, e, revision.Change{Actor: actor, Action: "created"})
	if errors.Is(err, revision.ErrExists) { // an id is made for one endpoint: this is the same one
		err = fmt.Errorf("endpoint %s: %w", e.ID, ErrConflict)
	}
	return e, err
}

// Update lets change alter the present revision and stores the next one, see revision.Store.
func (s *Store) Update(ctx context.Context, id, actor, what, reason string, change func(*Endpoint) error) (Endpoint,
	error) {
	return s.endpoints.Update(ctx, id, revision.Change{Actor: actor, Action: what, Reason: reason}, change)
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
	return s.endpoints.Last(ctx, id)
}

// List returns the endpoints of a tenant, or of all when it is empty, oldest
// first; deleted ones only when asked for.
func (s *Store) List(ctx context.Context, tenant string, deleted bool) ([]Endpoint, error) {
	list := s.endpoints.List
	if deleted {
		list = s.endpoints.All
	}
	out, err := list(ctx)
	return slices.DeleteFunc(out, func(e Endpoint) bool { return tenant != "" && e.Tenant != tenant }), err
}

// Unreadable names the entries, as bucket/key, whose newest revision cannot be read.
func (s *Store) Unreadable(ctx context.Context) ([]string, error) {
	out, err := s.endpoints.Unreadable(ctx)
	if err != nil {
		return nil, err
	}
	more, err := s.types.Unreadable(ctx)
	return append(out, more...), err
}
