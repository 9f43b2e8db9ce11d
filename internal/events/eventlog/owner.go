package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// Positions says where EVENTS may hold events of an id: in order, below a
// sequence. It may name more than there are, never less.
type Positions interface {
	Before(tenant, id string, seq uint64) []uint64
}

// Latest is a sequence above all.
const Latest = math.MaxUint64

// Owner is the event that an id of a tenant belongs to.
type Owner struct {
	Message
	Event envelope.Event
}

// Content of the event.
func (o *Owner) Content() Content { return ContentOf(o.Subject, o.Header, o.Event) }

// Owner returns to whom an id belongs, of what is stored below seq: to the first
// valid event with it that EVENTS still holds, and that was not rejected because
// the id was another's then. Nil: to nobody.
func (l *Log) Owner(ctx context.Context, at Positions, tenant, id string, seq uint64) (*Owner, error) {
	for _, candidate := range at.Before(tenant, id, seq) {
		m, err := l.Read(ctx, candidate)
		if errors.Is(err, ErrNotStored) {
			continue // it has expired since
		}
		if err != nil {
			return nil, err
		}
		of, e, rejection := Parse(m.Subject, m.Header, m.Body)
		if rejection != nil || of != tenant || e.ID != id {
			continue
		}
		switch disowned, err := l.disowned(ctx, candidate); {
		case err != nil:
			return nil, err
		case !disowned:
			return &Owner{m, e}, nil
		}
	}
	return nil, nil
}

// Knowing makes the log look at what EVENTS holds before it stores an event: one
// whose id belongs to another is refused at once, however long ago that was
// stored. What at has not come to yet, fanout decides.
func (l *Log) Knowing(at Positions) { l.at = at }

// known is the event to which the id of e belongs, as far as is known. A look that
// fails is none: the event is sent, and fanout decides.
func (l *Log) known(e Entry) *Owner {
	if l.at == nil || l.nc.Status() != nats.CONNECTED {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.bound)
	defer cancel()
	owner, err := l.Owner(ctx, l.at, e.Tenant, e.Event.ID, Latest)
	if err != nil {
		return nil
	}
	return owner
}

// Disown keeps that the event at seq was rejected because its id was in use. Its own place in
// EVENTS is not enough: once the owner has expired, it would be
// the first with that id, and what nobody was sent would pass for sent.
func (l *Log) Disown(ctx context.Context, seq uint64) error {
	subject, err := l.disownedSubject(ctx, seq)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	if _, err := l.leader.Publish(subject, []byte(strconv.FormatUint(seq, 10)), nats.Context(ctx)); err != nil {
		return fmt.Errorf("keeping that event %d was rejected: %w", seq, err)
	}
	return nil
}

func (l *Log) disowned(ctx context.Context, seq uint64) (bool, error) {
	subject, err := l.disownedSubject(ctx, seq)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	switch _, err := l.leader.GetLastMsg(streams.EventIDs, subject, nats.Context(ctx)); {
	case errors.Is(err, nats.ErrMsgNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", streams.EventIDs, err)
	}
	return true, nil
}

func (l *Log) disownedSubject(ctx context.Context, seq uint64) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.bound)
	defer cancel()
	info, err := l.leader.StreamInfo(streams.Events, nats.Context(ctx))
	if err != nil {
		return "", fmt.Errorf("stream %s: %w", streams.Events, err)
	}
	return streams.DisownedSubject(info.Created.UnixNano(), seq), nil
}
