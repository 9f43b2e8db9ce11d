package fanout

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// expansion is what one event becomes: its record, the records of what is owed
// (or of why not), and the deliveries.
type expansion struct {
	records    []record.Record
	deliveries []delivery.Delivery // of a replay

	// matched are those to whom an event is owed; owe makes what one of them is
	// owed. since is when somebody may first have published it; zero: nobody has.
	matched []*registry.Endpoint
	owe     func(*registry.Endpoint) (record.Record, delivery.Delivery)
	since   time.Time
}

// heldSince says that the deliveries may have been published before, and taken.
func (x *expansion) heldSince(since time.Time) {
	for i := range x.deliveries {
		x.deliveries[i].HeldSince = since
	}
}

// matcher is what Expand asks the registry.
type matcher interface {
	Match(tenant, eventType string) []*registry.Endpoint
	Get(id string) (*registry.Endpoint, bool)
	EventTypes(tenant, eventType string) []*registry.EventType
}

// Expand decides what becomes of an event: rejected, a duplicate, unmatched, or
// accepted and owed to every endpoint that matches. owner is the event to which
// its id belongs, nil when that is itself. Pure, but for reading the registry. The
// same message always gives records and deliveries of the same ids; what they
// say may change with the registry, so the first record that is stored stands.
func Expand(m stage.Message, r reading, owner *eventlog.Owner, endpoints matcher, now time.Time) expansion {
	switch {
	case r.rejection != nil:
		if r.tenant == "" {
			r.tenant = eventlog.TenantOnRecord(m.Subject)
		}
		return rejected(m, r.tenant, r.event, r.rejection.Reason, r.rejection.Err, now)
	case owner != nil:
		return repeated(m, r.tenant, r.event, owner, now)
	}
	return accepted(m, r.tenant, r.event, endpoints, now)
}

// repeated is an event whose id belongs to one that is stored before it: it is the
// same event again, or another one that nobody may get under this id.
func repeated(m stage.Message, tenant string, e envelope.Event, owner *eventlog.Owner, now time.Time) expansion {
	if !eventlog.ContentOf(m.Subject, m.Header, e).Same(owner.Content()) {
		return rejected(m, tenant, e, outcome.ReasonIDInUse, fmt.Errorf(
			"the id belongs to another event, stored before it as number %d; publish this one under an id of its own",
			owner.Seq), now)
	}
	first := eventRecord(record.EventDuplicate, m, tenant, e, now)
	first.Reason, first.Detail = string(outcome.ReasonDuplicate),
		fmt.Sprintf("the same event is stored as number %d; nothing more is owed", owner.Seq)
	return expansion{records: []record.Record{first}}
}

func rejected(m stage.Message, tenant string, e envelope.Event, reason outcome.Reason, why error,
	now time.Time) expansion {
	r := eventRecord(record.EventRejected, m, tenant, e, now)
	subject := m.Subject
	if by, ok := eventlog.Refused(m.Header); ok {
		subject = by.Subject // where its producer published it
	}
	r.Reason, r.Detail, r.NATSSubject = string(reason), clip(safe(why), 500), clip(subject, 300)
	return expansion{records: []record.Record{r}}
}

// safe is an error without what it may quote of an event.
func safe(why error) string {
	text, _ := redact.Default().Text(why.Error())
	return text
}

func accepted(m stage.Message, tenant string, e envelope.Event, endpoints matcher, now time.Time) expansion {
	matched, reason := endpoints.Match(tenant, e.Type), outcome.ReasonNoSubscription
	if only := m.Header.Get(streams.HeaderOnlyEndpoint); only != "" {
		matched, reason = nil, outcome.ReasonEndpointUnknown
		if ep, ok := endpoints.Get(only); ok && ep.Tenant == tenant && ep.State == registry.Enabled {
			matched = []*registry.Endpoint{ep}
		}
	}
	if len(matched) == 0 {
		first := eventRecord(record.EventUnmatched, m, tenant, e, now)
		first.Reason = string(reason)
		return expansion{records: []record.Record{first}}
	}
	return owed(m, tenant, e, matched, endpoints.EventTypes(tenant, e.Type), now)
}

