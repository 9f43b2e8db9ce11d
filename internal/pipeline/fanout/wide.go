package fanout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// listedMost is how many endpoints one record lists: 1,000 ids are 32 KB, of
	// the megabyte that a message may have. An event for more lists them in
	// records of their own.
	listedMost = 1000
	// blockMost is how many deliveries of one event are made and published at a
	// time: an event for many takes the memory of a few, and lets others between.
	blockMost = 500
	// wideAtOnce is how many events for more than listedMost endpoints are being
	// published at once; wideWaiting is how many wait for that at most, without a
	// place among those that are being expanded. The others are handed back.
	wideAtOnce  = 2
	wideWaiting = 64
)

// errWideBusy says that too many events for many endpoints are in hand.
var errWideBusy = errors.New("too many events for many endpoints are being expanded")

// wide keeps events for many endpoints from taking every place.
type wide struct {
	places  chan struct{}
	waiting atomic.Int64
}

func newWide() *wide { return &wide{places: make(chan struct{}, wideAtOnce)} }

// enter waits for a place and returns what leaves it.
func (w *wide) enter(ctx context.Context, m stage.Message) (leave func(), err error) {
	if w.waiting.Add(1) > wideWaiting {
		w.waiting.Add(-1)
		return nil, errWideBusy
	}
	defer w.waiting.Add(-1)
	m.Release()
	select {
	case w.places <- struct{}{}:
		return func() { <-w.places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// endpointsDigest identifies a list of endpoints, whatever records hold it.
func endpointsDigest(ids []string) string {
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:])
}

// chunksOf are the records that list to whom an event is owed, where that is too
// much for one: they are stored before the one that decides, which names them.
// Those that no such record names are of an expansion that did not come to stand:
// their ids are its own.
func chunksOf(first record.Record) (out []record.Record) {
	n := 0
	for ids := range slices.Chunk(first.EndpointIDs, listedMost) {
		out = append(out, record.Record{ID: record.EventEndpointsID(first.ID, first.At, n), Kind: record.EventEndpoints,
			At: first.At, Tenant: first.Tenant,
			EventID: first.EventID, EventType: first.EventType, EventSeq: first.EventSeq, StoredAt: first.StoredAt,
			EndpointIDs: ids, Endpoints: len(first.EndpointIDs), EndpointsDigest: endpointsDigest(first.EndpointIDs)})
		n++
	}
	return out
}

// list stores to whom an event is owed in records of their own, if that is too
// much for the record that decides, and makes that refer to them. Should the
// process die before the one that decides is stored, nothing refers to them.
func (f *Fanout) list(ctx context.Context, first *record.Record) error {
	if len(first.EndpointIDs) <= listedMost {
		return nil
	}
	var msgs []*nats.Msg
	for _, r := range chunksOf(*first) {
		m, err := r.Message()
		if err != nil {
			return err
		}
		msgs = append(msgs, m)
	}
	acks, err := f.pub.PublishAll(ctx, msgs...)
	if err != nil {
		return err
	}
	first.EndpointsDigest, first.EndpointIDs = endpointsDigest(first.EndpointIDs), nil
	for _, a := range acks {
		first.EndpointsAt = append(first.EndpointsAt, a.Sequence)
	}
	return nil
}

// listed reads to whom an event is owed, as the record that stands says.
func (f *Fanout) listed(ctx context.Context, stands record.Record) ([]string, error) {
	if len(stands.EndpointsAt) == 0 {
		return stands.EndpointIDs, nil
	}
	s, err := f.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, seq := range stands.EndpointsAt {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) && seq < s.CachedInfo().State.FirstSeq {
			return nil, errListGone
		}
		if err != nil {
			return nil, fmt.Errorf("LEDGER %d, which lists endpoints of event %s: %w", seq, stands.EventID, err)
		}
		r, err := record.Decode(m.Data)
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.EndpointIDs...)
	}
	if endpointsDigest(ids) != stands.EndpointsDigest {
		return nil, errListGone
	}
	return ids, nil
}

// errListGone says that LEDGER no longer holds to whom an event is owed: it was
// trimmed a day after ClickHouse had it, or is another stream.
var errListGone = errors.New("LEDGER no longer holds the list of the event's endpoints")

// followed is follow, with what the record that stands refers to. Where that is
// gone, those stand that the event matches now, as if it came for the first time.
func (f *Fanout) followed(ctx context.Context, m stage.Message, stands record.Record) (expansion, error) {
	ids, err := f.listed(ctx, stands)
	if errors.Is(err, errListGone) {
		f.log.Error().Str("tenant", stands.Tenant).Str("event_id", stands.EventID).Msg(logevent.EventEndpointsGone)
		ids = nil
		for _, ep := range f.view.Match(stands.Tenant, stands.EventType) {
			ids = append(ids, ep.ID)
		}
	} else if err != nil {
		return expansion{}, err
	}
	x := follow(m, stands, ids, f.view, time.Now())
	x.since = m.StoredAt // whoever stated it may have published them
	return x, nil
}

// publishOwed stores what is owed and the deliveries, block by block. If the
// process dies in between, the event is expanded again: the records are recognised
// by their ids, and what was not published is published then.
func (f *Fanout) publishOwed(ctx context.Context, m stage.Message, x expansion,
	trace func() (parent, state string)) error {
	var ordered []*nats.Msg
	for block := range slices.Chunk(x.matched, blockMost) {
		free, fifo, err := f.block(x, block, trace)
		if err != nil {
			return err
		}
		for _, msgs := range free {
			if err := f.hand(ctx, msgs); err != nil {
				return err
			}
		}
		ordered = append(ordered, fifo...)
	}
	if len(ordered) > 0 {
		if err := f.inOrder(ctx, m); err != nil {
			return err
		}
		if err := f.hand(ctx, ordered); err != nil {
			return err
		}
	}
	f.owed.Add(float64(len(x.matched)))
	return nil
}

// block makes the messages of some endpoints: what is owed, then what is to be
// delivered in any order; and, for later, what keeps order.
func (f *Fanout) block(x expansion, endpoints []*registry.Endpoint,
	trace func() (parent, state string)) (now [][]*nats.Msg, fifo []*nats.Msg, err error) {
	var records, free []*nats.Msg
	for _, ep := range endpoints {
		r, d := x.owe(ep)
		m, err := r.Message()
		if err != nil {
			return nil, nil, err
		}
		records = append(records, m)
		d.HeldSince = x.since
		d.Traceparent, d.Tracestate = trace()
		if d.Fifo {
			fifo = append(fifo, d.First(f.o.Partitions))
		} else {
			free = append(free, d.First(f.o.Partitions))
		}
	}
	if now = [][]*nats.Msg{records}; len(free) > 0 {
		now = append(now, free)
	}
	return now, fifo, nil
}
