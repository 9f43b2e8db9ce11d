package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// unknownTenant stands on the record of an event whose subject names no tenant.
const unknownTenant = "unknown"

// markRoom is more than the headers of a refused event take.
const markRoom = 16 << 10

// maxSubject bounds a subject on record. Ours are shorter.
const maxSubject = 300

// MismatchError says that an event and the message that it came in do not agree.
type MismatchError struct {
	Reason        outcome.Reason
	Field, Detail string
}

func (e *MismatchError) Error() string { return e.Field + ": " + e.Detail }

// InUseError says that the id belongs to a different event of the tenant, whose
// content it does not reveal.
type InUseError struct{ ID string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("id: %q is in use by a different event; nothing was stored. Publish this one under an id of its "+
		"own, or leave the id out", e.ID)
}

// Refusal is an event that was refused, on its way into EVENTS: from there
// fanout puts it on record and has people told of it.
type Refusal struct {
	Reason outcome.Reason `json:"reason"`
	Field  string         `json:"field,omitempty"`
	Detail string         `json:"detail"`
	// Subject is where it was published, ID what its header Nats-Msg-Id said.
	Subject string `json:"subject"`
	ID      string `json:"id,omitempty"`

	noMsgID bool
	body    []byte
}

// ReasonOf is the reason and the field of an error that refuses an event; ok is
// false for one that does not, such as that NATS is away.
func ReasonOf(err error) (reason outcome.Reason, field string, ok bool) {
	var invalid *envelope.FieldError
	var large *TooLargeError
	var mismatch *MismatchError
	var inUse *InUseError
	switch {
	case errors.As(err, &invalid) && invalid.Field == "tenant":
		return outcome.ReasonSubjectMismatch, "tenant", true
	case errors.As(err, &invalid):
		return outcome.ReasonInvalidEvent, invalid.Field, true
	case errors.As(err, &large):
		return outcome.ReasonPayloadTooLarge, "", true
	case errors.As(err, &mismatch):
		return mismatch.Reason, mismatch.Field, true
	case errors.As(err, &inUse):
		return outcome.ReasonIDInUse, "id", true
	}
	return "", "", false
}

// RefusalOf is what is to be stored of a message that err refuses.
func RefusalOf(m *nats.Msg, err error) Refusal {
	r := Refusal{Subject: m.Subject, body: m.Data, Detail: err.Error()}
	r.Reason, r.Field, _ = ReasonOf(err)
	id := m.Header.Get(jetstream.MsgIDHeader)
	if r.noMsgID = id == ""; envelope.ValidateID(id) == nil {
		r.ID = id
	}
	if r.Reason == outcome.ReasonPayloadTooLarge {
		r.body = nil // nobody reads it
	}
	return r
}

func (e Entry) refusal(err error) Refusal {
	r := Refusal{Subject: e.subject(), body: e.Body, Detail: err.Error(), noMsgID: e.noMsgID}
	r.Reason, r.Field, _ = ReasonOf(err)
	return r
}

// Refuse stores a refused event, and returns once it is stored: the same one,
// refused again within the stream's memory, is stored once. It holds no id of
// an event, so that the mended one gets in.
func (l *Log) Refuse(ctx context.Context, r Refusal) error {
	if most := l.nc.MaxPayload() - markRoom; int64(len(r.body)) > most {
		r.body = nil // it can never be stored with its mark
	}
	m, err := r.message()
	if err != nil {
		return err
	}
	f, err := l.send(m)
	if err != nil {
		return err
	}
	_, err = l.wait(ctx, f)
	return err
}

