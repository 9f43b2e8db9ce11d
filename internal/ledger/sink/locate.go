package sink

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// errReading says that LEDGER could not be read.
var errReading = errors.New("the stream LEDGER cannot be read")

// start is where a session starts to read.
type start struct {
	stream jetstream.Stream
	epoch  int64
	// seq is the first sequence that ClickHouse may lack.
	seq uint64
	// turned: records that ClickHouse has may come again, under other sequences.
	turned bool
	// alarm is what is wrong with the stream; "": nothing.
	alarm string
	first uint64
	last  uint64
}

// locate finds the ledger's last record in the stream. It is there, at its
// sequence, unless the stream was made anew or lost its tail.
func (s *Sink) locate(ctx context.Context, at ledger.Position) (start, error) {
	stream, err := s.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return start{}, fmt.Errorf("%w: %w", errReading, err)
	}
	info := stream.CachedInfo()
	st := start{stream: stream, epoch: info.Created.UnixNano(), first: info.State.FirstSeq, last: info.State.LastSeq}
	st.seq = max(st.first, 1)
	switch {
	case at.Next == 0:
		if st.first > 1 {
			// An empty ClickHouse, and a stream that was trimmed before: what is gone is a gap.
			st.alarm, st.seq = logevent.LedgerStreamBeginsLate, 1
		}
		return st, nil
	case at.StreamEpoch != st.epoch:
		st.turned, st.alarm = true, logevent.LedgerStreamMadeAnew
		return st, nil
	case at.StreamSeq < st.first: // trimmed
		st.seq = at.StreamSeq + 1
		return st, nil
	case at.StreamSeq <= st.last:
		id, err := s.idAt(ctx, at.StreamSeq)
		if err != nil {
			return st, err
		}
		if id == at.ID {
			st.seq = at.StreamSeq + 1
			return st, nil
		}
	}
	return s.locateLostTail(ctx, st, at)
}

// report says what is wrong with the stream.
func (st start) report(log zerolog.Logger, at ledger.Position) {
	if st.alarm == "" {
		return
	}
	log.Error().Uint64("stored_seq", at.StreamSeq).Time("stored_epoch", time.Unix(0, at.StreamEpoch).UTC()).
		Time("epoch", time.Unix(0, st.epoch).UTC()).Uint64("first_seq", st.first).Uint64("last_seq", st.last).
		Uint64("resume_seq", st.seq).Msg(st.alarm)
}

// locateLostTail finds the last sequence under which the stream still holds
// what ClickHouse has: up to there both are alike, behind it they are not. A
// record that was known and came again in between makes the search end earlier,
// which costs time and nothing else: ids tell what is stored already.
func (s *Sink) locateLostTail(ctx context.Context, st start, at ledger.Position) (start, error) {
	st.turned, st.alarm = true, logevent.LedgerStreamLostTail
	first, last := st.seq, min(at.StreamSeq, st.last)
	if last >= first {
		var failed error
		alike := sort.Search(int(last-first+1), func(i int) bool {
			if failed != nil {
				return true
			}
			same, err := s.alike(ctx, st, first+uint64(i))
			failed = err
			return !same
		})
		if failed != nil {
			return st, failed
		}
		st.seq = first + uint64(alike)
	}
	return st, nil
}

func (s *Sink) alike(ctx context.Context, st start, seq uint64) (bool, error) {
	inStream, err := s.idAt(ctx, seq)
	if err != nil || inStream == "" {
		return false, err
	}
	inLedger, err := s.o.Ledger.IDOfSeq(ctx, st.epoch, seq)
	return inStream == inLedger, err
}

// idAt is the id of the record at a sequence of the stream; "" if there is none.
func (s *Sink) idAt(ctx context.Context, seq uint64) (string, error) {
	m, err := streams.ReadFrom(s.js, streams.Ledger).At(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: sequence %d: %w", errReading, seq, err)
	}
	r, _ := ledger.ReadMessage(tenantOf(m.Subject), m.Data, seq, m.Time)
	return r.ID, nil
}
