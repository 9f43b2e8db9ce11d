package recorder

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// allTenants stands on the record of what is not of one tenant.
const allTenants = "all"

func endpointChanged(e registry.Endpoint, at time.Time) change {
	records := []record.Record{{
		ID:   fmt.Sprintf("%s/%s/%d", record.EndpointChanged, e.ID, e.Revision),
		Kind: record.EndpointChanged, At: at, Tenant: e.Tenant, EndpointID: e.ID, EndpointRevision: e.Revision,
		Actor: e.UpdatedBy, Action: e.Change, Reason: e.Reason, Detail: e.StateReason, URL: record.SafeURL(e.URL),
		EventTypes: e.Types, SignatureScheme: string(e.Scheme), KeyIDs: e.KeyIDs(at), Settings: e.Settings(),
	}}
	// Waybill itself took an endpoint out of service: an operator should look at it.
	if e.Change == "disabled" && e.UpdatedBy == registry.ActorWaybill {
		records = append(records, record.Record{
			ID:   fmt.Sprintf("%s/endpoint.disabled/%s/%d", record.OperatorAction, e.ID, e.Revision),
			Kind: record.OperatorAction, At: at, Tenant: e.Tenant, EndpointID: e.ID, EndpointRevision: e.Revision,
			Actor: e.UpdatedBy, Action: "endpoint.disabled", Reason: e.Reason, Detail: e.StateReason,
			URL: record.SafeURL(e.URL),
		})
	}
	return change{records, func(l *zerolog.Event) {
		l.Str("tenant", e.Tenant).Str("endpoint_id", e.ID).Uint64("endpoint_revision", e.Revision).Str("action", e.Change).
			Str("actor", e.UpdatedBy).Msg(logevent.EndpointChanged)
	}}
}

func eventTypeChanged(e registry.EventType, at time.Time) change {
	var said []string
	if e.DeliverWithin > 0 {
		said = append(said, "deliver_within "+e.DeliverWithin.String())
	}
	if e.Policy != nil {
		if b, err := json.Marshal(e.Policy); err == nil {
			said = append(said, clip("policy "+string(b), 500))
		}
	}
	return change{[]record.Record{{
		ID:   fmt.Sprintf("%s/%s/%s/%d", record.EventTypeChanged, e.Tenant, e.Pattern, e.Revision),
		Kind: record.EventTypeChanged, At: at, Tenant: e.Tenant, EventTypes: []string{e.Pattern},
		Actor: e.UpdatedBy, Action: e.Change, Reason: e.Reason, Detail: strings.Join(said, ", "),
	}}, func(l *zerolog.Event) {
		l.Str("tenant", e.Tenant).Str("event_type", e.Pattern).Uint64("revision", e.Revision).Str("action", e.Change).
			Str("actor", e.UpdatedBy).Msg(logevent.EventTypeChanged)
	}}
}

func channelChanged(c channel.Channel, _ time.Time) change {
	r := operatorAction(streams.ChannelsBucket, "channel", c.Name, c.Meta)
	r.Channel, r.ChannelKind, r.URL = c.Name, string(c.Kind), c.Address()
	return registryChanged(r, c.Name)
}

func policyChanged(p escalation.Policy, _ time.Time) change {
	r := operatorAction(streams.EscalationPoliciesBucket, "escalation_policy", p.Name, p.Meta)
	r.EscalationPolicy, r.EventTypes = p.Name, p.Types
	if len(p.Tenants) == 1 {
		r.Tenant = p.Tenants[0]
	}
	said, err := json.Marshal(map[string]any{"priority": p.Priority, "tenants": p.Tenants, "reasons": p.Reasons,
		"steps": p.Steps, "repeat": p.Repeat.String(), "max_duration": p.MaxDuration.String(), "window": p.Window.String()})
	if err == nil { // it was JSON before
		r.Detail = string(said)
	}
	return registryChanged(r, p.Name)
}

func operatorAction(bucket, what, key string, m revision.Meta) record.Record {
	return record.Record{ID: record.RevisionID(bucket, key, m.Revision), Kind: record.OperatorAction, At: m.UpdatedAt,
		Tenant: allTenants, Actor: m.UpdatedBy, Action: what + "." + m.Change, Reason: m.Reason, Revision: m.Revision}
}

func registryChanged(r record.Record, name string) change {
	return change{[]record.Record{r}, func(l *zerolog.Event) {
		l.Str("actor", r.Actor).Str("action", r.Action).Str("name", name).Uint64("revision",
			r.Revision).Msg(logevent.RegistryChanged)
	}}
}

func clip(s string, most int) string {
	if cut := text.Truncate(s, most); cut != s {
		return cut + "…"
	}
	return s
}
