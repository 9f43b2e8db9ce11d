package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// gapPublishTimeout bounds the wait for a gap's record to be stored. A stream
// that is full takes no record until the sink has gone on and trimmed it.
const gapPublishTimeout = 10 * time.Second

// gap handles sequences that the stream does not have: an alarm, and a record
// of its own at the stream's end. It is published before what follows the gap
// is passed on, so that a crash in between finds the gap again.
//
// No gap: what ClickHouse has had from these sequences, and what the stream has
// after all.
func (r *reader) gap(ctx context.Context, from, to uint64) error {
	if r.stored.Next > 0 && r.stored.StreamEpoch == r.at.epoch && to <= r.stored.StreamSeq {
		return nil
	}
	_, err := streams.ReadFrom(r.sink.js, streams.Ledger).At(ctx, from)
	if err == nil {
		return fmt.Errorf("%w: sequence %d was passed over", errReading, from)
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("%w: %w", errReading, err)
	}
	s := r.sink
	s.metrics.gaps.Inc()
	s.metrics.missing.Add(float64(to - from + 1))
	s.o.Log.Error().Uint64("from", from).Uint64("to", to).Uint64("messages", to-from+1).Msg(logevent.LedgerStreamGap)

	rec := record.Record{
		ID: record.GapID(r.at.epoch, from, to), Kind: record.LedgerGap, At: time.Now(), Tenant: "default",
		Reason: "missing_in_stream", Detail: "messages that LEDGER had numbered are missing in it",
		GapFrom: from, GapTo: to,
	}
	body, err := rec.Encode()
	if err != nil {
		return err
	}
	m := nats.NewMsg(streams.LedgerSubject(string(rec.Kind), rec.Tenant))
	m.Header.Set(nats.MsgIdHdr, rec.ID)
	m.Data = body
	bounded, cancel := context.WithTimeout(ctx, gapPublishTimeout)
	defer cancel()
	if _, err := s.publisher.Publish(bounded, m); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.o.Log.Error().Err(err).Uint64("from", from).Uint64("to", to).Msg(logevent.LedgerStreamGapNotRecorded)
	}
	return nil
}
