package sink_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestWhateverFailsBeforeOrAfterItTookEffect(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			rnd, faults := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8)) // the second is the sink's goroutine's
			var injected atomic.Int64
			fail := func(call string) error {
				if faults.IntN(4) == 0 && injected.Load() < 20 {
					injected.Add(1)
					return errInjected
				}
				return nil
			}
			f := &faulty{Ledger: h.db(), before: fail, after: fail}
			h.publish(rnd.IntN(300))
			r := h.start(f, func(o *sink.Options) { o.BatchRecords = 1 + rnd.IntN(60) })
			for range 5 {
				h.publish(1 + rnd.IntN(100))
			}
			r.waitStored(len(h.sent))
			r.end()
			h.check(h.sent)
			if injected.Load() < 10 {
				t.Errorf("only %d faults were injected", injected.Load())
			}
		})
	}
}

func TestASinkThatDiesAtAnyStepIsFollowedByOneThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"Migrate", "Position", "IDs", "Turned", "Append", "Last"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+call, func(t *testing.T) {
				t.Parallel()
				h := newHarness(t)
				batches := func(o *sink.Options) { o.BatchRecords = 10 }
				h.publish(20)
				r := h.start(&faulty{Ledger: h.db()}, batches)
				r.waitStored(20)
				r.end()

				h.publish(35)
				var died atomic.Bool
				dead := make(chan struct{})
				die := func(c string) error {
					if c == call && died.CompareAndSwap(false, true) {
						close(dead)
					}
					if died.Load() {
						return errKilled
					}
					return nil
				}
				f := &faulty{Ledger: h.db()}
				if when == "before" {
					f.before = die
				} else {
					f.after, f.before = die, func(string) error {
						if died.Load() {
							return errKilled
						}
						return nil
					}
				}
				r = h.start(f, batches)
				<-dead
				r.end()

				r = h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchRecords = 17 })
				r.waitStored(55)
				r.end()
				h.check(h.sent)
			})
		}
	}
}

// lateInsert loses the first insert on its way; it lands right before the
// insert that the next session sends in its place.
type lateInsert struct {
	sink.Ledger
	lost []ledger.Row
	done bool
}

func (l *lateInsert) Append(ctx context.Context, rows []ledger.Row) error {
	if !l.done && len(rows) > 5 {
		l.done, l.lost = true, slices.Clone(rows[:5])
		return errInjected
	}
	if l.lost != nil {
		lost := l.lost
		l.lost = nil
		if err := l.Ledger.Append(ctx, lost); err != nil {
			return err
		}
	}
	return l.Ledger.Append(ctx, rows)
}

func TestAnInsertThatLandsLateIsNotDoubled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(40)
	// All records are there before the sink is: each batch is full, whatever the load.
	r := h.start(&faulty{Ledger: &lateInsert{Ledger: h.db()}},
		func(o *sink.Options) { o.BatchRecords, o.BatchAge = 10, 5*time.Second })
	r.waitStored(40)
	r.end()
	h.check(h.sent)
	if !strings.Contains(h.log.String(), "overtaken") {
		t.Error("the sink did not notice that its second insert was dropped")
	}
}

func TestAnEngineThatIsKilledInMidInsert(t *testing.T) {
	t.Parallel()
	e := testkit.StartClickHouseWith(t, engine.Options{Dir: t.TempDir()})
	h := newHarnessOn(t, e.DSN("", "waybill"))
	var kills atomic.Int64
	rnd := rand.New(rand.NewPCG(3, 4)) // of the sink's goroutine
	f := &faulty{Ledger: h.db()}
	f.appended = func(rows []ledger.Row) {
		if n := rows[0].Idx; n > 0 && kills.Load() < 3 && rnd.IntN(3) == 0 {
			kills.Add(1)
			pid := e.Pid()
			go func() {
				if pid != 0 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}()
		}
	}
	r := h.start(f, func(o *sink.Options) { o.BatchRecords = 100 })
	for range 12 {
		h.publish(250)
	}
	r.waitStored(3000)
	if kills.Load() < 3 {
		t.Errorf("the engine was killed %d times only", kills.Load())
	}
	r.end()
	h.check(h.sent)
}

func TestNATSThatIsStoppedOrKilled(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchRecords = 50 })
	for i, end := range []func(){h.nats.Stop, h.nats.Kill, h.nats.Kill} {
		h.publish(120)
		if i == 1 {
			r.waitStored(len(h.sent)) // idle when it goes down, besides busy
		}
		end()
		h.nats.Restart()
		h.js = h.nats.JetStream()
		h.publish(80)
	}
	r.waitStored(len(h.sent))
	r.end()
	h.check(h.sent)
}

func TestClickHouseThatIsAwayIsWaitedForAndSaidOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var away atomic.Bool
	away.Store(true)
	tries := make(chan struct{}, 100)
	f := &faulty{Ledger: h.db(), before: func(string) error {
		if !away.Load() {
			return nil
		}
		select {
		case tries <- struct{}{}:
		default:
		}
		return errInjected
	}}
	h.publish(60)
	r := h.start(f, nil)
	for range 4 {
		<-tries
	}
	if err := r.sink.Ready(); err == nil || !strings.Contains(err.Error(), "ClickHouse is not available") {
		t.Errorf("ready: %v", err)
	}
	away.Store(false)
	r.waitStored(60)
	r.end()
	h.check(h.sent)
	if got := strings.Count(h.log.String(), "ledger_sink.waiting"); got != 1 {
		t.Errorf("said %d times, want once", got)
	}
}
