// Package coalesce lets one of many who ask at once do the work for all of them.
// The work is done by those who wait for it: there is no goroutine to stop.
package coalesce

import (
	"context"
	"slices"
	"sync"
)

// Options of a Group. All are required unless marked Optional.
type Options[A any] struct {
	// Serve answers asks: all that came before it was called, up to Most. One call
	// runs at a time. Its context is that of one of those who asked.
	Serve func(ctx context.Context, asks []A) error
	Most  int // Optional: no bound
	// Gather runs before each call of Serve: whoever asks meanwhile is served with
	// the others. Optional.
	Gather func(ctx context.Context)
}

// Group is what serves asks together. It is safe for concurrent use.
type Group[A any] struct {
	o    Options[A]
	lead chan struct{} // holds a token while somebody serves

	mu      sync.Mutex // guards what follows
	waiting []*call[A]
}

type call[A any] struct {
	ask    A
	served chan struct{} // closed once err is known
	err    error
}

// New makes a group. It starts nothing.
func New[A any](o Options[A]) *Group[A] { return &Group[A]{o: o, lead: make(chan struct{}, 1)} }

// Do returns what a call of Serve gave that began after Do and got ask. When the
// context of the one who called Serve ends, that one alone fails: somebody else
// calls Serve for the others.
func (g *Group[A]) Do(ctx context.Context, ask A) error {
	c := &call[A]{ask: ask, served: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	for {
		select {
		case <-c.served:
			return c.err
		case <-ctx.Done():
			g.leave(c)
			return context.Cause(ctx)
		case g.lead <- struct{}{}:
			g.serve(ctx, c)
			<-g.lead
		}
	}
}

// serve makes one call of Serve, unless mine was served already.
func (g *Group[A]) serve(ctx context.Context, mine *call[A]) {
	select {
	case <-mine.served:
		return
	default:
	}
	if g.o.Gather != nil {
		g.o.Gather(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	n := len(g.waiting)
	if g.o.Most > 0 {
		n = min(n, g.o.Most)
	}
	round := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.mu.Unlock()
	asks := make([]A, n)
	for i, c := range round {
		asks[i] = c.ask
	}
	err := g.o.Serve(ctx, asks)
	if err != nil && ctx.Err() != nil {
		g.mu.Lock()
		g.waiting = append(round, g.waiting...)
		g.mu.Unlock()
		return
	}
	for _, c := range round {
		c.err = err
		close(c.served)
	}
}

// leave takes back a call that is not being served.
func (g *Group[A]) leave(c *call[A]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, c); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
}
