package registry

import (
	"context"
	"sync"
	"time"
)

const (
	// barrierPause is the least time between two requests of a barrier: it
	// bounds what freshness costs the server under load, and what it adds to
	// the latency of one event.
	barrierPause = 2 * time.Millisecond
	// barrierBound keeps a request to a server that is away from hanging.
	barrierBound = 5 * time.Second
)

// barrier lets many callers share few calls of reach, such that each caller
// gets the result of a call that started after it arrived.
type barrier struct {
	reach func(context.Context) error

	mu      sync.Mutex
	running bool
	next    *flight // what callers that arrive now wait for
	last    time.Time
}

type flight struct {
	done chan struct{}
	err  error
}

func (b *barrier) wait(ctx context.Context) error {
	b.mu.Lock()
	if b.next == nil {
		b.next = &flight{done: make(chan struct{})}
	}
	f := b.next
	if !b.running {
		b.running = true
		go b.run()
	}
	b.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes calls until nobody waits for one.
func (b *barrier) run() {
	for {
		b.mu.Lock()
		pause := barrierPause - time.Since(b.last)
		b.mu.Unlock()
		if pause > 0 {
			time.Sleep(pause)
		}
		b.mu.Lock()
		f := b.next
		if f == nil {
			b.running = false
			b.mu.Unlock()
			return
		}
		b.next, b.last = nil, time.Now()
		b.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), barrierBound)
		f.err = b.reach(ctx)
		cancel()
		close(f.done)
	}
}
