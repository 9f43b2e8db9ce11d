// Package outside asks the streams what they know of the records in ClickHouse:
// LEDGER, which carried them; EVENTS, which holds the events that they are about;
// CLAIMS, where each attempt was claimed before it was made.
package outside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Records is what is asked of the ledger.
type Records interface {
	// AuditEventRecords yields the records of events with idx < before, by their
	// position in EVENTS within each stretch of the period.
	AuditEventRecords(ctx context.Context, f audit.Filter, before uint64, yield func([]audit.EventRecord) error) error
	// AuditAttemptRecords yields the attempts with idx < before.
	AuditAttemptRecords(ctx context.Context, f audit.Filter, before uint64, yield func(audit.AttemptRecord) error) error
}

const (
	// silence is how long the server may take for the next message.
	silence = 30 * time.Second
	// near is how far apart two positions in EVENTS may be to be read in one go;
	// together is how many make that worth it.
	near     = 256
	together = 16
	// named bounds the mismatches that are listed; the rest is counted.
	named = 1000
)

// Finding is what the streams do not vouch for.
type Finding struct {
	Mismatches []audit.Mismatch
	More       uint64 // that are not listed
	Vouched    audit.Vouched
}

func (f *Finding) add(m *audit.Mismatch) {
	if len(f.Mismatches) >= named {
		f.More++
		return
	}
	f.Mismatches = append(f.Mismatches, *m)
}

// Events asks EVENTS about the records of events.
type Events struct {
	js  jetstream.JetStream
	log *eventlog.Log
}

// OpenEvents makes Events on a connection.
func OpenEvents(nc *nats.Conn, js jetstream.JetStream) (*Events, error) {
	log, err := eventlog.New(nc, silence)
	return &Events{js, log}, err
}

// Held says how far EVENTS goes back, now.
func (e *Events) Held(ctx context.Context) (audit.EventsHeld, error) {
	s, err := e.js.Stream(ctx, streams.Events)
	if err != nil {
		return audit.EventsHeld{}, fmt.Errorf("stream %s: %w", streams.Events, err)
	}
	i := s.CachedInfo()
	held := audit.EventsHeld{Created: i.Created, First: i.State.FirstSeq, Last: i.State.LastSeq}
	if i.State.Msgs > 0 {
		held.FirstAt = i.State.FirstTime
	}
	return held, nil
}

// Vouch compares records, which were read before, with EVENTS. They are ordered
// by their positions in it.
func (e *Events) Vouch(ctx context.Context, records []audit.EventRecord, out *Finding) error {
	held, err := e.Held(ctx)
	if err != nil {
		return err
	}
	for first := 0; first < len(records); {
		end := first + 1
		for end < len(records) && records[end].EventSeq-records[end-1].EventSeq <= near {
			end++
		}
		if err := e.stretch(ctx, records[first:end], held, out); err != nil {
			return err
		}
		first = end
	}
	return nil
}

// stretch compares records whose events lie close together.
func (e *Events) stretch(ctx context.Context, records []audit.EventRecord, held audit.EventsHeld, out *Finding) error {
	read := map[uint64]*audit.HeldEvent{}
	from, to := max(records[0].EventSeq, held.First), min(records[len(records)-1].EventSeq, held.Last)
	if len(records) >= together && from <= to {
		var err error
		if read, err = e.read(ctx, from, to); err != nil {
			return err
		}
	}
	for _, r := range records {
		m := read[r.EventSeq]
		found, beyond := audit.VouchEvent(r, held, m)
		if found != nil && m == nil && held.First <= r.EventSeq && r.EventSeq <= held.Last {
			// What was not read is asked for at the leader; what EVENTS has let go of
			// meanwhile is not missing.
			again, err := e.at(ctx, r.EventSeq)
			if err != nil {
				return err
			}
			now := held
			if again == nil {
				if now, err = e.Held(ctx); err != nil {
					return err
				}
			}
			found, beyond = audit.VouchEvent(r, now, again)
		}
		switch {
		case found != nil:
			out.add(found)
		case beyond:
			out.Vouched.EventsBeyond++
		default:
			out.Vouched.Events++
		}
	}
	return nil
}

func (e *Events) at(ctx context.Context, seq uint64) (*audit.HeldEvent, error) {
	m, err := e.log.Read(ctx, seq)
	if errors.Is(err, eventlog.ErrNotStored) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return heldEvent(m.Subject, m.Body, m.StoredAt), nil
}

func heldEvent(subject string, body []byte, at time.Time) *audit.HeldEvent {
	h := &audit.HeldEvent{StoredAt: at.UTC()}
	if tenant, _, err := streams.ParseEventSubject(subject); err == nil {
		h.Tenant = tenant
	}
	if ev, err := envelope.Parse(body); err == nil {
		h.EventID, h.DataDigest = ev.ID, envelope.DigestHex(ev.Data)
	}
	return h
}

// read returns the messages from first to last.
func (e *Events) read(ctx context.Context, first, last uint64) (map[uint64]*audit.HeldEvent, error) {
	out := map[uint64]*audit.HeldEvent{}
	err := each(ctx, e.js, streams.Events, first, last, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		out[meta.Sequence.Stream] = heldEvent(m.Subject(), m.Data(), meta.Timestamp)
	})
	return out, err
}

// each yields the messages of a stream from first to last.
func each(ctx context.Context, js jetstream.JetStream, name string, first, last uint64,
	yield func(jetstream.Msg, *jetstream.MsgMetadata)) error {
	fail := func(err error) error { return fmt.Errorf("reading %s: %w", name, err) }
	c, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(first, 1)})
	if err != nil {
		return fail(err)
	}
	messages, err := c.Messages()
	if err != nil {
		return fail(err)
	}
	defer messages.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, silence)
		m, err := messages.Next(jetstream.NextContext(bounded))
		cancel()
		if err != nil {
			return fail(err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fail(err)
		}
		if meta.Sequence.Stream <= last {
			yield(m, meta)
		}
		if meta.Sequence.Stream >= last || meta.NumPending == 0 {
			return nil
		}
	}
}
