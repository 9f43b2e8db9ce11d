package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/registry"
)

// recordEventType puts one revision of an event type on record, as
// recordRevision does for endpoints.
func (f *Fanout) recordEventType(ctx context.Context, m stage.Message) stage.Settlement {
	if m.Header.Get("KV-Operation") != "" {
		f.log.Error().Str("subject", m.Subject).Str("operation", m.Header.Get("KV-Operation")).Msg("registry.removed_by_force")
		return stage.Drop("not a revision")
	}
	e, err := registry.EventTypes().Decode(m.Data)
	if err != nil {
		f.log.Error().Err(err).Str("subject", m.Subject).Msg("registry.unreadable")
		return stage.Drop("unreadable")
	}
	r := record.Record{
		ID:   fmt.Sprintf("%s/%s/%s/%d", record.EventTypeChanged, e.Tenant, e.Pattern, e.Revision),
		Kind: record.EventTypeChanged, At: m.StoredAt, Tenant: e.Tenant, EventTypes: []string{e.Pattern},
		Actor: e.UpdatedBy, Action: e.Change, Reason: e.Reason, Detail: settings(e),
	}
	if err := f.store(ctx, []record.Record{r}); err != nil {
		return f.later(err, e.Pattern)
	}
	f.log.Info().Str("tenant", e.Tenant).Str("event_type", e.Pattern).Uint64("revision", e.Revision).Str("action", e.Change).
		Str("actor", e.UpdatedBy).Msg("event_type.changed")
	return stage.Done()
}

// settings is what a revision says, for the record.
func settings(e registry.EventType) string {
	var out []string
	if e.DeliverWithin > 0 {
		out = append(out, "deliver_within "+e.DeliverWithin.String())
	}
	if e.Policy != nil {
		if b, err := json.Marshal(e.Policy); err == nil {
			out = append(out, clip("policy "+string(b), 500))
		}
	}
	return strings.Join(out, ", ")
}
