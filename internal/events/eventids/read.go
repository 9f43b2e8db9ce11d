package eventids

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// pullMessages is how much is asked for at once.
	pullMessages = 2048
	pullBytes    = 16 << 20
	// heartbeat is how often the server says that it is there: after two that are
	// missing, EVENTS is opened again.
	heartbeat = 2 * time.Second
	// requestBound ends one question to the server.
	requestBound = 10 * time.Second
)

// errBodies says that an id is not in the header: the bodies are needed.
var errBodies = errors.New("an event does not name its id in a header")

// Run follows EVENTS until ctx ends.
func (x *Index) Run(ctx context.Context) error {
	defer x.kept.Wait()
	for ctx.Err() == nil {
		err := x.session(ctx)
		if x.bodies = errors.Is(err, errBodies); x.bodies {
			continue
		}
		if err != nil && ctx.Err() == nil {
			x.log.Warn().Err(err).Msg(logevent.EventIDsReopened)
		}
		pause(ctx, reopenPause)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// session reads on from where the index has come to, until something is wrong.
func (x *Index) session(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	// A server that comes back may have lost what it had: look at once.
	again := x.nc.StatusChanged(nats.CONNECTED)
	defer x.nc.RemoveStatusListener(again)
	go func() {
		select {
		case <-again:
			end()
		case <-ctx.Done():
		}
	}()
	x.mu.Lock()
	x.reopen = end
	x.mu.Unlock()

	events, err := x.open(ctx)
	if err != nil {
		return err
	}
	segments, err := x.js.Stream(ctx, streams.EventIDs)
	if err != nil {
		return fmt.Errorf("stream %s: %w; mend it with: waybill streams apply", streams.EventIDs, err)
	}
	last := events.CachedInfo().State.LastSeq
	for {
		next := x.next(events.CachedInfo().State.FirstSeq)
		s := newSegment(next / segmentEvents)
		if s.end() > last+1 {
			return x.read(ctx, events, next, 0, last)
		}
		if x.untouched(s.number) {
			switch found, err := x.load(ctx, events, segments, s); {
			case err != nil:
				return err
			case found:
				x.take(s)
				continue
			}
		}
		if err := x.read(ctx, events, next, s.end(), last); err != nil {
			return err
		}
	}
}

// next is the sequence to read next.
func (x *Index) next(first uint64) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(x.done+1, first, 1)
}

// open looks whether EVENTS is still what was read, and begins anew if it is not.
func (x *Index) open(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	s, err := x.js.Stream(ctx, streams.Events)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", streams.Events, err)
	}
	info := s.CachedInfo()
	same, err := x.unchanged(ctx, s)
	if err != nil {
		return nil, err
	}
	if !same {
		if x.done > 0 {
			x.log.Warn().Uint64("seq", x.done).Msg(logevent.EventIDsStreamChanged)
		}
		x.clear()
	}
	x.epoch = info.Created.UnixNano()
	x.mu.Lock()
	x.table.first = info.State.FirstSeq
	x.mu.Unlock()
	return s, nil
}

// unchanged says whether EVENTS still holds what was read last, as it was.
func (x *Index) unchanged(ctx context.Context, s jetstream.Stream) (bool, error) {
	x.mu.Lock()
	suspect, done := x.suspect, x.done
	x.mu.Unlock()
	info := s.CachedInfo()
	switch {
	case suspect || x.epoch != info.Created.UnixNano() || done > info.State.LastSeq:
		return false, nil
	case x.lastAt.IsZero() || x.last < info.State.FirstSeq:
		return true, nil
	}
	return stored(ctx, s, x.last, x.lastAt)
}

// stored says whether the stream holds a message at seq that was stored then.
func stored(ctx context.Context, s jetstream.Stream, seq uint64, at time.Time) (bool, error) {
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s at %d: %w", streams.Events, seq, err)
	}
	return m.Time.Equal(at), nil
}

// load reads a segment that is kept, if there is one and EVENTS holds what it says.
func (x *Index) load(ctx context.Context, events, segments jetstream.Stream, s *segment) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	m, err := segments.GetLastMsgForSubject(ctx, streams.SegmentSubject(x.epoch, s.number))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", streams.EventIDs, err)
	}
	x.wrong[s.number] = m.Sequence // until it has proven right
	last, errSeq := strconv.ParseUint(m.Header.Get(streams.HeaderLastSeq), 10, 64)
	at, errAt := time.Parse(time.RFC3339Nano, m.Header.Get(streams.HeaderLastAt))
	if err := errors.Join(errSeq, errAt, s.decode(m.Data)); err != nil || last < s.first() || last >= s.end() {
		x.log.Error().Err(err).Uint64("segment", s.number).Msg(logevent.EventIDsSegmentUnreadable)
		return false, nil
	}
	same, err := stored(ctx, events, last, at)
	if err != nil || !same {
		return false, err
	}
	s.last, s.lastAt = last, at
	delete(x.wrong, s.number)
	return true, nil
}

