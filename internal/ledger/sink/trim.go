package sink

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// trim removes from LEDGER what ClickHouse has and what is older than Keep, or
// more than half of the stream's limit. It never removes the last stored record
// or anything behind it: the next session looks for that record.
func (s *Sink) trim(ctx context.Context, l *lease.Lease, at ledger.Position) {
	s.trimmedAt = time.Now()
	removed, err := s.tryTrim(ctx, l, at)
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn().Err(err).Msg(logevent.LedgerStreamNotTrimmed) // tried again at the next turn
		return
	}
	if removed > 0 {
		s.metrics.trimmed.Inc()
		s.o.Log.Info().Uint64("messages", removed).Msg(logevent.LedgerStreamTrimmed)
	}
}

func (s *Sink) tryTrim(ctx context.Context, l *lease.Lease, at ledger.Position) (removed uint64, err error) {
	stream, err := s.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return 0, err
	}
	info := stream.CachedInfo()
	first := info.State.FirstSeq
	if at.Next == 0 || info.Created.UnixNano() != at.StreamEpoch || at.StreamSeq <= first {
		return 0, nil
	}
	keepFrom, err := oldestToKeep(ctx, streams.ReadFrom(s.js, streams.Ledger), first, at.StreamSeq,
		time.Now().Add(-s.o.Keep))
	if err != nil {
		return 0, err
	}
	keepFrom = min(max(keepFrom, overHalf(info)), at.StreamSeq)
	if keepFrom <= first {
		return 0, nil
	}
	// Sequences may have been used again since: then they are not what ClickHouse has.
	id, err := s.idAt(ctx, at.StreamSeq)
	if err != nil || id != at.ID || !l.Valid() {
		return 0, err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(keepFrom)); err != nil {
		return 0, fmt.Errorf("purging up to %d: %w", keepFrom, err)
	}
	return keepFrom - first, nil
}

// oldestToKeep is the first sequence in [first, last] stored after when, or last.
func oldestToKeep(ctx context.Context, stream streams.Reader, first, last uint64, when time.Time) (uint64, error) {
	var failed error
	i := sort.Search(int(last-first), func(i int) bool {
		if failed != nil {
			return true
		}
		m, err := stream.Next(ctx, streams.LedgerSubjects, first+uint64(i)) // or the next there is
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true
		}
		if err != nil {
			failed = err
			return true
		}
		return m.Time.After(when)
	})
	return first + uint64(i), failed
}

// overHalf is the sequence from which on half of the stream's limit is used;
// its messages are taken to be of one size.
func overHalf(info *jetstream.StreamInfo) uint64 {
	limit, used := info.Config.MaxBytes, info.State.Bytes
	if limit <= 0 || used <= uint64(limit)/2 {
		return 0
	}
	excess := float64(used-uint64(limit)/2) / float64(used)
	return info.State.FirstSeq + uint64(excess*float64(info.State.Msgs))
}
