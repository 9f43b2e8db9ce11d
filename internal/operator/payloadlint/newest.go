package payloadlint

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// LookAtNewest looks at the newest messages of EVENTS, as many as are asked for: at
// events of a tenant ("": any) whose type matches a pattern. It reads through a
// consumer that ends by itself.
func (l *Lint) LookAtNewest(ctx context.Context, js jetstream.JetStream, tenant, pattern string, messages int) error {
	stream, err := js.Stream(ctx, streams.Events)
	if err != nil {
		return fmt.Errorf("stream %s: %w; make it with: waybill streams apply", streams.Events, err)
	}
	last, first := stream.CachedInfo().State.LastSeq, stream.CachedInfo().State.FirstSeq
	if stream.CachedInfo().State.Msgs == 0 {
		return nil
	}
	start := first
	if n := uint64(messages); last >= first+n {
		start = last - n + 1
	}
	consumer, err := js.OrderedConsumer(ctx, streams.Events, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start})
	if err != nil {
		return fmt.Errorf("reading %s: %w", streams.Events, err)
	}
	for at := start - 1; at < last; {
		m, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			return fmt.Errorf("reading %s: %w; try again", streams.Events, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("reading %s: %w", streams.Events, err)
		}
		at = meta.Sequence.Stream
		owner, eventType, err := streams.ParseEventSubject(m.Subject())
		if _, refused := eventlog.Refused(m.Headers()); refused {
			continue
		}
		if err != nil || tenant != "" && owner != tenant || !subscription.Match(pattern, eventType) ||
			eventType == control.TestType {
			continue
		}
		if e, err := envelope.Parse(m.Data()); err == nil { // what is no event is on record as rejected
			if err := l.Look(eventType, e.Data); err != nil {
				return err
			}
		}
	}
	return nil
}
