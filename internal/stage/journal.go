package stage

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// dedupeMargin keeps us clear of the edge of a stream's dedupe window.
	dedupeMargin = 15 * time.Second
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

	mu   sync.Mutex // guards what follows
	past map[string]*past
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
	return &Journal{js: js, pub: pub, stream: stream, window: s.CachedInfo().Config.Duplicates, now: time.Now, past: map[string]*past{}}, nil
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
		if _, stands, err = j.get(ctx, ack.Sequence); err != nil {
			return nil, false, err
		}
	}
	// Equal when an earlier try of this very publish had been stored.
	return stands, bytes.Equal(stands, m.Data), nil
}
