package escalator

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/streams"
)

// allTenants stands on the record of what is not of one tenant.
const allTenants = "all"

// openRecorders reads the buckets' own streams, so whoever changed a channel or
// a policy, and whatever died then, the change is recorded: once, under an id
// that follows from its revision.
func (e *Escalator) openRecorders(ctx context.Context) error {
	for name, handle := range map[string]stage.Handler{streams.ChannelsStream: e.recordChannel,
		streams.EscalationPoliciesStream: e.recordPolicy} {
		loop, err := stage.OpenLoop(ctx, stage.LoopOptions{JS: e.js, Stream: name, Consumer: streams.RecorderConsumer,
			Handle: handle, Concurrency: 1,
			DrainTimeout: e.o.DrainTimeout, Log: e.log})
		if err != nil {
			return err
		}
		e.recorders = append(e.recorders, loop)
	}
	return nil
}

func (e *Escalator) recordChannel(ctx context.Context, m stage.Message) stage.Settlement {
	c, err := channel.Registry().Decode(m.Data)
	if err != nil || m.Header.Get("KV-Operation") != "" {
		return e.unreadable(m, err)
	}
	r := changed(streams.ChannelsBucket, "channel", c.Name, c.Meta)
	r.Channel, r.ChannelKind, r.URL = c.Name, string(c.Kind), c.Address()
	return e.store(ctx, r)
}

func (e *Escalator) recordPolicy(ctx context.Context, m stage.Message) stage.Settlement {
	p, err := escalation.Policies().Decode(m.Data)
	if err != nil || m.Header.Get("KV-Operation") != "" {
		return e.unreadable(m, err)
	}
	r := changed(streams.EscalationPoliciesBucket, "escalation_policy", p.Name, p.Meta)
	r.EscalationPolicy, r.EventTypes = p.Name, p.Types
	if len(p.Tenants) == 1 {
		r.Tenant = p.Tenants[0]
	}
	said, err := json.Marshal(map[string]any{"priority": p.Priority, "tenants": p.Tenants, "reasons": p.Reasons,
		"steps":  p.Steps,
		"repeat": p.Repeat.String(), "max_duration": p.MaxDuration.String(), "window": p.Window.String()})
	if err != nil {
		return e.unreadable(m, err)
	}
	r.Detail = string(said)
	return e.store(ctx, r)
}

func changed(bucket, what, key string, m revision.Meta) record.Record {
	return record.Record{ID: record.RevisionID(bucket, key, m.Revision), Kind: record.OperatorAction, At: m.UpdatedAt,
		Tenant: allTenants,
		Actor:  m.UpdatedBy, Action: what + "." + m.Change, Reason: m.Reason, Revision: m.Revision}
}

func (e *Escalator) unreadable(m stage.Message, err error) stage.Settlement {
	e.log.Error().Err(err).Str("subject", m.Subject).Str("operation",
		m.Header.Get("KV-Operation")).Msg("registry.unreadable")
	return stage.Drop("not a revision")
}

func (e *Escalator) store(ctx context.Context, r record.Record) stage.Settlement {
	msg, err := r.Message()
	if err == nil {
		_, err = e.pub.Publish(ctx, msg)
	}
	if err != nil {
		e.log.Warn().Err(err).Str("record_id", r.ID).Msg("record.handed_back")
		return stage.Later(transientPause)
	}
	e.log.Info().Str("actor", r.Actor).Str("action", r.Action).Str("name",
		strings.TrimSpace(r.Channel+" "+r.EscalationPolicy)).Uint64("revision", r.Revision).Msg("registry.changed")
	return stage.Done()
}
