package outside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/streams"
)

// Position says where ClickHouse stands in LEDGER.
type Position struct {
	Epoch int64
	Seq   uint64
}

// settledPoll is how often the sink is asked how far it has come.
const settledPoll = 250 * time.Millisecond

// Settle says up to when everything that stages state of an event is in
// ClickHouse: no event before it is in fanout's hands, and no record before it is
// on its way from LEDGER. ClickHouse gets patience to come level. at says where
// it stands. Each question is asked after the ones whose answer it may only add to.
func Settle(ctx context.Context, js jetstream.JetStream, patience time.Duration,
	at func(context.Context) (Position, error)) (audit.Settled, error) {
	out := audit.Settled{Until: time.Now(), Known: true}
	held, err := inHand(ctx, js)
	if err != nil {
		return out, err
	}
	s, err := js.Stream(ctx, streams.Ledger)
	if err != nil {
		return out, fmt.Errorf("stream %s: %w; make it with: waybill streams apply", streams.Ledger, err)
	}
	i := s.CachedInfo()
	epoch, last := i.Created.UnixNano(), i.State.LastSeq
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(settledPoll)
	defer tick.Stop()
	for {
		p, err := at(ctx)
		if err != nil {
			return out, err
		}
		out.Seq = 0
		if p.Epoch == epoch {
			out.Seq = p.Seq
		}
		if out.Seq >= last || !time.Now().Before(deadline) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	var lacking time.Time
	if out.Seq < last {
		out.Lacking = last - max(out.Seq, max(i.State.FirstSeq, 1)-1)
		if lacking, err = storedAt(ctx, s, out.Seq+1, streams.LedgerSubjects); err != nil {
			return out, err
		}
	}
	for _, t := range []time.Time{held, lacking} {
		if !t.IsZero() && t.Before(out.Until) {
			out.Until = t
		}
	}
	out.Until = out.Until.Add(-audit.SettleGrace).UTC()
	return out, nil
}

// inHand is when the oldest event was stored that fanout has not settled; zero:
// there is none.
func inHand(ctx context.Context, js jetstream.JetStream) (time.Time, error) {
	c, err := js.Consumer(ctx, streams.Events, streams.FanoutConsumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return time.Time{}, nil // the doctor says so
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("consumer %s/%s: %w", streams.Events, streams.FanoutConsumer, err)
	}
	i := c.CachedInfo()
	if i.NumPending == 0 && i.NumAckPending == 0 {
		return time.Time{}, nil
	}
	s, err := js.Stream(ctx, streams.Events)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", streams.Events, err)
	}
	return storedAt(ctx, s, i.AckFloor.Stream+1, streams.EventSubjects)
}

// storedAt is when the first message from a sequence on was stored; zero: there
// is none.
func storedAt(ctx context.Context, s jetstream.Stream, seq uint64, subjects string) (time.Time, error) {
	m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subjects))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading message %d: %w", seq, err)
	}
	return m.Time, nil
}
