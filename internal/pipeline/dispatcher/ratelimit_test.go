package dispatcher

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/test/testkit"
)

// sharedRow is a bucket in memory, as three dispatchers share it.
type sharedRow struct {
	mu       sync.Mutex
	value    []byte
	revision uint64
}

type sharedEntry struct {
	jetstream.KeyValueEntry
	value    []byte
	revision uint64
}

func (e sharedEntry) Value() []byte    { return e.value }
func (e sharedEntry) Revision() uint64 { return e.revision }

func (b *sharedRow) Get(context.Context, string) (jetstream.KeyValueEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.revision == 0 {
		return nil, jetstream.ErrKeyNotFound
	}
	return sharedEntry{value: b.value, revision: b.revision}, nil
}

func (b *sharedRow) Update(_ context.Context, _ string, value []byte, revision uint64) (uint64, error) {
	<-time.After(time.Millisecond) // a server takes its time, so that dispatchers meet
	b.mu.Lock()
	defer b.mu.Unlock()
	if revision != b.revision {
		return 0, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	}
	b.value, b.revision = value, revision+1
	return b.revision, nil
}

func limited(perSecond float64, number uint64) *registry.Endpoint {
	return &registry.Endpoint{ID: "ep_1", SharedSettings: registry.SharedSettings{MaxPerSecond: perSecond},
		Meta: revision.Meta{Revision: number}}
}

// taken collects turns from several dispatchers at once.
func taken(t *testing.T, all []*rates, n int, e *registry.Endpoint, before time.Time) []time.Time {
	t.Helper()
	var mu sync.Mutex
	var turns []time.Time
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			turn, err := all[i%len(all)].take(t.Context(), e, before)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !turn.IsZero() {
				turns = append(turns, turn)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(turns, time.Time.Compare)
	return turns
}

func evenly(t *testing.T, turns []time.Time, apart time.Duration) {
	t.Helper()
	for i := range turns[1:] {
		if d := turns[i+1].Sub(turns[i]); d < apart {
			t.Fatalf("turns %d and %d are %s apart, want %s", i, i+1, d, apart)
		}
	}
}

func TestDispatchersShareOneRowOfTurnsSpacedEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &sharedRow{}
		all := []*rates{newRates(bucket, time.Now), newRates(bucket, time.Now), newRates(bucket, time.Now)}
		var turns []time.Time
		for range 20 { // dispatchers that go on asking while time passes
			turns = append(turns, taken(t, all, 1+rand.IntN(60), limited(50, 1), time.Time{})...)
			<-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond)
		}
		slices.SortFunc(turns, time.Time.Compare)
		evenly(t, turns, 20*time.Millisecond)
	})
}

func TestNoTurnIsWastedWhileTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		bucket := &sharedRow{}
		turns := taken(t, []*rates{newRates(bucket, time.Now), newRates(bucket, time.Now), newRates(bucket, time.Now)}, 1000,
			limited(100, 1), time.Time{})
		evenly(t, turns, 10*time.Millisecond)
		if last := turns[len(turns)-1].Sub(began); len(turns) != 1000 || last > 10*time.Second {
			t.Errorf("%d turns, the last after %s; want 1000 in 10 s", len(turns), last)
		}
	})
}

func TestATurnThatComesTooLateIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRates(&sharedRow{}, time.Now)
		end := time.Now().Add(4 * time.Second)
		if turns := taken(t, []*rates{r}, 20, limited(2, 1), end); len(turns) != 8 || !turns[7].Before(end) {
			t.Errorf("%d turns before the end of the budgets, want 8: %v", len(turns), turns)
		}
		// What they did not take is there for others.
		// The horizon has moved on by the milliseconds that taking them took: one turn more, at most.
		if n := len(taken(t, []*rates{r}, 1000, limited(2, 1), time.Time{})); n < 240-8 || n > 241-8 {
			t.Errorf("%d turns within the horizon, want %d", n, 240-8)
		}
	})
}

func TestAChangeOfTheLimitBeginsANewRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &sharedRow{}
		first, second := newRates(bucket, time.Now), newRates(bucket, time.Now)
		taken(t, []*rates{first, second}, 50, limited(1, 1), time.Time{})
		turns := taken(t, []*rates{second}, 10, limited(100, 2), time.Time{})
		if wait := time.Until(turns[9]); wait > 200*time.Millisecond {
			t.Errorf("the new limit's tenth turn is in %s", wait)
		}
		// One that has not heard of the change goes along with those that have.
		turns = append(turns, taken(t, []*rates{first}, 10, limited(1, 1), time.Time{})...)
		slices.SortFunc(turns, time.Time.Compare)
		evenly(t, turns, 10*time.Millisecond)
		if wait := time.Until(turns[19]); wait > 300*time.Millisecond {
			t.Errorf("the tenth turn of one that knows the old limit is in %s", wait)
		}
	})
}

func TestALateTurnIsUsedSpacedFromTheOneBeforeOrNotAtAll(t *testing.T) {
	r := newRates(&sharedRow{}, time.Now)
	now := time.Now()
	for i, late := range []time.Duration{300 * time.Millisecond, 250 * time.Millisecond, 200 * time.Millisecond} {
		at, ok := r.use("ep_1", 10, now.Add(-late), now)
		if want := now.Add(time.Duration(i) * 100 * time.Millisecond); !ok || !at.Equal(want) {
			t.Errorf("turn %d is used at %s, %v; want %s", i, at, ok, want)
		}
	}
	if _, ok := r.use("ep_1", 10, now.Add(-turnGrace-1), now); ok {
		t.Error("a turn was used after its grace")
	}
	if at, ok := r.use("ep_1", 10, now.Add(time.Second), now); !ok || !at.Equal(now.Add(time.Second)) {
		t.Errorf("a turn to come is used at %s, %v", at, ok)
	}
}

func TestTurnsOutliveTheServersRestart(t *testing.T) {
	s := testkit.NATS(t)
	open := func() *rates {
		r, err := openRates(t.Context(), s.JetStream(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := taken(t, []*rates{open(), open(), open()}, 90, limited(5, 1), time.Time{})
	s.Kill()
	s.Restart()
	after := taken(t, []*rates{open(), open()}, 20, limited(5, 1), time.Time{})
	all := append(before, after...)
	slices.SortFunc(all, time.Time.Compare)
	evenly(t, all, 200*time.Millisecond)
	if len(all) != 110 {
		t.Errorf("%d turns, want 110", len(all))
	}
}

// A row of turns, and turns that were given, from before the clock was set back
// lie in the future. Nobody waits for them, also after a restart.
func TestTurnsFromBeforeTheClockWasSetBackAreNotWaitedFor(t *testing.T) {
	for name, per := range map[string]float64{"fast": 50, "one in half a minute": 1.0 / 30} {
		synctest.Test(t, func(t *testing.T) {
			bucket, skew := &sharedRow{}, time.Hour
			now := func() time.Time { return time.Now().Add(skew).Round(0) }
			lived := newRates(bucket, now)
			given := taken(t, []*rates{lived}, 3, limited(per, 1), time.Time{})
			if at, ok := lived.use("ep_1", per, given[0], now()); !ok {
				t.Errorf("%s: the first turn is used at %s, %v", name, at, ok)
			}
			skew = 0 // an hour back
			if at, ok := lived.use("ep_1", per, given[0], now()); ok {
				t.Errorf("%s: a turn from before is used at %s", name, at)
			}
			for who, r := range map[string]*rates{"one that lived through it": lived,
				"one that started after it": newRates(bucket, now)} {
				turns := taken(t, []*rates{r}, 1, limited(per, 1), time.Time{})
				if len(turns) == 0 {
					continue // the other one took the only turn within the horizon
				}
				if wait := turns[0].Sub(now()); wait > turnHorizon {
					t.Errorf("%s, %s: a turn in %s", name, who, wait)
				}
				if at, ok := r.use("ep_1", per, turns[0], now()); !ok || at.Sub(now()) > turnHorizon {
					t.Errorf("%s, %s: it is used at %s, %v", name, who, at, ok)
				}
			}
		})
	}
}
