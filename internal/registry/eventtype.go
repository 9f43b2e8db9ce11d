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

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// ErrNoEventType says that nothing is set for an event type.
var ErrNoEventType = errors.New("nothing is set for this event type")

// EventType is what holds for a tenant's events of some types: a revision of
// it, whole. Durations are in nanoseconds in JSON, as Go writes them.
type EventType struct {
	Tenant      string `json:"tenant"`
	Pattern     string `json:"pattern"` // of event types, see package subscription
	Description string `json:"description,omitempty"`
	// DeliverWithin sets deliver_by for events that bring none. 0: it does not.
	DeliverWithin time.Duration `json:"deliver_within,omitempty"`
	// Policy is the schedule of attempts, where the endpoint has none. Absent: it sets none.
	Policy *retry.Policy `json:"policy,omitempty"`
	// Deleted settings stay in the registry, so that their next revision has a number of its own.
	Deleted bool `json:"deleted,omitempty"`

	Revision  uint64    `json:"revision"` // 1, 2, 3 …
	Change    string    `json:"change"`   // what this revision did: created, updated, deleted
	Reason    string    `json:"reason,omitempty"`
	UpdatedBy string    `json:"updated_by"` // the actor
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`
}

// Validate says which field is wrong, the first one only.
func (e EventType) Validate() error {
	if err := envelope.ValidateTenant(e.Tenant); err != nil {
		return err
	}
	if err := subscription.Validate(e.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if len(e.Description) > maxDescription {
		return fmt.Errorf("description: at most %d characters", maxDescription)
	}
	if e.DeliverWithin < 0 {
		return fmt.Errorf("deliver_within: %s is in the past", e.DeliverWithin)
	}
	if e.Policy != nil {
		if err := e.Policy.Validate(); err != nil {
			return err
		}
	}
	if e.DeliverWithin == 0 && e.Policy == nil && !e.Deleted {
		return errors.New("deliver_within: neither it nor a policy is set; set one of them, or delete the event type")
	}
	return nil
}

// eventTypeKey is the key of a tenant's pattern. A key cannot hold * and >; no
// token of a type can hold =.
func eventTypeKey(tenant, pattern string) string {
	return tenant + "." + strings.NewReplacer("*", "=one", ">", "=rest").Replace(pattern)
}

// DecodeEventType reads a stored revision.
func DecodeEventType(b []byte) (EventType, error) {
	var e EventType
	if err := json.Unmarshal(b, &e); err != nil {
		return e, fmt.Errorf("event type registry: %w", err)
	}
	if e.Revision == 0 || e.Tenant == "" || e.Pattern == "" {
		return e, errors.New("event type registry: what is stored there is no revision of an event type")
	}
	return e, nil
}

// decodeEventTypeAt reads a revision that is stored under a key.
func decodeEventTypeAt(key string, b []byte) (EventType, error) {
	e, err := DecodeEventType(b)
	if err == nil && eventTypeKey(e.Tenant, e.Pattern) != key {
		err = fmt.Errorf("event type registry: the key %.128q holds a revision of another event type", key)
	}
	return e, err
}

// SetEventType stores what holds for a tenant's pattern from now on: the whole
// of it, whatever held before. It fails with ErrConflict when somebody else
// changed it at the same moment.
func (s *Store) SetEventType(ctx context.Context, e EventType, actor, reason string) (EventType, error) {
	was, at, err := s.eventType(ctx, e.Tenant, e.Pattern)
	if err != nil && !errors.Is(err, ErrNoEventType) {
		return e, err
	}
	e.Change, e.CreatedAt = "updated", was.CreatedAt
	if was.Revision == 0 || was.Deleted {
		e.Change, e.CreatedAt = "created", s.now().UTC()
	}
	return s.putEventType(ctx, e, was.Revision, at, actor, reason)
}

// DeleteEventType ends what is set for a tenant's pattern.
func (s *Store) DeleteEventType(ctx context.Context, tenant, pattern, actor, reason string) (EventType, error) {
	was, at, err := s.eventType(ctx, tenant, pattern)
	if err != nil {
		return was, err
	}
	if was.Deleted {
		return was, noEventType(tenant, pattern)
	}
	e := was
	e.Deleted, e.Change = true, "deleted"
	return s.putEventType(ctx, e, was.Revision, at, actor, reason)
}

func (s *Store) putEventType(ctx context.Context, e EventType, revision, at uint64, actor, reason string) (EventType,
	error) {
	e.Revision, e.Reason, e.UpdatedBy, e.UpdatedAt = revision+1, reason, actor, s.now().UTC()
	if err := e.Validate(); err != nil {
		return e, err
	}
	b, err := json.Marshal(e)
	if err != nil {
		return e, fmt.Errorf("event type %s: %w", e.Pattern, err)
	}
	// Revision 0 of the key means that it must not be there yet.
	_, err = s.types.Update(ctx, eventTypeKey(e.Tenant, e.Pattern), b, at)
	return e, stored("event type "+e.Pattern, err)
}

// EventType reads what is set for a tenant's pattern.
func (s *Store) EventType(ctx context.Context, tenant, pattern string) (EventType, error) {
	e, _, err := s.eventType(ctx, tenant, pattern)
	if err == nil && e.Deleted {
		err = noEventType(tenant, pattern)
	}
	return e, err
}

func (s *Store) eventType(ctx context.Context, tenant, pattern string) (EventType, uint64, error) {
	entry, err := s.types.Get(ctx, eventTypeKey(tenant, pattern))
	if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return EventType{}, 0, noEventType(tenant, pattern)
	}
	if err != nil {
		return EventType{}, 0, fmt.Errorf("event type %s: %w", pattern, err)
	}
	if e, err := decodeEventTypeAt(entry.Key(), entry.Value()); err == nil {
		return e, entry.Revision(), nil
	}
	e, at, err := revision.Newest(ctx, s.types, entry.Key(), decodeEventTypeAt)
	return e, at, err
}

func noEventType(tenant, pattern string) error {
	return fmt.Errorf("event type %.128q of tenant %.64s: %w; see: waybill event-type list", pattern, tenant,
		ErrNoEventType)
}

// EventTypes lists what is set, of a tenant or of all when it is empty: by
// tenant, and within it in the order in which patterns win.
func (s *Store) EventTypes(ctx context.Context, tenant string) ([]EventType, error) {
	out := []EventType{}
	err := revision.Each(ctx, s.types, "listing event types", func(entry jetstream.KeyValueEntry) error {
		e, err := decodeEventTypeAt(entry.Key(), entry.Value())
		if err != nil {
			e, _, err = revision.Newest(ctx, s.types, entry.Key(), decodeEventTypeAt)
		}
		if err == nil && (tenant == "" || e.Tenant == tenant) && !e.Deleted {
			out = append(out, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b EventType) int {
		if a.Tenant != b.Tenant {
			return strings.Compare(a.Tenant, b.Tenant)
		}
		return subscription.Compare(a.Pattern, b.Pattern)
	})
	return out, nil
}

// openEventTypes binds a store's bucket of event types.
func openEventTypes(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	kv, err := js.KeyValue(ctx, streams.EventTypesBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w; make it with: waybill streams apply", streams.EventTypesBucket, err)
	}
	return kv, nil
}

// MatchEventTypes picks those that match, and keeps their order.
func MatchEventTypes(list []*EventType, eventType string) []*EventType {
	var out []*EventType
	for _, e := range list {
		if subscription.Match(e.Pattern, eventType) {
			out = append(out, e)
		}
	}
	return out
}
