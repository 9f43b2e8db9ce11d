package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// EventType is what is set for a tenant's events of some types.
type EventType struct {
	Pattern       string        `json:"pattern"` // payment.captured, payment.*, >
	Tenant        string        `json:"tenant"`
	Description   string        `json:"description,omitempty"`
	DeliverWithin Duration      `json:"deliver_within,omitzero"`
	Policy        *retry.Policy `json:"policy,omitempty"`

	Revision  uint64    `json:"revision"`
	Change    string    `json:"change"`
	Reason    string    `json:"reason,omitempty"`
	UpdatedBy string    `json:"updated_by"`
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`
}

// EventTypeSpec is the whole of what is set: what it leaves out is not set.
type EventTypeSpec struct {
	Description   string        `json:"description"`
	DeliverWithin Duration      `json:"deliver_within"`
	Policy        *retry.Policy `json:"policy"`
}

// SetEventType sets what holds for a tenant's events of the types that pattern
// matches, from the next event and the next attempt on. reason is optional.
func (c *Control) SetEventType(ctx context.Context, tenant, pattern string, spec EventTypeSpec, actor,
	reason string) (EventType, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false), checkDescription(&spec.Description)); err != nil {
		return EventType{}, rejected(err)
	}
	e := registry.EventType{Tenant: tenantOr(tenant), Pattern: pattern, Description: spec.Description,
		DeliverWithin: time.Duration(spec.DeliverWithin), Policy: spec.Policy}
	if err := e.Validate(); err != nil {
		return EventType{}, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := c.store.SetEventType(ctx, e, actor, reason)
	return showEventType(e), failed(err)
}

// DeleteEventType ends what is set for a tenant's pattern. reason is optional.
func (c *Control) DeleteEventType(ctx context.Context, tenant, pattern, actor, reason string) (EventType, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false)); err != nil {
		return EventType{}, rejected(err)
	}
	if err := checkTypePattern(tenant, pattern); err != nil {
		return EventType{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := c.store.DeleteEventType(ctx, tenantOr(tenant), pattern, actor, reason)
	return showEventType(e), failed(err)
}

// EventType returns what is set for exactly this pattern.
func (c *Control) EventType(ctx context.Context, tenant, pattern string) (EventType, error) {
	if err := checkTypePattern(tenant, pattern); err != nil {
		return EventType{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := c.store.EventType(ctx, tenantOr(tenant), pattern)
	return showEventType(e), failed(err)
}

// EventTypes lists what is set, of a tenant or of all when it is empty, in the
// order in which patterns win.
func (c *Control) EventTypes(ctx context.Context, tenant string) ([]EventType, error) {
	if tenant != "" {
		if err := envelope.ValidateTenant(tenant); err != nil {
			return nil, rejected(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.store.EventTypes(ctx, tenant)
	out := make([]EventType, len(list))
	for i, e := range list {
		out[i] = showEventType(e)
	}
	return out, failed(err)
}

func checkTypePattern(tenant, pattern string) error {
	if err := envelope.ValidateTenant(tenantOr(tenant)); err != nil {
		return rejected(err)
	}
	if err := subscription.Validate(pattern); err != nil {
		return rejected(fmt.Errorf("pattern: %w", err))
	}
	return nil
}

func tenantOr(tenant string) string {
	if tenant == "" {
		return DefaultTenant
	}
	return tenant
}

func showEventType(e registry.EventType) EventType {
	return EventType{Pattern: e.Pattern, Tenant: e.Tenant, Description: e.Description,
		DeliverWithin: Duration(e.DeliverWithin),
		Policy:        e.Policy, Revision: e.Revision, Change: e.Change, Reason: e.Reason, UpdatedBy: e.UpdatedBy,
		UpdatedAt: e.UpdatedAt, CreatedAt: e.CreatedAt}
}
