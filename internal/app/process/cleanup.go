package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// Cleanup is a stack of named steps, each pushed right after what it undoes. A
// failed start and an orderly stop run the same stack, newest first. The zero
// value is ready.
type Cleanup struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	name  string
	bound time.Duration
	f     func(context.Context) error
}

// Push adds a step. f MUST return when its context ends.
func (c *Cleanup) Push(name string, bound time.Duration, f func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps = append(c.steps, step{name, bound, f})
}

// Run runs every step, also those after a failed one, and forgets them.
func (c *Cleanup) Run(log zerolog.Logger) error {
	c.mu.Lock()
	steps := c.steps
	c.steps = nil
	c.mu.Unlock()
	var failed error
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		ctx, cancel := context.WithTimeout(context.Background(), s.bound)
		start := time.Now()
		err := s.f(ctx)
		cancel()
		log.Debug().Str("step", s.name).Dur("took", time.Since(start)).Err(err).Msg(logevent.Cleanup)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return failed
}
