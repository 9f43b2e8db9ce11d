package stage

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// defaultSweepEvery is how often a work queue is looked through for leftovers.
const defaultSweepEvery = time.Minute

// sweep handles what a work queue holds although it was acknowledged: a server
// that is killed may remember the acknowledgement and forget the removal, and then
// never hands the message out again, nor removes it. It is handled as one that is
// delivered again: nothing is done twice, and if it is true that it was done, it
// goes.
func (l *Loop) sweep(ctx, work context.Context) {
	tick := time.NewTicker(l.o.SweepEvery)
	defer tick.Stop()
	var seen map[uint64]bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if seen, err = l.leftovers(ctx, work, seen); err != nil && ctx.Err() == nil {
			l.o.Log.Debug().Err(err).Str("stream", l.o.Stream).Str("consumer", l.o.Consumer).Msg(logevent.QueueNotSwept)
		}
	}
}

// leftovers handles those that were there at the last look too: what has just been
// acknowledged may be on its way out. It returns all that are there.
func (l *Loop) leftovers(ctx, work context.Context, before map[uint64]bool) (map[uint64]bool, error) {
	stream, err := l.o.JS.Stream(ctx, l.o.Stream)
	if err != nil {
		return before, err
	}
	i := stream.CachedInfo()
	if l.setBack(i.TimeStamp) {
		l.takeUpAgain(ctx)
	}
	if i.Config.Retention != jetstream.WorkQueuePolicy || i.State.Msgs == 0 {
		return nil, nil
	}
	consumer, err := stream.Consumer(ctx, l.o.Consumer)
	if err != nil {
		return before, err
	}
	info, seen := consumer.CachedInfo(), map[uint64]bool{}
	for _, subject := range append(info.Config.FilterSubjects, info.Config.FilterSubject) {
		if subject == "" && len(info.Config.FilterSubjects) > 0 {
			continue
		}
		for next := uint64(1); ; {
			m, err := nextOn(ctx, streams.ReadFrom(l.o.JS, l.o.Stream), subject, next)
			if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > info.AckFloor.Stream {
				break
			}
			if err != nil {
				return seen, err
			}
			seen[m.Sequence], next = true, m.Sequence+1
			if before[m.Sequence] && !l.handleLeftover(ctx, work, stream, m) {
				return seen, ctx.Err()
			}
		}
	}
	return seen, nil
}

func nextOn(ctx context.Context, r streams.Reader, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	if subject == "" {
		subject = ">"
	}
	return r.Next(ctx, subject, from)
}

// handleLeftover is false if there was no place for it any more.
func (l *Loop) handleLeftover(ctx, work context.Context, s jetstream.Stream, m *jetstream.RawStreamMsg) bool {
	if !l.slot(ctx) {
		return false
	}
	defer func() { <-l.slots }()
	settled := l.o.Handle(work, Message{Subject: m.Subject, Header: m.Header, Data: m.Data, Seq: m.Sequence,
		StoredAt: m.Time.UTC(), Deliveries: 2})
	if settled.kind != kindDone && settled.kind != kindDrop {
		return true // at the next look
	}
	if err := s.DeleteMsg(work, m.Sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		l.o.Log.Warn().Err(err).Str("subject", m.Subject).Uint64("seq", m.Sequence).Msg(logevent.LeftoverNotRemoved)
		return true
	}
	l.o.Log.Info().Str("subject", m.Subject).Uint64("seq", m.Sequence).Msg(logevent.LeftoverRemoved)
	return true
}
