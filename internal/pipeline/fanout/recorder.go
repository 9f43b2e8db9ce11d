package fanout

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/registry"
)

// recordRevision puts one revision of an endpoint on record. It reads the
// bucket's own stream, so whoever changed the endpoint, and whatever died then,
// the change is recorded: once, under an id that follows from the revision.
func (f *Fanout) recordRevision(ctx context.Context, m stage.Message) stage.Settlement {
	if m.Header.Get("KV-Operation") != "" {
		f.log.Error().Str("subject", m.Subject).Str("operation", m.Header.Get("KV-Operation")).Msg("registry.removed_by_force")
		return stage.Drop("not a revision")
	}
	e, err := registry.Endpoints().Decode(m.Data)
	if err != nil {
		f.log.Error().Err(err).Str("subject", m.Subject).Msg("registry.unreadable")
		return stage.Drop("unreadable")
	}
	records := []record.Record{revisionRecord(e, m.StoredAt)}
	if notice, ok := disabledNotice(e, m.StoredAt); ok {
		records = append(records, notice)
	}
	if err := f.store(ctx, records); err != nil {
		return f.later(err, e.ID)
	}
	f.log.Info().Str("tenant", e.Tenant).Str("endpoint_id", e.ID).Uint64("endpoint_revision", e.Revision).Str("action", e.Change).
		Str("actor", e.UpdatedBy).Msg("endpoint.changed")
	return stage.Done()
}

func revisionRecord(e registry.Endpoint, at time.Time) record.Record {
	r := record.Record{
		ID:   fmt.Sprintf("%s/%s/%d", record.EndpointChanged, e.ID, e.Revision),
		Kind: record.EndpointChanged, At: at, Tenant: e.Tenant, EndpointID: e.ID, EndpointRevision: e.Revision,
		Actor: e.UpdatedBy, Action: e.Change, Reason: e.Reason, Detail: e.StateReason, URL: record.SafeURL(e.URL), EventTypes: e.Types,
		SignatureScheme: string(e.Scheme), KeyIDs: e.KeyIDs(at), Settings: e.Settings(),
	}
	return r
}

// disabledNotice tells operators that Waybill itself took an endpoint out of
// service: somebody should look at it.
func disabledNotice(e registry.Endpoint, at time.Time) (record.Record, bool) {
	if e.Change != "disabled" || e.UpdatedBy != registry.ActorWaybill {
		return record.Record{}, false
	}
	return record.Record{
		ID:   fmt.Sprintf("%s/endpoint.disabled/%s/%d", record.OperatorAction, e.ID, e.Revision),
		Kind: record.OperatorAction, At: at, Tenant: e.Tenant, EndpointID: e.ID, EndpointRevision: e.Revision,
		Actor: e.UpdatedBy, Action: "endpoint.disabled", Reason: e.Reason, Detail: e.StateReason, URL: record.SafeURL(e.URL),
	}, true
}
