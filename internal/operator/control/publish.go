package control

import (
	"context"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// TestType is the type of test events. Their data says which endpoint is tested.
const TestType = "waybill.test"

// Ack says where an event is stored.
type Ack struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Type   string `json:"type"`
	// Duplicate: this very event was stored before; nothing was added.
	Duplicate bool   `json:"duplicate"`
	Seq       uint64 `json:"seq"` // its position in EVENTS
}

// PublishEvent stores one event, as JSON: see package envelope. id and timestamp
// may be left out and are then assigned; an id assigned here cannot protect a
// caller that tries again. onlyEndpoint, if not empty, sends it to that
// endpoint alone.
func (c *Control) PublishEvent(ctx context.Context, tenant string, event []byte, onlyEndpoint string) (Ack, error) {
	if tenant == "" {
		tenant = DefaultTenant
	}
	entry, err := eventlog.Prepare(eventlog.Draft{Tenant: tenant, Raw: event}, c.o.MaxEventBytes, c.o.Now())
	if err != nil {
		return Ack{}, failed(err)
	}
	if onlyEndpoint != "" {
		if _, err := c.receiver(ctx, onlyEndpoint, tenant); err != nil {
			return Ack{}, err
		}
		entry.OnlyEndpoint = onlyEndpoint
	}
	return c.append(ctx, entry)
}

func (c *Control) append(ctx context.Context, entry eventlog.Entry) (Ack, error) {
	stored, err := c.log.Append(ctx, entry)
	if err != nil {
		return Ack{}, failed(err)
	}
	return Ack{ID: entry.Event.ID, Tenant: entry.Tenant, Type: entry.Event.Type, Duplicate: stored.Duplicate,
		Seq: stored.Seq}, nil
}

// receiver returns an endpoint that can be sent something now.
func (c *Control) receiver(ctx context.Context, id, tenant string) (registry.Endpoint, error) {
	e, err := c.get(ctx, id)
	if err != nil {
		return e, err
	}
	if tenant != "" && e.Tenant != tenant {
		return e, invalid("endpoint_id", "endpoint %s is not of the tenant %s", id, tenant)
	}
	return e, canReceive(e)
}

func canReceive(e registry.Endpoint) error {
	switch e.State {
	case registry.Deleted:
		return failure(CodeEndpointDeleted, "endpoint %s was deleted at %s by %s; make a new one with: waybill endpoint "+
			"create",
			e.ID, e.UpdatedAt.Format(time.RFC3339), e.UpdatedBy)
	case registry.Disabled:
		return failure(CodeEndpointDisabled, "endpoint %s is disabled (%s); enable it with: waybill endpoint enable %s", e.ID,
			e.StateReason, e.ID)
	}
	return nil
}

// TestEndpoint sends an event of TestType to one endpoint, whatever types it
// subscribes to, through the same pipeline as every other event.
func (c *Control) TestEndpoint(ctx context.Context, id, actor string) (Ack, error) {
	if err := checkActor(actor); err != nil {
		return Ack{}, err
	}
	e, err := c.receiver(ctx, id, "")
	if err != nil {
		return Ack{}, err
	}
	now := c.o.Now().UTC()
	data, err := json.Marshal(map[string]string{
		"endpoint_id": e.ID, "message": "A test of this endpoint, sent on request. Nothing happened that it stands for."})
	if err != nil {
		return Ack{}, failed(err)
	}
	event := envelope.Event{ID: ids.New(ids.Event, now), Type: TestType, Timestamp: now, Data: data,
		Subject: &envelope.Subject{Type: "endpoint", ID: e.ID}}
	return c.append(ctx, eventlog.Entry{Tenant: e.Tenant, Event: event, Body: event.AppendJSON(nil), OnlyEndpoint: e.ID})
}
