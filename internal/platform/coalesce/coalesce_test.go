package coalesce_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/waybill-dev/waybill/internal/platform/coalesce"
)

func TestDoServesAllWhoWaitTogetherAndNobodyByACallThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds [][]int
		release := make(chan struct{})
		g := coalesce.New(coalesce.Options[int]{Most: 3, Serve: func(_ context.Context, asks []int) error {
			rounds = append(rounds, asks)
			<-release
			return nil
		}})
		var work sync.WaitGroup
		ask := func(n int) {
			work.Go(func() {
				if err := g.Do(t.Context(), n); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		ask(0)
		for n := range 5 {
			ask(n + 1) // while the first is being served
		}
		close(release)
		work.Wait()
		if len(rounds) != 3 || len(rounds[0]) != 1 || len(rounds[1]) != 3 || len(rounds[2]) != 2 {
			t.Errorf("served as %v", rounds)
		}
	})
}

func TestDoFailsForAllWhenServeDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong, release := errors.New("wrong"), make(chan struct{})
		g := coalesce.New(coalesce.Options[int]{Serve: func(context.Context, []int) error { return wrong },
			Gather: func(context.Context) { <-release }})
		var work sync.WaitGroup
		for n := range 3 {
			work.Go(func() {
				if err := g.Do(t.Context(), n); !errors.Is(err, wrong) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(release)
		work.Wait()
	})
}

func TestDoOfOneWhoGivesUpFailsForThatOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served []int
		release := make(chan struct{})
		g := coalesce.New(coalesce.Options[int]{Serve: func(ctx context.Context, asks []int) error {
			select {
			case <-release:
				served = append(served, asks...)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		gaveUp := errors.New("gave up")
		results := make([]error, 4)
		cancels := make([]context.CancelCauseFunc, 4)
		var work sync.WaitGroup
		for n := range 4 {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cancels[n] = cancel
			work.Go(func() { results[n] = g.Do(ctx, n) })
			synctest.Wait()
		}
		cancels[0](gaveUp) // it was serving
		synctest.Wait()
		cancels[3](gaveUp) // it waits, or is being served
		synctest.Wait()
		close(release)
		work.Wait()
		for n, err := range results {
			if left := n == 0 || n == 3; left != errors.Is(err, gaveUp) || !left && err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
		if served[0] == 0 {
			t.Errorf("served %v, also what was taken back", served)
		}
		if err := g.Do(t.Context(), 9); err != nil || served[len(served)-1] != 9 {
			t.Errorf("afterwards: %v, served %v", err, served)
		}
	})
}
