package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/registry"
)

// failing are breakers of one endpoint, and how often they opened and closed.
type failing struct {
	*breakers
	e              *registry.Endpoint
	opened, closed int
}

func newFailing() *failing {
	f := &failing{e: &registry.Endpoint{ID: "ep_1", Meta: revision.Meta{Revision: 1}}}
	f.breakers = newBreakers(func() float64 { return 0 }, time.Now, func(_ string, open bool) {
		if open {
			f.opened++
		} else {
			f.closed++
		}
	})
	return f
}

// attempt makes one if it may, and says whether it might.
func (f *failing) attempt(delivery string, o outcome.Outcome) bool {
	p, _ := f.allow(f.e, delivery)
	if p == nil {
		return false
	}
	p.done(o)
	return true
}

// open makes the breaker open.
func (f *failing) open(t *testing.T) {
	t.Helper()
	for i := range breakerFailures {
		if i == breakerFailures-1 {
			<-time.After(breakerSpan)
		}
		if !f.attempt(fmt.Sprint(i%breakerDeliveries), outcome.Timeout) {
			t.Fatalf("it opened after %d failures", i)
		}
	}
	if f.opened != 1 {
		t.Fatal("it did not open")
	}
}

func TestOnlySustainedFailureOfSeveralDeliveriesOpensABreaker(t *testing.T) {
	tests := []struct {
		name       string
		deliveries int
		failures   int
		over       time.Duration
		between    outcome.Outcome // in the middle of it
		opens      bool
	}{
		{"many failures of several deliveries over some time", 5, 20, 5 * time.Second, "", true},
		{"one failure too few", 5, 19, 5 * time.Second, "", false},
		{"the retries of one delivery alone", 1, 500, time.Hour, "", false},
		{"the retries of four", 4, 500, time.Hour, "", false},
		{"a burst while a receiver restarts", 1000, 1000, 4 * time.Second, "", false},
		{"a success between", 10, 30, time.Minute, outcome.Delivered, false},
		{"a rejection between: it answers", 10, 30, time.Minute, outcome.StatusTerminal, false},
		{"an attempt of ours that was cut short says nothing", 10, 30, time.Minute, outcome.Interrupted, true},
		{"a blocked address says nothing", 10, 30, time.Minute, outcome.AddressBlocked, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFailing()
				for i := range tt.failures {
					if i == tt.failures/2 && tt.between != "" {
						f.attempt("other", tt.between)
					}
					f.attempt(fmt.Sprint(i%tt.deliveries), outcome.StatusRetryable)
					<-time.After((tt.over + time.Microsecond) / time.Duration(tt.failures-1))
				}
				if opens := f.opened > 0; opens != tt.opens {
					t.Errorf("it opened: %v", opens)
				}
			})
		})
	}
}

func TestProbesComeOneAtATimeWithGrowingPausesUntilOneSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing()
		f.open(t)
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			p, back := f.allow(f.e, "a")
			if p != nil || time.Until(back) != pause*time.Second {
				t.Fatalf("before the probe: pass %v, back in %s, want %s", p != nil, time.Until(back), pause*time.Second)
			}
			<-time.After(time.Until(back))
			probe, _ := f.allow(f.e, "a")
			if probe == nil {
				t.Fatal("no probe at its time")
			}
			if other, back := f.allow(f.e, "b"); other != nil || !back.After(time.Now()) {
				t.Fatal("a second attempt during a probe")
			}
			probe.done(outcome.Timeout)
		}
		<-time.After(maxProbePause)
		if !f.attempt("a", outcome.Delivered) || !f.attempt("b", outcome.Timeout) || f.closed != 1 {
			t.Error("a success did not close it")
		}
	})
}

func TestAProbeThatIsNotMadeIsDueAtOnceForSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing()
		f.open(t)
		<-time.After(firstProbePause)
		p, _ := f.allow(f.e, "a")
		p.abandon()
		p, _ = f.allow(f.e, "b")
		if p == nil {
			t.Fatal("the probe was lost")
		}
		p.done(outcome.Interrupted)
		p.abandon() // as a deferred one does
		if p, _ = f.allow(f.e, "c"); p == nil {
			t.Fatal("the probe was lost with an attempt that was cut short")
		}
	})
}

func TestAChangeOfTheEndpointClosesItsBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFailing()
		f.open(t)
		f.e = &registry.Endpoint{ID: "ep_1", Meta: revision.Meta{Revision: 2}}
		if !f.attempt("a", outcome.Timeout) || f.closed != 1 {
			t.Error("the new address was not tried")
		}
	})
}

// Whatever happens in whatever order: no two probes at once, no wait beyond the
// longest pause and its spread, and a success closes.
func TestABreakerKeepsItsPromisesInAnyOrder(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			f := newFailing()
			f.random = rnd.Float64
			outcomes := []outcome.Outcome{outcome.Timeout, outcome.Timeout, outcome.Timeout, outcome.Timeout, outcome.Timeout,
				outcome.ConnectionRefused, outcome.Interrupted}
			if seed%3 == 0 {
				outcomes = append(outcomes, outcome.Delivered)
			}
			var under []*permit
			probes := func() (n int) {
				for _, p := range under {
					if p.probe != nil && p.probe == f.by[f.e.ID] { // not of a streak that is over
						n++
					}
				}
				return n
			}
			for range 3000 {
				if rnd.IntN(3) == 0 {
					<-time.After(time.Duration(rnd.Int64N(int64(3 * time.Second))))
				}
				if len(under) > 0 && rnd.IntN(2) == 0 {
					i := rnd.IntN(len(under))
					p := under[i]
					under = append(under[:i], under[i+1:]...)
					if rnd.IntN(10) == 0 {
						p.abandon()
						continue
					}
					o := outcomes[rnd.IntN(len(outcomes))]
					p.done(o)
					if o == outcome.Delivered && f.opened != f.closed {
						t.Fatal("open after a success")
					}
					continue
				}
				p, back := f.allow(f.e, fmt.Sprint(rnd.IntN(20)))
				if p != nil {
					under = append(under, p)
				} else if wait := time.Until(back); wait <= 0 || wait > maxProbePause+maxProbePause/4 {
					t.Fatalf("told to come back in %s", wait)
				}
				if f.opened > f.closed && probes() > 1 {
					t.Fatalf("%d probes at once", probes())
				}
			}
			if seed%3 != 0 && f.opened != 1 {
				t.Errorf("an endpoint that never answers opened its breaker %d times", f.opened)
			}
		})
	}
}

func TestWhatWaitsForABreakerHasAnEndAndNotBeforeItsScheduleHas(t *testing.T) {
	const timeout = 10 * time.Second
	owed := time.Now()
	for _, p := range []retry.Policy{retry.Standard(), retry.Urgent(), {MaxAttempts: 1},
		{Delays: []time.Duration{1, 2, 3}, Stretch: 1},
		{Delays: []time.Duration{time.Millisecond}}, {Base: time.Millisecond, Cap: time.Second, MaxAttempts: 30},
		{Base: 1, Cap: 2, MaxAttempts: 1_000_000}, {Base: time.Second, Cap: 24 * time.Hour, MaxAttempts: 1_000_000}} {
		for _, deliverBy := range []time.Time{{}, owed.Add(time.Minute)} {
			b := Budget{Policy: p, FirstAt: owed, DeliverBy: deliverBy}
			end := sparedUntil(b, timeout)
			if end.IsZero() || end.Sub(owed) > 31*24*time.Hour {
				t.Errorf("%+v waits until %s", p, end)
			}
			if !deliverBy.IsZero() && end.After(deliverBy) {
				t.Errorf("%+v waits beyond its deadline", p)
			}
			if until := retry.AttemptsUntil(b); !until.IsZero() && !end.Equal(until) {
				t.Errorf("%+v ends at %s, its budget at %s", p, end, until)
			}
			if !retry.AttemptsUntil(b).IsZero() || p.Attempts() > 1000 {
				continue
			}
			last := owed // of a schedule whose every attempt takes as long as it may
			for made := 1; ; made++ {
				last = last.Add(timeout)
				wait, ok := retry.Next(p, made, func() float64 { return 1 })
				if !ok {
					break
				}
				last = last.Add(wait)
			}
			if end.Before(last) {
				t.Errorf("%+v ends at %s, its schedule at %s", p, end.Sub(owed), last.Sub(owed))
			}
		}
	}
}
