package registry

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/coalesce"
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
type barrier struct{ *coalesce.Group[struct{}] }

func newBarrier(reach func(context.Context) error) barrier {
	var last time.Time // belongs to the one who serves
	return barrier{coalesce.New(coalesce.Options[struct{}]{
		Gather: func(ctx context.Context) { stage.Pause(ctx, barrierPause-time.Since(last)) },
		Serve: func(ctx context.Context, _ []struct{}) error {
			last = time.Now()
			ctx, cancel := context.WithTimeout(ctx, barrierBound)
			defer cancel()
			return reach(ctx)
		},
	})}
}

func (b barrier) wait(ctx context.Context) error { return b.Do(ctx, struct{}{}) }
