package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestOwnersTakeTurnsAndTheLanesOfEachToo(t *testing.T) {
	q := newFairQueue[string](100, 1<<20, nil)
	for _, in := range []Lane{{"a", "flood"}, {"a", "flood"}, {"a", "flood"}, {"a", "flood"}, {"a", "rare"}, {"b", "x"},
		{"b", "x"}} {
		q.put(t.Context(), in, fmt.Sprintf("%s/%s/%d", in.Owner, in.Name, q.len()), 1)
	}
	var got []string
	for q.len() > 0 {
		item, _ := q.next(t.Context())
		got = append(got, item)
	}
	want := []string{"a/flood/0", "b/x/5", "a/rare/4", "b/x/6", "a/flood/1", "a/flood/2", "a/flood/3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNothingIsLostOrOvertakesWithinItsLane(t *testing.T) {
	q := newFairQueue[[2]int](64, 1<<20, nil)
	random := rand.New(rand.NewPCG(1, 2))
	const lanes, n = 7, 5000
	go func() {
		var next [lanes]int
		for range n {
			l := random.IntN(lanes)
			q.put(context.Background(), Lane{fmt.Sprint(l % 3), fmt.Sprint(l)}, [2]int{l, next[l]}, random.IntN(100))
			next[l]++
		}
	}()
	var seen [lanes]int
	for range n {
		item, _ := q.next(t.Context())
		if seen[item[0]] != item[1] {
			t.Fatalf("lane %d gave %d, want %d", item[0], item[1], seen[item[0]])
		}
		seen[item[0]]++
	}
	if q.len() != 0 || q.bytes != 0 || len(q.owners) != 0 || len(q.byName) != 0 {
		t.Errorf("left: %d items, %d bytes, %d owners", q.len(), q.bytes, len(q.owners))
	}
}

func TestAFullQueueMakesWaitAndAnOversizedItemPassesAlone(t *testing.T) {
	for name, c := range map[string]struct{ items, bytes, size int }{
		"by count": {2, 1000, 1}, "by bytes": {100, 20, 10}, "an item over the bytes": {100, 5, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFairQueue[int](c.items, c.bytes, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				put := 0
				go func() {
					for q.put(ctx, Lane{"a", "a"}, put, c.size) {
						put++
					}
				}()
				synctest.Wait()
				full := put
				if most := min(c.items, max(c.bytes/c.size, 1)); full != most {
					t.Errorf("it took %d, want %d", full, most)
				}
				q.next(ctx)
				synctest.Wait()
				if put != full+1 {
					t.Errorf("after one went it took %d more", put-full)
				}
				cancel()
				synctest.Wait()
				for q.len() > 0 {
					q.pop()
				}
				if _, ok := q.next(ctx); ok {
					t.Error("an ended wait gave an item")
				}
			})
		})
	}
}

func TestAnOwnerThatTakesNoneLosesItsTurnsUntilItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shut := map[string]bool{"a": true}
		q := newFairQueue[string](8, 1<<20, func(owner string) bool { return !shut[owner] })
		put := func(owner string) { q.put(t.Context(), Lane{Owner: owner}, owner, 1) }
		pop := func(want string) {
			t.Helper()
			if got, _ := q.pop(); got != want {
				t.Errorf("it was %q's turn, want %q", got, want)
			}
		}
		put("a")
		put("b")
		pop("b")
		pop("")
		shut["a"] = false
		pop("") // nobody said so
		q.opened("a")
		pop("a")

		shut["a"] = true
		put("a")
		pop("")
		q.recheck()
		pop("")
		<-time.After(maxClosed)
		q.recheck()
		pop("a") // nothing waits longer than that

		for range 4 {
			put("a")
		}
		pop("")
		put("a") // more than half full: it is in the others' way
		pop("a")
		pop("")
		if all := q.empty(); len(all) != 4 {
			t.Errorf("%d were left, want 4", len(all))
		}
		if q.len() != 0 {
			t.Error("it is not empty")
		}
		put("b")
		pop("b")
	})
}
