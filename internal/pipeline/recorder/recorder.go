// Package recorder puts every change of what people set on record: of endpoints,
// event types, channels and escalation policies. It reads the buckets' own streams.
// So whoever made a change, and whatever died then, it is recorded: once, under an
// id that follows from its revision.
package recorder

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

// transientPause hands a revision back when its record could not be stored.
const transientPause = time.Second

// kinds is how a revision is read, by the stream that holds it.
var kinds = map[string]reader{
	streams.EndpointsStream:          read(registry.Endpoints(), endpointChanged),
	streams.EventTypesStream:         read(registry.EventTypes(), eventTypeChanged),
	streams.ChannelsStream:           read(channel.Registry(), channelChanged),
	streams.EscalationPoliciesStream: read(escalation.Policies(), policyChanged),
}

// reader reads a stored revision.
type reader func(data []byte, storedAt time.Time) (change, error)

// change is what one revision says.
type change struct {
	records []record.Record
	log     func(*zerolog.Event) // says it in the log
}

func read[T any](kind revision.Kind[T], says func(T, time.Time) change) reader {
	return func(data []byte, storedAt time.Time) (change, error) {
		v, err := kind.Decode(data)
		if err != nil {
			return change{}, err
		}
		return says(v, storedAt), nil
	}
}

// Options are all required unless marked Optional.
type Options struct {
	JS           jetstream.JetStream
	Publisher    *stage.Publisher
	DrainTimeout time.Duration
	Log          zerolog.Logger
	Metrics      prometheus.Registerer // Optional
}

// Open makes a loop for each of the streams, which are those of the four kinds.
// Who opens them runs them.
func Open(ctx context.Context, o Options, names ...string) (loops []*stage.Loop, err error) {
	for _, name := range names {
		read, ok := kinds[name]
		if !ok {
			return nil, fmt.Errorf("recorder: the stream %s holds no revisions", name)
		}
		loop, err := stage.OpenLoop(ctx, stage.LoopOptions{JS: o.JS, Stream: name, Consumer: streams.RecorderConsumer,
			Handle: o.handler(read), Concurrency: 1, DrainTimeout: o.DrainTimeout, Log: o.Log, Metrics: o.Metrics})
		if err != nil {
			return nil, err
		}
		loops = append(loops, loop)
	}
	return loops, nil
}

func (o Options) handler(read reader) stage.Handler {
	return func(ctx context.Context, m stage.Message) stage.Settlement {
		if operation := m.Header.Get("KV-Operation"); operation != "" {
			o.Log.Error().Str("subject", m.Subject).Str("operation", operation).Msg(logevent.RegistryRemovedByForce)
			return stage.Drop("not a revision")
		}
		c, err := read(m.Data, m.StoredAt)
		if err != nil {
			o.Log.Error().Err(err).Str("subject", m.Subject).Msg(logevent.RegistryUnreadable)
			return stage.Drop("unreadable")
		}
		if err := o.store(ctx, c.records); err != nil {
			o.Log.Warn().Err(err).Str("record_id", c.records[0].ID).Msg(logevent.RecordHandedBack)
			return stage.Later(transientPause)
		}
		c.log(o.Log.Info())
		return stage.Done()
	}
}

func (o Options) store(ctx context.Context, records []record.Record) error {
	msgs := make([]*nats.Msg, len(records))
	for i, r := range records {
		m, err := r.Message()
		if err != nil {
			return err
		}
		msgs[i] = m
	}
	_, err := o.Publisher.PublishAll(ctx, msgs...)
	return err
}
