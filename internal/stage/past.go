package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// findBound keeps a search in a stream from holding a message for ever. What
	// was read until then is kept for the next try.
	findBound = 30 * time.Second
	// lookBack is how much further back a search reads than it must: what waits
	// does not come in order.
	lookBack = time.Minute
	// pastKept is how long what was read is kept that nobody asks for.
	pastKept = 10 * time.Minute
)

// past is what was stated on some subjects, by message id: after an outage, or
// under a load that is too high, much may be in hand that waited for longer than
// the stream remembers ids, and each statement is read once for all of it.
type past struct {
	mu          sync.Mutex // guards what follows
	seqs        map[[16]byte]uint64
	from, until time.Time // what was stated between them is in seqs
	last        uint64    // the sequence up to which it was read
	used        time.Time
}

func digestOf(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

// find looks on subjects for a statement that was stored since a time and whose
// id the stream may have forgotten; nil means that there is none.
func (j *Journal) find(ctx context.Context, subjects []string, id string, since time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, findBound)
	defer cancel()
	p := j.pastOf(subjects)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = j.now()
	for range 2 {
		if err := j.cover(ctx, p, subjects, since); err != nil {
			return nil, fmt.Errorf("searching %s for %s: %w", j.stream, id, err)
		}
		seq, ok := p.seqs[digestOf(id)]
		if !ok {
			return nil, nil
		}
		has, data, err := j.get(ctx, seq)
		if err == nil && has == id {
			return data, nil
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, err
		}
		p.seqs = nil // the stream was trimmed, or made anew
	}
	return nil, nil
}

// pastOf is what is known of subjects. It lets go of what nobody has asked for
// for a while.
func (j *Journal) pastOf(subjects []string) *past {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := strings.Join(subjects, " ")
	p := j.past[key]
	if p != nil {
		return p
	}
	for k, other := range j.past {
		if other.mu.TryLock() {
			if j.now().Sub(other.used) > pastKept {
				delete(j.past, k)
			}
			other.mu.Unlock()
		}
	}
	p = &past{}
	j.past[key] = p
	return p
}

// cover reads what p lacks of what was stated since a time, up to what the
// stream remembers by itself.
func (j *Journal) cover(ctx context.Context, p *past, subjects []string, since time.Time) error {
	now := j.now()
	if p.seqs == nil {
		p.seqs, p.from, p.last = map[[16]byte]uint64{}, since.Add(-lookBack), 0
		p.until = p.from
	}
	if since.Before(p.from) {
		from := since.Add(-lookBack)
		if err := j.read(ctx, p, jetstream.ConsumerConfig{FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from}, p.from); err != nil {
			return err
		}
		p.from = from
	}
	if now.Sub(p.until) <= j.window-dedupeMargin {
		return nil
	}
	config := jetstream.ConsumerConfig{FilterSubjects: subjects, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &p.from}
	if p.last > 0 {
		config.DeliverPolicy, config.OptStartTime, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, p.last+1
	}
	if err := j.read(ctx, p, config, time.Time{}); err != nil {
		return err
	}
	p.until = now
	return nil
}

// read takes in what the stream has, up to a time; zero: to its end.
func (j *Journal) read(ctx context.Context, p *past, config jetstream.ConsumerConfig, to time.Time) error {
	config.AckPolicy, config.MemoryStorage, config.HeadersOnly, config.InactiveThreshold = jetstream.AckNonePolicy, true, true, findBound
	consumer, err := j.js.CreateConsumer(ctx, j.stream, config)
	if err != nil {
		return err
	}
	defer func() { _ = j.js.DeleteConsumer(context.WithoutCancel(ctx), j.stream, consumer.CachedInfo().Name) }()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		batch, err := consumer.FetchNoWait(1000)
		if err != nil {
			return err
		}
		got := uint64(0)
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			got++
			if !to.IsZero() && !meta.Timestamp.Before(to) {
				return nil
			}
			// Stated again once the stream had forgotten the first: that one stands.
			id := digestOf(m.Headers().Get(nats.MsgIdHdr))
			if seq, ok := p.seqs[id]; !ok || meta.Sequence.Stream < seq {
				p.seqs[id] = meta.Sequence.Stream
			}
			if to.IsZero() {
				p.last, p.until = meta.Sequence.Stream, meta.Timestamp
			}
		}
		if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
			return err
		}
		if got == 0 {
			return nil // what was pending has been trimmed
		}
		left -= min(left, got)
	}
	return nil
}

// get reads one stored message: its id, and what it says.
func (j *Journal) get(ctx context.Context, seq uint64) (id string, data []byte, err error) {
	s, err := j.js.Stream(ctx, j.stream)
	if err != nil {
		return "", nil, fmt.Errorf("stream %s: %w", j.stream, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return "", nil, fmt.Errorf("stream %s, message %d: %w", j.stream, seq, err)
	}
	return m.Header.Get(nats.MsgIdHdr), m.Data, nil
}
