package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// dedupeMargin keeps us clear of the edge of a stream's dedupe window.
	dedupeMargin = 15 * time.Second
	// findBound keeps a search in a stream from holding a message for ever.
	findBound = 30 * time.Second
)

// Journal is a stream of statements, each identified by its message id, of which
// the first that is stored stands: how two processes that handle the same work,
// or one and its successor after a crash, come to the same decision.
type Journal struct {
	js     jetstream.JetStream
	pub    *Publisher
	stream string
	window time.Duration // how long the stream remembers ids
	now    func() time.Time
}

// By makes the journal go by another clock than this machine's.
func (j *Journal) By(c *Clock) *Journal {
	j.now = c.Now
	return j
}

// OpenJournal binds to a stream, which must be there.
func OpenJournal(ctx context.Context, js jetstream.JetStream, pub *Publisher, stream string) (*Journal, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w; mend it with: waybill streams apply", stream, err)
	}
	return &Journal{js: js, pub: pub, stream: stream, window: s.CachedInfo().Config.Duplicates, now: time.Now}, nil
}

// State stores m, unless a statement with its id stands already, and returns the
// data of the one that stands; mine says that it is m. since is when a statement
// with that id can first have been stored, zero when there is none to be
// suspected: if the stream may have forgotten the id since then, it is searched.
// also are further subjects where a statement with that id may stand.
func (j *Journal) State(ctx context.Context, m *nats.Msg, since time.Time, also ...string) (stands []byte, mine bool, err error) {
	id := m.Header.Get(nats.MsgIdHdr)
	if !since.IsZero() && j.now().Sub(since) > j.window-dedupeMargin {
		if stands, err = j.find(ctx, append(also, m.Subject), id, since); err != nil {
			return nil, false, err
		}
	}
	if stands == nil {
		ack, err := j.pub.Publish(ctx, m)
		if err != nil {
			return nil, false, fmt.Errorf("%s in %s: %w", id, j.stream, err)
		}
		if !ack.Duplicate {
			return m.Data, true, nil
		}
		if stands, err = j.get(ctx, ack.Sequence); err != nil {
			return nil, false, err
		}
	}
	// Equal when an earlier try of this very publish had been stored.
	return stands, bytes.Equal(stands, m.Data), nil
}

// get reads one stored message.
func (j *Journal) get(ctx context.Context, seq uint64) ([]byte, error) {
	s, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", j.stream, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("stream %s, message %d: %w", j.stream, seq, err)
	}
	return m.Data, nil
}

// find searches subjects for a message id from a time on; nil means that it is
// not there. It is for the rare message that was in somebody's hand longer ago
// than the stream remembers ids.
func (j *Journal) find(ctx context.Context, subjects []string, id string, from time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, findBound)
	defer cancel()
	failed := func(err error) error { return fmt.Errorf("searching %s for %s: %w", j.stream, id, err) }
	consumer, err := j.js.CreateConsumer(ctx, j.stream, jetstream.ConsumerConfig{
		FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, InactiveThreshold: findBound,
	})
	if err != nil {
		return nil, failed(err)
	}
	defer func() { _ = j.js.DeleteConsumer(context.WithoutCancel(ctx), j.stream, consumer.CachedInfo().Name) }()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		batch, err := consumer.FetchNoWait(1000)
		if err != nil {
			return nil, failed(err)
		}
		got := uint64(0)
		for m := range batch.Messages() {
			got++
			if m.Headers().Get(nats.MsgIdHdr) == id {
				return m.Data(), nil
			}
		}
		if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
			return nil, failed(err)
		}
		if got == 0 {
			return nil, nil // what was pending has been trimmed
		}
		left -= min(left, got)
	}
	return nil, nil
}
