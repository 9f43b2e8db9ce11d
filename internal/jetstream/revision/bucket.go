package revision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// rewatchPause is the pause before a watch that ended is opened again.
const rewatchPause = 250 * time.Millisecond

// Watch gives what a bucket holds under keys, then nil, then every change, until
// ctx ends. Whenever it could have missed a change, it says so to lost and begins
// anew: with the function that another call of begin returns.
func Watch(ctx context.Context, js jetstream.JetStream, bucket, keys string,
	begin func(jetstream.KeyValue) (take func(jetstream.KeyValueEntry)), lost func(error)) {
	for ctx.Err() == nil {
		if err := watch(ctx, js, bucket, keys, begin); ctx.Err() == nil {
			lost(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

func watch(ctx context.Context, js jetstream.JetStream, bucket, keys string,
	begin func(jetstream.KeyValue) func(jetstream.KeyValueEntry)) error {
	kv, err := streams.Bucket(ctx, js, bucket)
	if err != nil {
		return err
	}
	w, err := kv.Watch(ctx, keys)
	if err != nil {
		return err
	}
	defer w.Stop()
	// A server that restarted has forgotten the watch. The client would notice
	// after missed heartbeats, many seconds later.
	away := js.Conn().StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer js.Conn().RemoveStatusListener(away)
	take := begin(kv)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-away:
			return errors.New("the server was away")
		case entry, ok := <-w.Updates():
			if !ok {
				return errors.New("the watch ended")
			}
			take(entry)
		}
	}
}

// Each gives take every value that a bucket holds, until take fails. doing is
// what for, in errors.
func Each(ctx context.Context, kv jetstream.KeyValue, doing string, take func(jetstream.KeyValueEntry) error) error {
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		case entry, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("%s: the connection to NATS was lost; try again", doing)
			}
			if entry == nil {
				return nil
			}
			if err := take(entry); err != nil {
				return err
			}
		}
	}
}
