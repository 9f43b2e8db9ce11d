package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/streams"
)

const (
	// ledBound is what a stream gets to answer: the server itself waits half a
	// second for a leader before it says that there is none.
	ledBound = 1500 * time.Millisecond
	// electionBound is what one try of a start gets while an election may go on: what
	// was asked while nobody led is never answered, so it is asked again, three times
	// within the default of --nats-wait.
	electionBound = 10 * time.Second
	// ledFor is how long an answer counts: probes and scrapes share it.
	ledFor = 2 * time.Second
)

// Led is a readiness check: it fails while one of the streams does not answer,
// as when nobody leads it because most of the servers that hold it are gone.
func Led(js jetstream.JetStream, names ...string) func(context.Context) error {
	var mu sync.Mutex // guards what follows
	var asked time.Time
	var last error
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(asked) < ledFor {
			return last
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledBound)
		defer cancel()
		errs := make([]error, len(names))
		var g errgroup.Group
		for i, name := range names {
			g.Go(func() error {
				s, err := js.Stream(bounded, name)
				if err == nil {
					err = streams.Quorum(s.CachedInfo().Cluster)
				}
				if err != nil {
					errs[i] = fmt.Errorf("stream %s has no leader or does not answer: %w; see: waybill doctor", name, err)
				}
				return nil
			})
		}
		_ = g.Wait()
		asked, last = time.Now(), first(errs)
		return last
	}
}

func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// electing says that JetStream cannot answer for now, as during an election.
func electing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503
	}
	return errors.Is(err, streams.ErrNoQuorum) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

// WaitForJetStream repeats what needs JetStream while an election goes on, for
// at most patience.
func WaitForJetStream(ctx context.Context, patience time.Duration, do func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		bounded, cancel := context.WithTimeout(ctx, electionBound)
		err := do(bounded)
		cancel()
		if err == nil || !electing(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(connectPause):
		}
	}
}
