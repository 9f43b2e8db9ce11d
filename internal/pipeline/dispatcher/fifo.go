package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// fifoHeads keeps how far the delivery has come that is at the head of an endpoint
// that keeps order. Its message stays at the head, handed back in place, so it
// cannot carry that itself. What is written here follows from the attempt's
// record; if we die before, whoever takes the message finds claim and record.
type fifoHeads struct{ kv jetstream.KeyValue }

type head struct {
	Event       string        `json:"event"`
	Replay      string        `json:"replay,omitempty"`
	OwedAt      time.Time     `json:"owed_at"`
	Attempts    int           `json:"attempts"`
	Spent       int           `json:"spent"`
	Responded   bool          `json:"responded"`
	Due         time.Time     `json:"due"`
	Wait        time.Duration `json:"wait,omitempty"`
	LastAttempt string        `json:"last_attempt,omitempty"` // its traceparent
	Repeated    bool          `json:"repeated,omitempty"`
}

func openFifoHeads(ctx context.Context, js jetstream.JetStream) (fifoHeads, error) {
	kv, err := streams.Bucket(ctx, js, streams.FifoBucket)
	if err != nil {
		return fifoHeads{}, err
	}
	return fifoHeads{kv}, nil
}

// resume gives the delivery what is known of it beyond its message.
func (h fifoHeads) resume(ctx context.Context, delivery delivery.Delivery) (delivery.Delivery, error) {
	entry, err := h.kv.Get(ctx, delivery.EndpointID)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return delivery, nil
	}
	if err != nil {
		return delivery, fmt.Errorf("head of %s: %w", delivery.EndpointID, err)
	}
	var at head
	if err := json.Unmarshal(entry.Value(), &at); err != nil {
		return delivery, fmt.Errorf("head of %s: %w", delivery.EndpointID, err)
	}
	if at.Event == delivery.EventID && at.Replay == delivery.Replay && at.OwedAt.Equal(delivery.OwedAt) &&
		at.Attempts > delivery.Attempts {
		delivery.Attempts, delivery.Spent, delivery.Responded, delivery.Due = at.Attempts, at.Spent, at.Responded, at.Due
		delivery.LastAttempt, delivery.Repeated, delivery.Wait = at.LastAttempt, at.Repeated, at.Wait
	}
	return delivery, nil
}

func (h fifoHeads) store(ctx context.Context, delivery delivery.Delivery) error {
	b, err := json.Marshal(head{delivery.EventID, delivery.Replay, delivery.OwedAt, delivery.Attempts, delivery.Spent,
		delivery.Responded, delivery.Due, delivery.Wait, delivery.LastAttempt,
		delivery.Repeated})
	if err != nil {
		return err
	}
	if _, err := h.kv.Put(ctx, delivery.EndpointID, b); err != nil {
		return fmt.Errorf("head of %s: %w", delivery.EndpointID, err)
	}
	return nil
}

// fifoConsumer hands out an endpoint's deliveries one at a time: the next when
// the one before is acknowledged.
func (d *Dispatcher) fifoConsumer(endpoint string) jetstream.ConsumerConfig {
	name := streams.FifoConsumer(endpoint)
	return jetstream.ConsumerConfig{Durable: name, Name: name, Description: "Deliveries of one endpoint, in order",
		FilterSubject: streams.FifoSubject(endpoint), AckPolicy: jetstream.AckExplicitPolicy,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckWait:       fifoAckWait, MaxDeliver: -1, MaxAckPending: 1, InactiveThreshold: fifoInactive}
}

const (
	// fifoAckWait is how long a delivery waits for another dispatcher when the
	// one that has it dies: as in the queues of the others.
	fifoAckWait = 4 * time.Second
	// fifoInactive removes the consumer of an endpoint that is no longer served.
	// If all dispatchers were away for as long, it is made anew: what it was for
	// is still in the queue.
	fifoInactive = 24 * time.Hour
	// deletedFor is how long a deleted endpoint is still served, so that what
	// was on its way to it ends with a reason.
	deletedFor = time.Hour
	// fifoLook is how often the endpoints that keep order are counted anew, and
	// the pause after a failure to serve one.
	fifoLook = 500 * time.Millisecond
)

// runFifo serves the endpoints that keep order, each with a loop of its own.
func (d *Dispatcher) runFifo(ctx context.Context) error {
	var serving sync.WaitGroup
	running := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range running {
			stop()
		}
		serving.Wait()
	}()
	for ctx.Err() == nil {
		now := time.Now()
		wanted := map[string]bool{}
		for _, e := range d.view.Fifo() {
			if wanted[e.ID] = e.Live() || now.Sub(e.UpdatedAt) < deletedFor; !wanted[e.ID] || running[e.ID] != nil {
				continue
			}
			loop, err := d.fifoLoop(ctx, e.ID)
			if err != nil {
				d.log.Warn().Err(err).Str("endpoint_id", e.ID).Msg(logevent.FIFONotServed)
				continue
			}
			own, stop := context.WithCancel(ctx)
			running[e.ID] = stop
			serving.Go(func() { _ = loop.Run(own) })
		}
		for id, stop := range running {
			if !wanted[id] {
				stop()
				delete(running, id)
			}
		}
		stage.Pause(ctx, fifoLook)
	}
	return nil
}

func (d *Dispatcher) fifoLoop(ctx context.Context, endpoint string) (*stage.Loop, error) {
	if _, err := d.js.CreateOrUpdateConsumer(ctx, streams.Deliveries, d.fifoConsumer(endpoint)); err != nil {
		return nil, fmt.Errorf("consumer of %s: %w", endpoint, err)
	}
	return stage.NewLoop(stage.LoopOptions{JS: d.js, Stream: streams.Deliveries, Consumer: streams.FifoConsumer(endpoint),
		Handle:      d.Deliver,
		Concurrency: 1, Now: d.o.Now, AckWait: fifoAckWait, DrainTimeout: d.o.DrainTimeout, Log: d.log})
}
