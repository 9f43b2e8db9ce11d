package retry

import (
	"testing"
	"time"
)

func TestThePlanShowsWhereAScheduleIsCut(t *testing.T) {
	tests := []struct {
		name    string
		policy  Policy
		within  time.Duration
		steps   int
		ends    time.Duration
		last    Step
		more    bool
		dropped int
	}{
		{"the standard schedule is cut at 33 h", Standard(), 0, 8, 33 * time.Hour,
			Step{8, 27*time.Hour + 35*time.Minute + 5*time.Second, 33 * time.Hour, true}, false, 0},
		{"a deadline cuts it earlier, and later attempts are never made", Standard(), time.Hour, 4, 55 * time.Minute,
			Step{4, 35*time.Minute + 5*time.Second, 42*time.Minute + 6*time.Second, false}, false, 4},
		{"urgent goes on until the reserve", Urgent(), 2 * time.Minute, 8, 96 * time.Second,
			Step{8, 0, 96 * time.Second, true}, true, 0},
		{"urgent without a deadline ends after the default window", Urgent(), 0, maxSteps, DefaultWindow, Step{}, true, 0},
		{"a number of attempts alone needs no end", Policy{Delays: []time.Duration{time.Second}}, 0, 2, 0,
			Step{2, time.Second, time.Second, false}, false, 0},
		{"a deadline that is all reserve allows no attempt", Standard(), 5 * time.Second, 0, 0, Step{}, false, 8},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Draw(tt.policy, tt.within)
			if len(got.Steps) != tt.steps || got.Ends != tt.ends || got.More != tt.more || got.Dropped != tt.dropped {
				t.Fatalf("%d steps, ends %s, more %v, dropped %d", len(got.Steps), got.Ends, got.More, got.Dropped)
			}
			if tt.last != (Step{}) && got.Steps[len(got.Steps)-1] != tt.last {
				t.Errorf("the last step is %+v, want %+v", got.Steps[len(got.Steps)-1], tt.last)
			}
		})
	}
}

func TestNoDrawOfTheScheduleLeavesThePlan(t *testing.T) {
	policies := []Policy{Standard(), Urgent(), {Base: time.Millisecond, Cap: time.Second, MaxAttempts: 20},
		{Delays: []time.Duration{time.Second, time.Minute, time.Second}, Stretch: 1, Window: 70 * time.Second}}
	for _, p := range policies {
		for _, within := range []time.Duration{0, 15 * time.Second, time.Minute, 3 * time.Hour} {
			plan := Draw(p, within)
			for seed := range uint64(50) {
				rnd, at := Seeded(seed), time.Duration(0)
				for i := 0; ; i++ {
					over := (plan.Ends > 0 || within > 0) && at >= plan.Ends
					if i == len(plan.Steps) {
						if !over && !plan.More && plan.Dropped == 0 {
							if _, ok := Next(p, i, rnd); ok {
								t.Fatalf("%+v within %s: attempt %d at %s is not in the plan", p, within, i+1, at)
							}
						}
						break
					}
					if over {
						break
					}
					if s := plan.Steps[i]; at < s.Earliest || at > s.Latest {
						t.Fatalf("%+v within %s: attempt %d at %s, planned for %s to %s", p, within, i+1, at, s.Earliest, s.Latest)
					}
					d, ok := Next(p, i+1, rnd)
					if !ok {
						break
					}
					at += d
				}
			}
		}
	}
}
