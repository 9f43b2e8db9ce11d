package testkit

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Running is what Start started.
type Running struct {
	// Cancel asks all parts to end, and does not wait.
	Cancel context.CancelFunc
	ended  chan struct{}
}

// Start runs the parts of a stage until Stop, or the end of the test. A part
// that fails fails the test.
func Start(t testing.TB, parts ...func(context.Context) error) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{Cancel: cancel, ended: make(chan struct{})}
	var running sync.WaitGroup
	for _, run := range parts {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	go func() { running.Wait(); close(r.ended) }()
	t.Cleanup(func() { cancel(); <-r.ended })
	return r
}

// Stop asks all parts to end, and waits until they have.
func (r *Running) Stop(t testing.TB) {
	t.Helper()
	r.Cancel()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatal("a stage did not stop")
	}
}
