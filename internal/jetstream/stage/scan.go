package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// scanBatch is how many messages are asked for at once.
	scanBatch = 1000
	// scanPause is the pause before messages are asked for again that the
	// stream's leader has and that did not come.
	scanPause = 50 * time.Millisecond
)

// seen is what a scan says of one message.
type seen struct {
	seq uint64
	id  string
}

// scan reads which ids stand on subjects in a stream, from one sequence to
// another, both included, and returns the first sequence that was not looked at:
// behind to, unless there is an error.
//
// That nothing came says nothing: a client that gets no answer within a second
// gives up without an error, a server that stalls answers later, a consumer that
// is on a replica which is behind ends early. Only a message behind to, or the
// leader's word that there is none left, ends a scan.
func (j *Journal) scan(ctx context.Context, subjects []string, from, to uint64, take func(seen)) (next uint64,
	err error) {
	for next = from; next <= to; {
		at, err := j.scanOn(ctx, subjects, next, to, take)
		if err != nil {
			return at, err
		}
		if at > next {
			next = at
			continue
		}
		left, err := j.firstOn(ctx, subjects, next)
		if err != nil {
			return next, err
		}
		if left == 0 || left > to {
			return to + 1, nil
		}
		if next = left; !Pause(ctx, scanPause) {
			return next, context.Cause(ctx)
		}
	}
	return next, nil
}

// scanOn reads for as long as messages come, none left out, and returns the
// first sequence that it has not seen.
func (j *Journal) scanOn(ctx context.Context, subjects []string, from, to uint64, take func(seen)) (next uint64,
	err error) {
	consumer, err := j.js.CreateConsumer(ctx, j.stream,
		jetstream.ConsumerConfig{FilterSubjects: subjects, AckPolicy: jetstream.AckNonePolicy,
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1), MemoryStorage: true,
			HeadersOnly: true, InactiveThreshold: findBound})
	if err != nil {
		return from, err
	}
	defer func() { _ = j.js.DeleteConsumer(context.WithoutCancel(ctx), j.stream, consumer.CachedInfo().Name) }()
	next = from
	for delivered := uint64(0); next <= to; {
		batch, err := consumer.FetchNoWait(scanBatch)
		if err != nil {
			return next, err
		}
		before := next
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			if err != nil {
				return next, err
			}
			if delivered++; meta.Sequence.Consumer != delivered {
				return next, nil // one was sent and did not arrive
			}
			if meta.Sequence.Stream > to {
				return to + 1, nil
			}
			take(seen{meta.Sequence.Stream, m.Headers().Get(nats.MsgIdHdr)})
			next = meta.Sequence.Stream + 1
		}
		if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
			return next, err
		}
		if next == before {
			return next, nil
		}
	}
	return next, nil
}

// firstOn is the first sequence on any of the subjects from one on; 0: there is none.
func (j *Journal) firstOn(ctx context.Context, subjects []string, from uint64) (uint64, error) {
	return j.extreme(subjects, least, func(subject string) (*jetstream.RawStreamMsg,
		error) {
		return j.leader.Next(ctx, subject, from)
	})
}

// firstSince is the first sequence on any of the subjects since a time; 0: there is none.
func (j *Journal) firstSince(ctx context.Context, subjects []string, from time.Time) (uint64, error) {
	return j.extreme(subjects, least, func(subject string) (*jetstream.RawStreamMsg,
		error) {
		return j.leader.Since(ctx, subject, from)
	})
}

// lastOn is the last sequence on any of the subjects; 0: there is none.
func (j *Journal) lastOn(ctx context.Context, subjects []string) (uint64, error) {
	return j.extreme(subjects, most, func(subject string) (*jetstream.RawStreamMsg,
		error) {
		return j.leader.Last(ctx, subject)
	})
}

func least(a, b uint64) uint64 { return min(a, b) }
func most(a, b uint64) uint64  { return max(a, b) }

// extreme asks the stream's leader about each subject.
func (j *Journal) extreme(subjects []string, of func(a, b uint64) uint64,
	ask func(string) (*jetstream.RawStreamMsg, error)) (uint64, error) {
	found := uint64(0)
	for _, subject := range subjects {
		m, err := ask(subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("subject %s: %w", subject, err)
		}
		if found == 0 {
			found = m.Sequence
		}
		found = of(found, m.Sequence)
	}
	return found, nil
}
