package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

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

	revision.Meta
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

// EventTypes is how event types are kept.
func EventTypes() revision.Kind[EventType] {
	return revision.Kind[EventType]{Bucket: streams.EventTypesBucket, Name: "event type", See: "waybill event-type list",
		Meta:       func(e *EventType) *revision.Meta { return &e.Meta },
		Deleted:    func(e *EventType) bool { return e.Deleted },
		SetDeleted: func(e *EventType, is bool) { e.Deleted = is },
		Key: func(e *EventType) string {
			if e.Tenant == "" || e.Pattern == "" {
				return ""
			}
			return eventTypeKey(e.Tenant, e.Pattern)
		},
		Check: EventType.Validate,
		Title: func(key string) string {
			tenant, pattern, _ := strings.Cut(key, ".")
			pattern = strings.NewReplacer("=one", "*", "=rest", ">").Replace(pattern)
			return fmt.Sprintf("event type %.128q of tenant %.64s", pattern, tenant)
		}}
}

// eventTypeKey is the key of a tenant's pattern. A key cannot hold * and >; no
// token of a type can hold =.
func eventTypeKey(tenant, pattern string) string {
	return tenant + "." + strings.NewReplacer("*", "=one", ">", "=rest").Replace(pattern)
}

// SetEventType stores what holds for a tenant's pattern from now on: the whole
// of it, whatever held before. It fails with ErrConflict when somebody else
// changed it at the same moment.
func (s *Store) SetEventType(ctx context.Context, e EventType, actor, reason string) (EventType, error) {
	return s.types.Set(ctx, eventTypeKey(e.Tenant, e.Pattern), e, actor, reason)
}

// DeleteEventType ends what is set for a tenant's pattern.
func (s *Store) DeleteEventType(ctx context.Context, tenant, pattern, actor, reason string) (EventType, error) {
	return s.types.Delete(ctx, eventTypeKey(tenant, pattern), actor, reason)
}

// EventType reads what is set for a tenant's pattern.
func (s *Store) EventType(ctx context.Context, tenant, pattern string) (EventType, error) {
	return s.types.Get(ctx, eventTypeKey(tenant, pattern))
}

// EventTypes lists what is set, of a tenant or of all when it is empty: by
// tenant, and within it in the order in which patterns win.
func (s *Store) EventTypes(ctx context.Context, tenant string) ([]EventType, error) {
	out, err := s.types.List(ctx)
	out = slices.DeleteFunc(out, func(e EventType) bool { return tenant != "" && e.Tenant != tenant })
	slices.SortFunc(out, func(a, b EventType) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), subscription.Compare(a.Pattern, b.Pattern))
	})
	return out, err
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
