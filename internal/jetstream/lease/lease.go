// Package lease gives one process at a time the right to do something: a key in
// the bucket of leases that ends by itself unless it is renewed.
package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// ErrLost ends what was done under a lease: another process may do it by now.
var ErrLost = errors.New("the lease ran out before it was renewed")

// Options of a lease. All are required unless marked Optional.
type Options struct {
	JS jetstream.JetStream
	// Key says what only one may do; Name is who asks. Whoever asks under the
	// name of the holder gets the lease at once: an earlier run of its own.
	Key, Name string
	// Waiting is called each time somebody else is found to hold it; by Hold,
	// only once it is somebody else than before. Optional.
	Waiting func(holder string)
	Log     zerolog.Logger
}

// Lease is the right, for as long as it is renewed. It keeps two processes from
// working against each other; a process that was frozen may go on for a moment
// with a stale one, so what it does then MUST be harmless.
type Lease struct {
	o    Options
	kv   jetstream.KeyValue
	ttl  time.Duration
	done sync.WaitGroup

	mu       sync.Mutex // guards what follows
	revision uint64
	until    time.Time
	lost     bool

	// other is the revision of somebody else's lease, and otherAt when it was seen
	// first. They belong to whoever acquires.
	other   uint64
	otherAt time.Time
}

// Hold waits until nobody else holds the lease, and does what only its holder
// may do: held ends with ctx, or when the lease is lost, which is the error then.
func Hold(ctx context.Context, o Options, do func(held context.Context, l *Lease) error) error {
	if waiting, before := o.Waiting, ""; waiting != nil {
		o.Waiting = func(holder string) {
			if holder != before && holder != "" {
				waiting(holder)
				before = holder
			}
		}
	}
	l, err := Acquire(ctx, o)
	if err != nil {
		return err
	}
	defer l.Release()
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	l.Keep(held, lose)
	err = do(held, l)
	if lost := context.Cause(held); lost != nil && ctx.Err() == nil {
		return lost
	}
	return err
}

// Acquire waits until nobody else holds the lease. The caller keeps and releases it.
func Acquire(ctx context.Context, o Options) (*Lease, error) {
	kv, err := streams.Bucket(ctx, o.JS, streams.LeasesBucket)
	if err != nil {
		return nil, err
	}
	st, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", streams.LeasesBucket, err)
	}
	if st.TTL() <= 0 {
		return nil, fmt.Errorf("bucket %s keeps its keys for ever; mend it with: waybill streams apply", streams.LeasesBucket)
	}
	l := &Lease{o: o, kv: kv, ttl: st.TTL()}
	for {
		holder, err := l.try(ctx)
		if err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
		if holder == o.Name {
			return l, nil
		}
		if o.Waiting != nil {
			o.Waiting(holder)
		}
		pause := l.ttl / 10
		t := time.NewTimer(pause + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// try takes the lease if it is free, or was its own, and returns who
// holds it now.
func (l *Lease) try(ctx context.Context) (holder string, err error) {
	began, name := time.Now(), l.o.Name
	revision, err := l.kv.Create(ctx, l.o.Key, []byte(name))
	if errors.Is(err, jetstream.ErrKeyExists) {
		e, err := l.kv.Get(ctx, l.o.Key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return "", nil // it ended in between
		}
		if err != nil || string(e.Value()) != name && !l.abandoned(e.Revision()) {
			return holderOf(e), err
		}
		revision, err = l.kv.Update(ctx, l.o.Key, []byte(name), e.Revision())
		if errors.Is(err, jetstream.ErrKeyExists) && string(e.Value()) != name {
			return holderOf(e), nil // it was renewed, or somebody else was faster
		}
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

// abandoned says that a lease was not renewed for twice as long as it lasts. The
// server ends it by the clock on the wall: if that was set back, much later.
func (l *Lease) abandoned(revision uint64) bool {
	if revision != l.other {
		l.other, l.otherAt = revision, time.Now()
	}
	return time.Since(l.otherAt) > 2*l.ttl
}

func holderOf(e jetstream.KeyValueEntry) string {
	if e == nil {
		return ""
	}
	return string(e.Value())
}

// renewed counts from before the request: the server's clock started no earlier.
func (l *Lease) renewed(revision uint64, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.until = revision, began.Add(l.ttl)
}

// Valid is asked right before what only the holder may do.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && time.Now().Before(l.until)
}

// Keep renews the lease until ctx ends, and calls lose once it is lost.
func (l *Lease) Keep(ctx context.Context, lose context.CancelCauseFunc) {
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

func (l *Lease) renew(ctx context.Context) error {
	l.mu.Lock()
	revision, until := l.revision, l.until
	l.mu.Unlock()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, l.ttl/5)
	defer cancel()
	next, err := l.kv.Update(bounded, l.o.Key, []byte(l.o.Name), revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		// Another revision. It is its own when an earlier renewal was
		// stored and its answer came too late.
		var holder string
		if holder, err = l.try(bounded); err == nil && holder != l.o.Name {
			return fmt.Errorf("%w: %q has it", ErrLost, holder)
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
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return nil // the next tick tries again
}

// Release lets another process take over at once.
func (l *Lease) Release() {
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
	if err := l.kv.Delete(ctx, l.o.Key, jetstream.LastRevision(revision)); err != nil {
		l.o.Log.Debug().Err(err).Msg(logevent.LeaseNotReleased) // it ends by itself
	}
}
