package ledgersink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// errLeaseLost ends a session: another sink may write by now.
var errLeaseLost = errors.New("the lease ran out before it was renewed")

// lease is the right to write, for as long as it is renewed. It keeps two sinks
// from working against each other; what keeps a sink that was frozen with a
// stale lease from doing harm is the insert's token.
type lease struct {
	sink *Sink
	kv   jetstream.KeyValue
	ttl  time.Duration
	done sync.WaitGroup

	mu       sync.Mutex // guards what follows
	revision uint64
	until    time.Time
	lost     bool
}

// acquire waits until no other sink holds the lease.
func (s *Sink) acquire(ctx context.Context) (*lease, error) {
	kv, err := s.js.KeyValue(ctx, streams.LeasesBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w; make it with: waybill streams apply", streams.LeasesBucket, err)
	}
	st, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", streams.LeasesBucket, err)
	}
	if st.TTL() <= 0 {
		return nil, fmt.Errorf("bucket %s keeps its keys for ever; mend it with: waybill streams apply", streams.LeasesBucket)
	}
	l := &lease{sink: s, kv: kv, ttl: st.TTL()}
	for {
		holder, err := l.try(ctx)
		if err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
		if holder == s.o.Name {
			return l, nil
		}
		if s.Status().Waiting != waitingForLease {
			s.waiting(waitingForLease)
			s.o.Log.Info().Str("holder", holder).Msg("ledger_sink.standby")
		}
		pause := l.ttl / 10
		sleep(ctx, pause+rand.N(pause))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// try takes the lease if it is free, or was this sink's own, and returns who
// holds it now.
func (l *lease) try(ctx context.Context) (holder string, err error) {
	began, name := time.Now(), l.sink.o.Name
	revision, err := l.kv.Create(ctx, streams.LedgerSinkLease, []byte(name))
	if errors.Is(err, jetstream.ErrKeyExists) {
		e, err := l.kv.Get(ctx, streams.LedgerSinkLease)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return "", nil // it ended in between
		}
		if err != nil || string(e.Value()) != name {
			return holderOf(e), err
		}
		revision, err = l.kv.Update(ctx, streams.LedgerSinkLease, []byte(name), e.Revision())
		if err != nil {
			return "", err
		}
		l.renewed(revision, began)
		return name, nil
	}
	if err != nil {
		return "", err
	}
	l.renewed(revision, began)
	return name, nil
}

func holderOf(e jetstream.KeyValueEntry) string {
	if e == nil {
		return ""
	}
	return string(e.Value())
}

// renewed counts from before the request: the server's clock started no earlier.
func (l *lease) renewed(revision uint64, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.until = revision, began.Add(l.ttl)
}

// valid is asked right before every insert.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && time.Now().Before(l.until)
}

// keep renews the lease until ctx ends, and calls lose once it is lost.
func (l *lease) keep(ctx context.Context, lose context.CancelCauseFunc) {
	l.done.Go(func() {
		t := time.NewTicker(l.ttl / 5)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if err := l.renew(ctx); err != nil && ctx.Err() == nil {
				l.mu.Lock()
				l.lost = true
				l.mu.Unlock()
				lose(err)
				return
			}
		}
	})
}

func (l *lease) renew(ctx context.Context) error {
	l.mu.Lock()
	revision, until := l.revision, l.until
	l.mu.Unlock()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, l.ttl/5)
	defer cancel()
	next, err := l.kv.Update(bounded, streams.LedgerSinkLease, []byte(l.sink.o.Name), revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		// Another revision. It is this sink's own when an earlier renewal was
		// stored and its answer came too late.
		var holder string
		if holder, err = l.try(bounded); err == nil && holder != l.sink.o.Name {
			return fmt.Errorf("%w: %q has it", errLeaseLost, holder)
		}
		if err == nil {
			return nil
		}
	}
	if err == nil {
		l.renewed(next, began)
		return nil
	}
	if !time.Now().Before(until) {
		return fmt.Errorf("%w: %w", errLeaseLost, err)
	}
	return nil // the next tick tries again
}

// release lets another sink take over at once.
func (l *lease) release() {
	l.done.Wait()
	l.mu.Lock()
	revision, lost := l.revision, l.lost
	l.lost = true
	l.mu.Unlock()
	if lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.ttl/5)
	defer cancel()
	if err := l.kv.Delete(ctx, streams.LedgerSinkLease, jetstream.LastRevision(revision)); err != nil {
		l.sink.o.Log.Debug().Err(err).Msg("lease.not_released") // it ends by itself
	}
}