func (r Refusal) message() (*nats.Msg, error) {
	r.Subject, r.Detail = clip(r.Subject, maxSubject), clip(r.Detail, 1000)
	mark, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("a refused event: %w", err)
	}
	digest := sha256.New()
	digest.Write(mark)
	digest.Write([]byte{0})
	digest.Write(r.body)
	m := nats.NewMsg(streams.IngestSubject(r.storedAt()))
	m.Data = r.body
	m.Header.Set(jetstream.MsgIDHeader, streams.RefusalMsgID(hex.EncodeToString(digest.Sum(nil))))
	m.Header.Set(streams.HeaderRefused, string(mark))
	if r.noMsgID {
		m.Header.Set(streams.HeaderNoMsgID, "1")
	}
	return m, nil
}

// storedAt is the subject under which EVENTS keeps it: never one that a producer
// made up, which may hold wildcards or be longer than the server takes.
func (r Refusal) storedAt() string {
	if tenant, eventType, err := streams.ParseEventSubject(r.Subject); err == nil &&
		envelope.ValidateTenant(tenant) == nil && envelope.ValidateType(eventType) == nil {
		return r.Subject
	}
	return streams.EventSubject(TenantOnRecord(r.Subject), "refused")
}

// TenantOnRecord is the tenant that a subject names, or "unknown".
func TenantOnRecord(subject string) string {
	tokens := strings.Split(subject, ".")
	if len(tokens) < 2 || envelope.ValidateTenant(tokens[1]) != nil {
		return unknownTenant
	}
	return tokens[1]
}

// Refused reads the mark of a refused event. ok is false for any other message.
func Refused(h nats.Header) (r Refusal, ok bool) {
	mark := h.Get(streams.HeaderRefused)
	if mark == "" {
		return Refusal{}, false
	}
	if err := json.Unmarshal([]byte(mark), &r); err != nil || r.Reason == "" {
		r = Refusal{Reason: outcome.ReasonInvalidEvent, Detail: "event: the mark of its refusal cannot be read"}
	}
	return r, true
}

// parse is what Parse says of it.
func (r Refusal) parse(subject string, body []byte) (tenant string, e envelope.Event, rejection *Rejection) {
	e, err := envelope.ParseDraft(body)
	if err != nil {
		e = envelope.Event{}
	}
	if e.ID == "" {
		e.ID = r.ID
	}
	return TenantOnRecord(subject), e, &Rejection{r.Reason, errors.New(r.Detail)}
}

// ReadMessage takes a producer's message apart. Errors are *MismatchError.
func ReadMessage(m *nats.Msg) (Draft, error) {
	tenant, eventType, err := streams.ParseEventSubject(m.Subject)
	if err == nil {
		err = envelope.ValidateTenant(tenant)
	}
	if err != nil {
		return Draft{}, &MismatchError{outcome.ReasonSubjectMismatch, "subject", clip(err.Error(), maxSubject)}
	}
	if name := unsupported(m.Header); name != "" {
		return Draft{}, &MismatchError{outcome.ReasonUnsupportedHeader, name,
			"a producer cannot use this header here; leave it out"}
	}
	return Draft{Tenant: tenant, Raw: m.Data, Trace: TraceIn(m.Header), FromNATS: true, Type: eventType,
		MsgID: m.Header.Get(jetstream.MsgIDHeader)}, nil
}

// unsupported names a header that asks for what we do not do: to ignore it
// would break what its producer relies on. All others that are not ours are
// left behind.
func unsupported(h nats.Header) string {
	var wrong []string
	for name, values := range h {
		lower := strings.ToLower(name)
		switch {
		case strings.EqualFold(name, jetstream.ExpectedStreamHeader) && len(values) == 1 && values[0] == streams.Events:
		case strings.HasPrefix(lower, "waybill-"), strings.HasPrefix(lower, "nats-expected-"),
			strings.HasPrefix(lower, "nats-batch-"),
			strings.HasPrefix(lower, "nats-schedule"), lower == "nats-rollup", lower == "nats-ttl", lower == "nats-incr":
			wrong = append(wrong, clip(name, 64))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return slices.Min(wrong)
}

// clip bounds a text that may quote what producers send.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}
