package transparency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/streams"
)

// putBack stores the checkpoints that ClickHouse lost, as a backup that was
// restored did, and the stream still has. The largest is stored last: as long as
// that one is missing, this is done again.
func (l *Log) putBack(ctx context.Context, largest ledger.Checkpoint) error {
	origin := l.o.Keys.Origin()
	kept, err := l.o.Store.LastCheckpoint(ctx, origin)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	stream, err := l.js.Stream(ctx, streams.Checkpoints)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.Checkpoints, err)
	}
	state := stream.CachedInfo().State
	lost := map[uint64]ledger.Checkpoint{}
	for seq := state.LastSeq; seq >= max(state.FirstSeq, 1); seq-- {
		m, err := streams.ReadFrom(l.js, streams.Checkpoints).At(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", streams.Checkpoints, err)
		}
		c, err := l.readMessage(m)
		if err != nil {
			return err
		}
		if c.Origin != origin || c.Key == "" {
			continue
		}
		if c.Size <= kept.Size {
			break
		}
		lost[c.Size] = c // at last as it was published first, without cosignatures
	}
	lost[largest.Size] = largest
	for _, size := range slices.Sorted(maps.Keys(lost)) {
		if err := l.o.Store.AppendCheckpoint(ctx, lost[size]); err != nil {
			return err
		}
	}
	return nil
}
