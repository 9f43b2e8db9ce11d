package retry

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTheStandardScheduleTakesBetween27h35mAnd33h6m(t *testing.T) {
	total := func(rnd func() float64) (sum time.Duration, attempts int) {
		for attempts = 1; ; attempts++ {
			d, ok := Next(Standard(), attempts, rnd)
			if !ok {
				return sum, attempts
			}
			sum += d
		}
	}
	const least, most = 27*time.Hour + 35*time.Minute, 33*time.Hour + 6*time.Minute + 7*time.Second
	sources := []func() float64{
		func() float64 { return 0 },
		func() float64 { return math.Nextafter(1, 0) },
		Random,
	}
	for seed := range uint64(500) {
		sources = append(sources, Seeded(seed))
	}
	for i, rnd := range sources {
		sum, attempts := total(rnd)
		if attempts != 8 {
			t.Errorf("source %d: %d attempts, want 8", i, attempts)
		}
		if sum < least || sum > most {
			t.Errorf("source %d: the schedule takes %s, want %s to %s", i, sum, least, most)
		}
	}
	if w := Standard().Window; w != 33*time.Hour {
		t.Errorf("the schedule is cut at %s, want 33h", w)
	}
}

func TestEachStandardDelayIsStretchedByUpToAFifth(t *testing.T) {
	p := Standard()
	for n, base := range p.Delays {
		low, _ := Next(p, n+1, func() float64 { return 0 })
		mid, _ := Next(p, n+1, func() float64 { return 0.5 })
		high, _ := Next(p, n+1, func() float64 { return math.Nextafter(1, 0) })
		if low != base || mid != base+base/10 || high > base+base/5 || high < base+base/5-time.Microsecond {
			t.Errorf("delay %d of %s is stretched to %s, %s, %s", n, base, low, mid, high)
		}
	}
}

func TestFullJitterStaysBelowTheDoubledBaseAndTheCap(t *testing.T) {
	policies := []Policy{
		Urgent(),
		{Base: time.Millisecond, Cap: 10 * time.Millisecond},
		{Base: time.Second, Cap: time.Second},
		{Base: 3, Cap: maxDelay},
	}
	for _, p := range policies {
		for n := 1; n <= 80; n++ {
			want := math.Min(float64(p.Cap), float64(p.Base)*math.Pow(2, float64(n-1)))
			for seed := range uint64(20) {
				d, ok := Next(p, n, Seeded(seed))
				if !ok || d < 0 || float64(d) > want {
					t.Fatalf("%+v after %d attempts: wait %s, ok %v, want 0 to %s", p, n, d, ok, time.Duration(want))
				}
			}
			high, _ := Next(p, n, func() float64 { return math.Nextafter(1, 0) })
			if float64(high) < want*0.99-2 {
				t.Errorf("%+v after %d attempts: the longest wait is %s, want about %s", p, n, high, time.Duration(want))
			}
		}
	}
}

func TestHugeAttemptCountsDoNotOverflow(t *testing.T) {
	for _, n := range []int{63, 64, 65, 1000, math.MaxInt32, math.MaxInt - 1, math.MaxInt} {
		d, ok := Next(Policy{Base: maxDelay/2 + 1, Cap: maxDelay}, n, Random)
		if !ok || d < 0 || d > maxDelay {
			t.Errorf("after %d attempts: wait %s, ok %v", n, d, ok)
		}
	}
}

func TestTheFirstAttemptIsDueAtOnce(t *testing.T) {
	for _, made := range []int{0, -1, math.MinInt} {
		for _, p := range []Policy{Standard(), Urgent()} {
			if d, ok := Next(p, made, Random); d != 0 || !ok {
				t.Errorf("%s with %d attempts made: wait %s, ok %v", p.Name, made, d, ok)
			}
		}
	}
}

func TestTheNumberOfAttemptsIsTheBudget(t *testing.T) {
	tests := []struct {
		name   string
		policy Policy
		want   int
	}{
		{"max_attempts ends a longer schedule", Policy{MaxAttempts: 2, Delays: []time.Duration{1, 2, 3}}, 2},
		{"a schedule without max_attempts ends with its delays", Policy{Delays: []time.Duration{1, 2, 3}}, 4},
		{"max_attempts ends full jitter", Policy{MaxAttempts: 5, Base: 1, Cap: 1}, 5},
		{"one attempt means no retry", Policy{MaxAttempts: 1}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.policy.Validate(); err != nil {
				t.Fatal(err)
			}
			made := 0
			for _, ok := Next(tt.policy, made, Random); ok; _, ok = Next(tt.policy, made, Random) {
				made++
			}
			if made != tt.want {
				t.Errorf("%d attempts, want %d", made, tt.want)
			}
		})
	}
}

func TestAFaultySourceOfRandomnessCannotBreakTheBounds(t *testing.T) {
	for _, f := range []float64{-1, 2, math.NaN(), math.Inf(1), math.Inf(-1)} {
		bad := func() float64 { return f }
		if d, _ := Next(Standard(), 1, bad); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("rnd %v: wait %s", f, d)
		}
		if d, _ := Next(Urgent(), 30, bad); d < 0 || d > time.Minute {
			t.Errorf("rnd %v: jittered wait %s", f, d)
		}
	}
}

func TestTheSameSeedGivesTheSameJitter(t *testing.T) {
	a, b, other := Seeded(7), Seeded(7), Seeded(8)
	differs := false
	for range 100 {
		x, y := a(), b()
		if x != y {
			t.Fatal("two sources with one seed differ")
		}
		differs = differs || x != other()
	}
	if !differs {
		t.Error("another seed gives the same sequence")
	}
}

// A receiver that comes back at any time before the end is asked again: the
// attempts go on until there is hardly any time left.
func TestFullJitterUsesTheTimeThatWasPromised(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		p, window := Urgent(), time.Duration(10+r.IntN(600))*time.Second
		at, n := time.Duration(0), 1
		for ; ; n++ {
			delay, ok := NextWithin(p, n, window-at, r.Float64)
			if !ok {
				t.Fatal("the number of attempts is not bounded")
			}
			if at+delay >= window {
				break
			}
			at += delay
		}
		if left := window - at; left > p.Base {
			t.Fatalf("of %s, the last attempt leaves %s", window, left)
		}
		if n > 80 {
			t.Fatalf("%d attempts within %s", n, window)
		}
	}
}
