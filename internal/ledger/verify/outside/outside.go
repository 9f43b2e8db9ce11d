// Package outside reads what the streams still know of the ledger: LEDGER, the
// records as they were published, and CHECKPOINTS, what was signed.
package outside

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/ledger/verify"
	"github.com/waybill-dev/waybill/streams"
)

// silence is how long the server may take for the next message.
const silence = 30 * time.Second

// Checkpoints reads every checkpoint that the stream holds, and says what is
// known of the stream itself.
func Checkpoints(ctx context.Context, js jetstream.JetStream) ([]verify.Published, *verify.Kept, error) {
	kept := &verify.Kept{}
	switch l, err := js.Stream(ctx, streams.Ledger); {
	case err == nil:
		kept.LedgerCreated = l.CachedInfo().Created
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, nil, fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	stream, err := js.Stream(ctx, streams.Checkpoints)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		kept.Missing = true
		return nil, kept, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("stream %s: %w", streams.Checkpoints, err)
	}
	state := stream.CachedInfo().State
	kept.Created, kept.Messages = stream.CachedInfo().Created, state.Msgs
	var out []verify.Published
	err = read(ctx, js, streams.Checkpoints, state.FirstSeq, state.LastSeq, state.Msgs,
		func(_ uint64, at time.Time, body []byte) error {
			out = append(out, verify.Published{Source: verify.FromStream, Note: string(body), At: at})
			return nil
		})
	return out, kept, err
}

// Ledger is the stream LEDGER. It implements verify.Stream.
type Ledger struct {
	JS    jetstream.JetStream
	state jetstream.StreamState
}

// Extent implements verify.Stream.
func (l *Ledger) Extent(ctx context.Context) (verify.StreamExtent, error) {
	stream, err := l.JS.Stream(ctx, streams.Ledger)
	if err != nil {
		return verify.StreamExtent{}, fmt.Errorf("stream %s: %w", streams.Ledger, err)
	}
	info := stream.CachedInfo()
	l.state = info.State
	return verify.StreamExtent{Epoch: info.Created.UnixNano(), First: info.State.FirstSeq, Last: info.State.LastSeq}, nil
}

// Read implements verify.Stream.
func (l *Ledger) Read(ctx context.Context, first uint64, yield func(seq uint64, body []byte) error) error {
	return read(ctx, l.JS, streams.Ledger, first, l.state.LastSeq, l.state.Msgs,
		func(seq uint64, _ time.Time, body []byte) error { return yield(seq, body) })
}

// read calls yield with the messages from first to last.
func read(ctx context.Context, js jetstream.JetStream, name string, first, last, count uint64,
	yield func(uint64, time.Time, []byte) error) error {
	if count == 0 {
		return nil
	}
	c, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(first, 1)})
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	messages, err := c.Messages()
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	defer messages.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, silence)
		m, err := messages.Next(jetstream.NextContext(bounded))
		cancel()
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		if meta.Sequence.Stream > last {
			return nil
		}
		if err := yield(meta.Sequence.Stream, meta.Timestamp, m.Data()); err != nil {
			return err
		}
		if meta.Sequence.Stream == last {
			return nil
		}
		if meta.NumPending > 0 {
			continue
		}
		// A replica that is behind has nothing more; only the leader knows the end.
		left, err := streams.ReadFrom(js, name).Next(ctx, ">", meta.Sequence.Stream+1)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && left.Sequence > last {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
}
