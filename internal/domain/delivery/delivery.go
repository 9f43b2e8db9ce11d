// Package delivery is the message that carries a delivery between stages: one
// event owed to one endpoint. Fanout makes the first one, the dispatcher those
// of later attempts. Its body is the event as the producer published it,
// untouched; its headers are the delivery's state.
package delivery

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Delivery is the obligation, and how far it has come.
type Delivery struct {
	EventID    string
	EndpointID string
	Tenant     string
	Type       string
	EventSeq   uint64 // the event's position in EVENTS
	Replay     string // id of the replay it belongs to, or empty

	OwedAt    time.Time // the start of its budget
	DeliverBy time.Time // zero: no deadline

	// Attempts counts all attempts made; the next one has the number
	// Attempts + 1. Spent counts those of this budget. They differ in a replay.
	Attempts, Spent int
	Responded       bool      // some attempt of this budget got a response
	Due             time.Time // when the next attempt may start; zero: now
	// Wait is how long it was until Due when that was decided; 0: not known.
	Wait time.Duration

	// Repeated says that the attempt before met a connection that was about to
	// end, cost nothing, and is made again: the next one is not, in turn.
	Repeated bool

	// Fifo says that the endpoint keeps order: every attempt is made from the
	// message at the head of its own queue.
	Fifo bool

	Traceparent, Tracestate string
	// LastAttempt is the traceparent of the attempt before, when it was traced.
	LastAttempt string

	// Turn is when an endpoint with a rate limit of TurnOf per second may be
	// called for this delivery; zero: it has none.
	Turn   time.Time
	TurnOf float64

	// HeldSince is when the next attempt can first have been claimed by somebody
	// who was handed what this message says before; zero: by nobody. The message
	// that said it may be gone, and with it what tells.
	HeldSince time.Time

	// Event is the producer's message.
	Event []byte
}

// First is the message that asks for the first attempt.
func (d Delivery) First(partitions int) *nats.Msg {
	id := streams.DeliveryID(d.EventID, d.EndpointID)
	if d.Replay != "" {
		id = streams.ReplayDeliveryID(d.EventID, d.EndpointID, d.Replay)
	}
	if d.Fifo {
		return d.message(streams.FifoSubject(d.EndpointID), id)
	}
	return d.message(streams.DeliverySubject(streams.Partition(d.EndpointID, partitions), d.EndpointID), id)
}

// Later is the message that asks for the next attempt after Attempts of them,
// at Due. Within one chain of attempts its id is new for each number of
// attempts, and for each turn it was given; a replay has a chain of its own.
func (d Delivery) Later(partitions int) *nats.Msg {
	id := streams.AttemptID(d.EventID, d.EndpointID, d.Attempts)
	if d.Replay != "" {
		id += "/r" + d.Replay
	}
	if !d.Turn.IsZero() {
		id += "/t" + strconv.FormatInt(d.Turn.UnixNano(), 10)
	}
	return d.message(streams.RetrySubject(streams.Partition(d.EndpointID, partitions), d.EndpointID), id)
}

func (d Delivery) message(subject, id string) *nats.Msg {
	h := nats.Header{
		nats.MsgIdHdr:           {id},
		streams.HeaderEvent:     {d.EventID},
		streams.HeaderEndpoint:  {d.EndpointID},
		streams.HeaderTenant:    {d.Tenant},
		streams.HeaderType:      {d.Type},
		streams.HeaderEventSeq:  {strconv.FormatUint(d.EventSeq, 10)},
		streams.HeaderOwedAt:    {formatTime(d.OwedAt)},
		streams.HeaderAttempts:  {strconv.Itoa(d.Attempts)},
		streams.HeaderSpent:     {strconv.Itoa(d.Spent)},
		streams.HeaderResponded: {map[bool]string{true: "1", false: "0"}[d.Responded]},
	}
	for name, value := range map[string]string{
		streams.HeaderReplay: d.Replay, streams.HeaderDeliverBy: formatTime(d.DeliverBy),
		streams.HeaderDue: formatTime(d.Due), streams.HeaderWait: formatWait(d.Wait),
		streams.HeaderTraceparent: d.Traceparent, streams.HeaderTracestate: d.Tracestate,
		streams.HeaderTurn: formatTime(d.Turn), streams.HeaderTurnOf: formatRate(d.TurnOf),
		streams.HeaderRepeated:    map[bool]string{true: "1"}[d.Repeated],
		streams.HeaderOrdering:    map[bool]string{true: "fifo"}[d.Fifo],
		streams.HeaderLastAttempt: d.LastAttempt, streams.HeaderHeldSince: formatTime(d.HeldSince),
	} {
		if value != "" {
			h[name] = []string{value}
		}
	}
	return &nats.Msg{Subject: subject, Header: h, Data: d.Event}
}

// Parse reads a message of DELIVERIES or RETRY. Only our own stages write
// there, so an error means that somebody else did.
func Parse(h nats.Header, data []byte) (Delivery, error) {
	p := parser{h: h}
	d := Delivery{
		EventID: h.Get(streams.HeaderEvent), EndpointID: h.Get(streams.HeaderEndpoint),
		Tenant: h.Get(streams.HeaderTenant), Type: h.Get(streams.HeaderType), Replay: h.Get(streams.HeaderReplay),
		EventSeq: p.number(streams.HeaderEventSeq), OwedAt: p.time(streams.HeaderOwedAt, true),
		DeliverBy: p.time(streams.HeaderDeliverBy, false), Due: p.time(streams.HeaderDue, false),
		Wait: p.wait(streams.HeaderWait), Attempts: int(p.number(streams.HeaderAttempts)),
		Spent:       int(p.number(streams.HeaderSpent)),
		Responded:   h.Get(streams.HeaderResponded) == "1",
		Traceparent: h.Get(streams.HeaderTraceparent), Tracestate: h.Get(streams.HeaderTracestate),
		Turn: p.time(streams.HeaderTurn, false), TurnOf: p.rate(streams.HeaderTurnOf),
		Repeated:    h.Get(streams.HeaderRepeated) == "1",
		Fifo:        h.Get(streams.HeaderOrdering) == "fifo",
		LastAttempt: h.Get(streams.HeaderLastAttempt),
		HeldSince:   p.time(streams.HeaderHeldSince, false),
		Event:       data,
	}
	if !ids.Valid(ids.Endpoint, d.EndpointID) {
		p.err = errors.Join(p.err, fmt.Errorf("%s: %q is not an endpoint's id", streams.HeaderEndpoint, d.EndpointID))
	}
	return d, errors.Join(p.err, envelope.ValidateID(d.EventID), envelope.ValidateTenant(d.Tenant))
}

type parser struct {
	h   nats.Header
	err error
}

func (p *parser) number(name string) uint64 {
	n, err := strconv.ParseUint(p.h.Get(name), 10, 63)
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("%s: %q is not a number", name, p.h.Get(name)))
	}
	return n
}

func (p *parser) time(name string, required bool) time.Time {
	v := p.h.Get(name)
	if v == "" && !required {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("%s: %q is not an RFC 3339 time", name, v))
	}
	return t
}

func (p *parser) wait(name string) time.Duration {
	if p.h.Get(name) == "" {
		return 0
	}
	return time.Duration(p.number(name))
}

func (p *parser) rate(name string) float64 {
	v := p.h.Get(name)
	if v == "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil {
		p.err = errors.Join(p.err, fmt.Errorf("%s: %q is not a number", name, v))
	}
	return f
}

func formatRate(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'g', -1, 64)
}

func formatWait(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return strconv.FormatInt(int64(d), 10)
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