// owed is an event that matched, and what follows from it.
func owed(m stage.Message, tenant string, e envelope.Event, matched []*registry.Endpoint, rules []*registry.EventType,
	now time.Time) expansion {
	trace := eventlog.TraceIn(m.Header)
	first := eventRecord(record.EventAccepted, m, tenant, e, now)
	first.EndpointIDs = make([]string, 0, len(matched))
	for _, ep := range matched {
		first.EndpointIDs = append(first.EndpointIDs, ep.ID)
	}
	first.Endpoints = len(matched)
	owe := func(ep *registry.Endpoint) (record.Record, delivery.Delivery) {
		terms := registry.Resolve(registry.Question{Type: e.Type, DeliverBy: e.DeliverBy, OwedAt: m.StoredAt, Endpoint: ep,
			Rules: rules})
		d := delivery.Delivery{
			EventID: e.ID, EndpointID: ep.ID, Tenant: tenant, Type: e.Type, EventSeq: m.Seq,
			// The window starts when the event was stored: time in a queue counts.
			OwedAt: m.StoredAt, DeliverBy: terms.DeliverBy, Fifo: ep.Ordering == registry.FIFO,
			Traceparent: trace.Parent, Tracestate: trace.State, Event: m.Data,
		}
		return owedRecord(d, ep, now), d
	}
	return expansion{records: []record.Record{first}, matched: matched, owe: owe}
}

// follow is what an event becomes that was expanded before, by somebody who may
// have died before everything that follows was stored: what is on record stands,
// however the endpoints have changed since. One that is gone meanwhile ends its
// delivery with a reason.
func follow(m stage.Message, stands record.Record, ids []string, endpoints matcher, now time.Time) expansion {
	if stands.Kind != record.EventAccepted {
		return expansion{}
	}
	e, err := envelope.Parse(m.Data)
	if err != nil {
		return expansion{} // an earlier version took it; this one cannot read it
	}
	var matched []*registry.Endpoint
	for _, id := range ids {
		ep, ok := endpoints.Get(id)
		if !ok {
			ep = &registry.Endpoint{ID: id, Tenant: stands.Tenant}
		}
		matched = append(matched, ep)
	}
	x := owed(m, stands.Tenant, e, matched, endpoints.EventTypes(stands.Tenant, e.Type), now)
	x.records = x.records[1:]
	return x
}

func owedRecord(d delivery.Delivery, ep *registry.Endpoint, now time.Time) record.Record {
	return record.Record{
		ID: record.OwedID(d.EventID, d.EndpointID, d.Replay), Kind: record.DeliveryOwed, At: now, Tenant: d.Tenant,
		EventID: d.EventID, EndpointID: d.EndpointID, EventType: d.Type, EventSeq: d.EventSeq, StoredAt: d.OwedAt,
		DeliverBy: d.DeliverBy, ReplayID: d.Replay, EndpointRevision: ep.Revision,
	}
}

func eventRecord(kind record.Kind, m stage.Message, tenant string, e envelope.Event, now time.Time) record.Record {
	r := record.Record{
		ID: record.EventRecordID(m.Seq, m.StoredAt), Kind: kind, At: now, Tenant: tenant, EventID: e.ID, EventType: e.Type,
		EventAt: e.Timestamp, EventSeq: m.Seq, StoredAt: m.StoredAt, DeliverBy: e.DeliverBy,
		NoMsgID: m.Header.Get(nats.MsgIdHdr) == "" || m.Header.Get(streams.HeaderNoMsgID) != "",
	}
	if e.ID == "" {
		r.EventID = claimedID(m)
	}
	if e.Subject != nil {
		r.SubjectType, r.SubjectID = e.Subject.Type, e.Subject.ID
	}
	if e.Data != nil {
		r.DataDigest, r.DataBytes = envelope.DigestHex(e.Data), len(e.Data)
	}
	return r
}

// claimedID is the id that the header of an unreadable event gives, so that its
// producer finds the record.
func claimedID(m stage.Message) string {
	id := m.Header.Get(nats.MsgIdHdr)
	if _, ok := eventlog.Refused(m.Header); ok || envelope.ValidateID(id) != nil {
		return ""
	}
	return id
}

// clip bounds a text on record; what producers send may be quoted in it.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}
