// Package stage is what every stage of the pipeline does alike: take messages,
// handle them, settle them, stop; and publish the next before that. It knows
// no stage, and only it acknowledges a message.
package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

const (
	// publishAckWait bounds the wait for JetStream's acknowledgement of one
	// try. It outlasts a slow fsync; past it the try is repeated under the
	// same message id.
	publishAckWait = 5 * time.Second
	// publishWindow is how many unacknowledged messages a publisher keeps under
	// way. It protects the server from an unbounded backlog in memory.
	publishWindow = 16384
	// retryPauseMin and retryPauseMax bound the pause between tries of a
	// publish while JetStream is away or full.
	retryPauseMin = 50 * time.Millisecond
	retryPauseMax = 2 * time.Second
)

// Publisher hands messages to JetStream and returns once they are stored. What
// comes together while the server is behind it stores together, where that is
// cheaper. It is safe for concurrent use.
type Publisher struct {
	js      jetstream.JetStream
	log     zerolog.Logger
	groups  *groups
	metrics publisherMetrics
}

// NewPublisher makes a publisher with an acknowledgement window of its own.
func NewPublisher(nc *nats.Conn, log zerolog.Logger) (*Publisher, error) {
	js, err := jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncTimeout(publishAckWait))
	if err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p := &Publisher{js: js, log: log, metrics: newPublisherMetrics("")}
	p.groups = newGroups(p)
	return p, nil
}

// Publish stores one message. See PublishAll.
func (p *Publisher) Publish(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	acks, err := p.PublishAll(ctx, m)
	if err != nil {
		return nil, err
	}
	return acks[0], nil
}

// PublishAll stores every message, in any order, and returns their
// acknowledgements in the order given. It repeats what fails, under the same
// Nats-Msg-Id, until ctx ends: every message MUST carry one, so that a try
// that was stored and reported as failed is not stored twice. What can never be
// stored is ErrPermanent at once. A returned
// error means that some may be stored and some not; whoever is handed the work
// next states them all again.
func (p *Publisher) PublishAll(ctx context.Context, msgs ...*nats.Msg) ([]*jetstream.PubAck, error) {
	for _, m := range msgs {
		if err := unfit(m, p.js.Conn().MaxPayload()); err != nil {
			p.metrics.retries.Inc() // people are told of those that last
			return nil, fmt.Errorf("publish: %w", err)
		}
	}
	acks := make([]*jetstream.PubAck, len(msgs))
	pause, began := retryPauseMin, time.Now()
	for {
		err := p.groups.tryAll(ctx, msgs, acks)
		if err == nil {
			p.metrics.messages.Add(float64(len(msgs)))
			p.metrics.duration.Observe(time.Since(began).Seconds())
			return acks, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("publish: %w (last failure: %w)", context.Cause(ctx), err)
		}
		if permanent(err) {
			if err := p.never(ctx, msgs, acks); err != nil {
				p.metrics.retries.Inc()
				return nil, fmt.Errorf("publish: %w", err)
			}
			// It was another's, stored together with these.
		}
		p.metrics.retries.Inc()
		p.log.Warn().Err(err).Str("subject", msgs[0].Subject).Dur("pause", pause).Msg(logevent.PublishRetry)
		if !Pause(ctx, pause) {
			return nil, fmt.Errorf("publish: %w (last failure: %w)", context.Cause(ctx), err)
		}
		pause = min(2*pause, retryPauseMax)
	}
}

// tryEach publishes those messages that have no acknowledgement yet, each by
// itself, and waits for them.
func (p *Publisher) tryEach(ctx context.Context, msgs []*nats.Msg, acks []*jetstream.PubAck) error {
	futures := make([]jetstream.PubAckFuture, len(msgs))
	var failed error
	for i, m := range msgs {
		if acks[i] != nil {
			continue
		}
		// A message of its own for each try: the client keeps the try's reply subject in it.
		f, err := p.js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data},
			jetstream.WithStallWait(publishAckWait))
		if err != nil {
			failed = err
			break
		}
		futures[i] = f
	}
	for i, f := range futures {
		if f == nil {
			continue
		}
		select {
		case acks[i] = <-f.Ok():
		case err := <-f.Err():
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return failed
}

// never tries by itself each message that was not stored, and says which can
// never be: what is stored together fails together, and only one may be at fault.
func (p *Publisher) never(ctx context.Context, msgs []*nats.Msg, acks []*jetstream.PubAck) error {
	for i, m := range msgs {
		if acks[i] != nil {
			continue
		}
		if err := p.tryEach(ctx, msgs[i:i+1], acks[i:i+1]); err != nil && permanent(err) {
			return fmt.Errorf("subject %s: %w: %w", m.Subject, ErrPermanent, err)
		}
	}
	return nil
}

// Pause waits, and reports false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
