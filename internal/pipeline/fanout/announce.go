package fanout

import (
	"encoding/json"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// Rejection is what whoever listens to rejected.<tenant> gets of an event that
// was rejected, without its content.
type Rejection struct {
	ID     string `json:"id,omitempty"` // as far as it could be read
	Tenant string `json:"tenant"`
	Type   string `json:"type,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"`  // the key or header at fault
	Digest string `json:"digest,omitempty"` // of the bytes of data
	Seq    uint64 `json:"seq"`              // where EVENTS keeps it
	// Subject is where it was published.
	Subject string `json:"subject"`
}

// announce tells whoever listens of a rejection that is on record. Nothing
// depends on it: who did not listen finds the record.
func (f *Fanout) announce(m stage.Message, r record.Record) {
	why, _ := eventlog.Refused(m.Header)
	b, err := json.Marshal(Rejection{ID: r.EventID, Tenant: r.Tenant, Type: r.EventType, Reason: r.Reason,
		Detail: r.Detail,
		Field:  why.Field, Digest: r.DataDigest, Seq: m.Seq, Subject: r.NATSSubject})
	if err == nil {
		err = f.o.NC.Publish(streams.RejectedSubject(r.Tenant), b)
	}
	if err != nil {
		f.log.Warn().Err(err).Str("event_id", r.EventID).Msg(logevent.RejectionNotAnnounced)
	}
}
