package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// dedupeMargin is the part of a stream's dedupe window, one in so many, by which
// we keep clear of its edge: 15 s of two minutes.
const dedupeMargin = 8

// Journal is a stream of statements, each identified by its message id, of which
// the first that is stored stands: how two processes that handle the same work,
// or one and its successor after a crash, come to the same decision.
type Journal struct {
	js     jetstream.JetStream
	leader streams.Reader
	pub    *Publisher
	stream string
	window time.Duration // how long the stream remembers ids
	now    func() time.Time

	mu   sync.Mutex // guards what follows
	past map[string]*past
}

// By makes the journal go by another clock than this machine's.
func (j *Journal) WithClock(c *Clock) *Journal {
	j.now = c.Now
	return j
}

// OpenJournal binds to a stream, which must be there.
func OpenJournal(ctx context.Context, js jetstream.JetStream, pub *Publisher, stream string) (*Journal, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w; mend it with: waybill streams apply", stream, err)
	}
	return &Journal{js: js, leader: streams.ReadFrom(js, stream), pub: pub, stream: stream,
		window: s.CachedInfo().Config.Duplicates, now: time.Now, past: map[string]*past{}}, nil
}

// State stores m, unless a statement with its id stands already, and returns the
// data of the one that stands; mine says that it is m. since is when a statement
// with that id can first have been stored, zero when nobody can have before now:
// if the stream may have forgotten the id since then, it is searched. also are
// further subjects where a statement with that id may stand.
//
// If storing takes so long that an id could be forgotten meanwhile, the stream is
// searched again: of two that were stored, the first stands.
func (j *Journal) PutFirst(ctx context.Context, m *nats.Msg, since time.Time, also ...string) (stands []byte, mine bool,
	err error) {
	id, subjects := m.Header.Get(nats.MsgIdHdr), append(slices.Clone(also), m.Subject)
	if since.IsZero() {
		since = j.now()
	}
	known := since // nothing was stored before, or it was looked for up to then
	if j.forgotten(known) {
		if stands, known, err = j.find(ctx, subjects, id, since, false); err != nil {
			return nil, false, err
		}
	}
	for stands == nil {
		ack, err := j.publish(ctx, m)
		if err != nil && (ctx.Err() != nil || errors.Is(err, ErrPermanent)) {
			return nil, false, fmt.Errorf("%s in %s: %w", id, j.stream, err)
		}
		switch {
		case err == nil && ack.Duplicate:
			first, err := j.leader.At(ctx, ack.Sequence)
			if err != nil {
				return nil, false, fmt.Errorf("stream %s, message %d: %w", j.stream, ack.Sequence, err)
			}
			stands = first.Data
		case err == nil && !j.forgotten(known):
			stands = m.Data
		default: // it took too long, or is not known to be stored
			if stands, known, err = j.find(ctx, subjects, id, since, true); err != nil {
				return nil, false, err
			}
		}
	}
	// Equal when an earlier try of this very publish had been stored.
	return stands, bytes.Equal(stands, m.Data), nil
}

// publish stores m, and gives up before the stream can have forgotten a try of it.
func (j *Journal) publish(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, max(j.remembered(), 2*publishAckWait))
	defer cancel()
	return j.pub.Publish(ctx, m)
}

// remembered is how long the stream surely remembers an id.
func (j *Journal) remembered() time.Duration { return j.window - j.window/dedupeMargin }

// forgotten says that the stream may have forgotten an id that it stored at a
// time. Both clocks count: the server forgets by the one on the wall.
func (j *Journal) forgotten(stored time.Time) bool {
	now := j.now()
	return max(now.Sub(stored), now.Round(0).Sub(stored.Round(0))) > j.remembered() || j.unsure(stored)
}

// unsure says that nobody knows how long ago a time was, or which times came
// after it: the clock was set back since.
func (j *Journal) unsure(t time.Time) bool {
	return t.Round(0).Sub(j.now().Round(0)) > j.window/dedupeMargin
}