// read reads EVENTS from a sequence on: up to end, or for ever when it is 0. Once
// it has come to last, the index is ready.
func (x *Index) read(ctx context.Context, events jetstream.Stream, from, end, last uint64) error {
	c, err := events.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "Ids of events", DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: !x.bodies, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: 10 * heartbeat,
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", streams.Events, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartbeat)
		defer cancel()
		_ = events.DeleteConsumer(ctx, c.CachedInfo().Name) // else the server does
	}()
	come := c.CachedInfo().NumPending == 0
	if come {
		if x.come(last); end > 0 {
			return nil
		}
	}
	messages, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(pullMessages,
		max(pullBytes, 2*int(x.nc.MaxPayload()))),
		jetstream.PullExpiry(4*heartbeat), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("reading %s: %w", streams.Events, err)
	}
	defer messages.Stop()
	for expected := uint64(1); ; expected++ {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading %s: %w", streams.Events, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("reading %s: %w", streams.Events, err)
		}
		if meta.Sequence.Consumer != expected {
			return fmt.Errorf("reading %s: message %d came where %d was due", streams.Events, meta.Sequence.Consumer, expected)
		}
		seq := meta.Sequence.Stream
		if end > 0 && seq >= end {
			return nil
		}
		h, err := x.claim(m)
		if err != nil {
			return err
		}
		if full := x.add(seq, h, meta.Timestamp); full != nil {
			x.store(ctx, full)
			if err := x.expire(ctx, events); err != nil {
				return err
			}
		}
		if !come && (meta.NumPending == 0 || seq >= last) {
			if x.come(last); end > 0 {
				return nil
			}
			come = true
		}
	}
}

// expire says which entries are void, since EVENTS has dropped their events.
func (x *Index) expire(ctx context.Context, events jetstream.Stream) error {
	ctx, cancel := context.WithTimeout(ctx, requestBound)
	defer cancel()
	info, err := events.Info(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.Events, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.first = info.State.FirstSeq
	return nil
}

// claim is the hash of the id that a message may own; 0: none.
func (x *Index) claim(m jetstream.Msg) (uint64, error) {
	tenant, id, ok := eventlog.ClaimedID(m.Subject(), m.Headers())
	if !ok && !x.bodies {
		return 0, errBodies
	}
	if !ok {
		parsed, e, rejection := eventlog.Parse(m.Subject(), m.Headers(), m.Data())
		if rejection != nil {
			return 0, nil
		}
		tenant, id = parsed, e.ID
	}
	if id == "" {
		return 0, nil
	}
	return hash(tenant, id), nil
}

// come says that everything was read that was stored when the session began.
func (x *Index) come(last uint64) {
	x.mu.Lock()
	if x.done < last {
		x.moveTo(last) // what lies between has expired, or was lost
	}
	x.mu.Unlock()
	select {
	case <-x.ready:
	default:
		close(x.ready)
	}
}

// store keeps a full segment, unless somebody else has. If that fails, whoever
// starts next reads these events once more, and keeps it then.
func (x *Index) store(ctx context.Context, s *segment) {
	m := nats.NewMsg(streams.SegmentSubject(x.epoch, s.number))
	m.Header.Set(streams.HeaderLastSeq, strconv.FormatUint(s.last, 10))
	m.Header.Set(streams.HeaderLastAt, s.lastAt.UTC().Format(time.RFC3339Nano))
	before := x.wrong[s.number]
	delete(x.wrong, s.number)
	select {
	case x.keep <- struct{}{}:
	case <-ctx.Done():
		return
	}
	x.kept.Go(func() {
		defer func() { <-x.keep }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestBound)
		defer cancel()
		m.Data = s.encode()
		_, err := x.js.PublishMsg(ctx, m, jetstream.WithExpectStream(streams.EventIDs),
			jetstream.WithExpectLastSequencePerSubject(before))
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return
		}
		if err != nil {
			x.log.Warn().Err(err).Uint64("segment", s.number).Msg(logevent.EventIDsSegmentNotKept)
			return
		}
		x.log.Info().Uint64("segment", s.number).Msg(logevent.EventIDsSegmentKept)
	})
}
