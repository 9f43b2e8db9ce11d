package revision

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// Watch gives take what a bucket holds, then nil, then every change. It returns
// when ctx ends, and with an error when it could miss a change: whoever watches
// opens another watch then, and begins with what the bucket holds.
func Watch(ctx context.Context, js jetstream.JetStream, bucket string, take func(jetstream.KeyValueEntry)) error {
	kv, err := streams.Bucket(ctx, js, bucket)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	// A server that restarted has forgotten the watch. The client would notice
	// after missed heartbeats, many seconds later.
	away := js.Conn().StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.DISCONNECTED)
	defer js.Conn().RemoveStatusListener(away)
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
