package dispatcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
)

// owed is when the deliveries of these tests were owed.
func owed() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func half() float64 { return 0.5 }

func standardBudget() Budget { return Budget{Policy: retry.Standard(), FirstAt: owed()} }

func urgentBudget(window time.Duration) Budget {
	return Budget{Policy: retry.Urgent(), FirstAt: owed(), DeliverBy: owed().Add(window)}
}

func TestTheOutcomeDecidesTheFate(t *testing.T) {
	status := func(n int) attempt.Facts {
		return attempt.Facts{Outcome: outcome.OfStatus(n), Status: n, GotResponse: true}
	}
	no := func(o outcome.Outcome) attempt.Facts { return attempt.Facts{Outcome: o} }
	tests := []struct {
		name    string
		facts   attempt.Facts
		verdict outcome.Verdict
		reason  outcome.Reason
	}{
		{"a 200 is delivered", status(200), outcome.VerdictDelivered, ""},
		{"a 201 is delivered", status(201), outcome.VerdictDelivered, ""},
		{"a 204 is delivered", status(204), outcome.VerdictDelivered, ""},
		{"a 299 is delivered", status(299), outcome.VerdictDelivered, ""},
		{"a timeout is tried again", no(outcome.Timeout), outcome.VerdictRetry, ""},
		{"a refused connection is tried again", no(outcome.ConnectionRefused), outcome.VerdictRetry, ""},
		{"a reset connection is tried again", no(outcome.ConnectionReset), outcome.VerdictRetry, ""},
		{"a DNS failure is tried again", no(outcome.DNSFailure), outcome.VerdictRetry, ""},
		{"a TLS failure is tried again", no(outcome.TLSFailure), outcome.VerdictRetry, ""},
		{"any other connection failure is tried again", no(outcome.ConnectionFailed), outcome.VerdictRetry, ""},
		{"an answer that is not HTTP is tried again", no(outcome.BadResponse), outcome.VerdictRetry, ""},
		{"an attempt cut off by our shutdown is tried again", no(outcome.Interrupted), outcome.VerdictRetry, ""},
		{"an attempt whose process died is tried again", no(outcome.Unknown), outcome.VerdictRetry, ""},
		{"a 408 is tried again", status(408), outcome.VerdictRetry, ""},
		{"a 425 is tried again", status(425), outcome.VerdictRetry, ""},
		{"a 429 is tried again", status(429), outcome.VerdictRetry, ""},
		{"a 500 is tried again", status(500), outcome.VerdictRetry, ""},
		{"a 501 is tried again", status(501), outcome.VerdictRetry, ""},
		{"a 503 is tried again", status(503), outcome.VerdictRetry, ""},
		{"a 599 is tried again", status(599), outcome.VerdictRetry, ""},
		{"a status beyond HTTP's range counts as 5xx", status(799), outcome.VerdictRetry, ""},
		{"a status below HTTP's range counts as 5xx", status(42), outcome.VerdictRetry, ""},
		{"a 401 means that the signature was rejected", status(401), outcome.VerdictDeadLetter,
			outcome.ReasonSignatureRejected},
		{"a 403 means that the signature was rejected", status(403), outcome.VerdictDeadLetter,
			outcome.ReasonSignatureRejected},
		{"a 400 is final", status(400), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 404 is final", status(404), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 422 is final", status(422), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"any other 4xx is final", status(451), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 301 is final and not followed", status(301), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 304 is final", status(304), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 308 is final and not followed", status(308), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 101 is final", status(101), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 103 with nothing after it is final", status(103), outcome.VerdictDeadLetter, outcome.ReasonPermanentlyRejected},
		{"a 410 means that the endpoint is gone", status(410), outcome.VerdictDeadLetter, outcome.ReasonEndpointGone},
		{"a blocked address is final", no(outcome.AddressBlocked), outcome.VerdictDeadLetter, outcome.ReasonAddressBlocked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Decide(tt.facts, 1, standardBudget(), owed().Add(time.Second), half)
			if d.Verdict != tt.verdict || d.Reason != tt.reason {
				t.Errorf("got %s %q, want %s %q", d.Verdict, d.Reason, tt.verdict, tt.reason)
			}
			if d.Why == "" {
				t.Error("the decision does not say why")
			}
			if got, want := d.DisableEndpoint, tt.reason == outcome.ReasonEndpointGone; got != want {
				t.Errorf("DisableEndpoint is %v, want %v", got, want)
			}
			if d.RetryAt.IsZero() == (tt.verdict == outcome.VerdictRetry) {
				t.Errorf("RetryAt is %v with verdict %s", d.RetryAt, d.Verdict)
			}
		})
	}
}

// budgetCase is a failed attempt and what the budget makes of it.
type budgetCase struct {
	name   string
	facts  attempt.Facts
	made   int
	budget Budget
	now    time.Duration // Since the delivery was owed.
	wait   time.Duration // Expected wait; 0 when it is a dead letter.
	reason outcome.Reason
}

func TestTheBudgetEndsTheAttempts(t *testing.T) {
	timeout := attempt.Facts{Outcome: outcome.Timeout}
	busy := attempt.Facts{Outcome: outcome.StatusRetryable, Status: 503, GotResponse: true}
	asked := func(d time.Duration) attempt.Facts { f := busy; f.RetryAfter = d; return f }
	responded := standardBudget()
	responded.EverResponded = true
	short := urgentBudget(15 * time.Minute) // Reserve 3 min: attempts end at 12 min.

	tests := []budgetCase{
		{"the second attempt comes after five seconds, stretched", timeout, 1, standardBudget(), time.Second,
			5500 * time.Millisecond, ""},
		{"the eighth attempt comes after ten hours, stretched", timeout, 7, standardBudget(), 20 * time.Hour, 11 * time.Hour,
			""},
		{"eight attempts without a response make the endpoint unreachable", timeout, 8, standardBudget(), 28 * time.Hour, 0,
			outcome.ReasonEndpointUnreachable},
		{"eight attempts with a response in this one are exhausted", busy, 8, standardBudget(), 28 * time.Hour, 0,
			outcome.ReasonAttemptsExhausted},
		{"eight attempts with a response in an earlier one are exhausted", timeout, 8, responded, 28 * time.Hour, 0,
			outcome.ReasonAttemptsExhausted},
		{"more attempts than the schedule has are never followed by another", timeout, 80, standardBudget(), 28 * time.Hour,
			0, outcome.ReasonEndpointUnreachable},
		{"a retry that would start after 33 hours is not made", timeout, 7, standardBudget(), 23 * time.Hour, 0,
			outcome.ReasonEndpointUnreachable},
		{"a retry that would start after 33 hours is not made, after a response", busy, 7, standardBudget(), 23 * time.Hour,
			0, outcome.ReasonAttemptsExhausted},
		{"a retry that would start exactly at 33 hours is not made", busy, 7, standardBudget(), 22 * time.Hour, 0,
			outcome.ReasonAttemptsExhausted},
		{"an urgent retry comes within the jitter", timeout, 1, short, time.Second, 500 * time.Millisecond, ""},
		{"an urgent retry that fits before the reserve is made", timeout, 20, short, 11 * time.Minute, 30 * time.Second, ""},
		{"an urgent retry is drawn within the time that is left", timeout, 20, short, 12*time.Minute - 30*time.Second,
			15 * time.Second, ""},
		{"an urgent retry that would reach into the reserve is not made", timeout, 20, short, 12*time.Minute - time.Second, 0,
			outcome.ReasonDeadlineExceeded},
		{"a deadline that was passed ends it", busy, 3, short, time.Hour, 0, outcome.ReasonDeadlineExceeded},
		{"Retry-After sets the earliest next attempt", asked(2 * time.Minute), 1, short, time.Second, 2 * time.Minute, ""},
		{"a Retry-After below the schedule's wait changes nothing", asked(time.Second), 2, standardBudget(), time.Second,
			330 * time.Second, ""},
		{"a Retry-After beyond the deadline tells the human at once", asked(time.Hour), 1, short, time.Second, 0,
			outcome.ReasonDeadlineExceeded},
		{"a Retry-After beyond the window ends the attempts", asked(20 * time.Hour), 6, standardBudget(), 14 * time.Hour, 0,
			outcome.ReasonAttemptsExhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.check(t) })
	}
}

func (tt budgetCase) check(t *testing.T) {
	now := owed().Add(tt.now)
	d := Decide(tt.facts, tt.made, tt.budget, now, half)
	if tt.wait == 0 {
		if d.Verdict != outcome.VerdictDeadLetter || d.Reason != tt.reason {
			t.Fatalf("got %s %q, want a dead letter with reason %q", d.Verdict, d.Reason, tt.reason)
		}
		return
	}
	if d.Verdict != outcome.VerdictRetry || d.RetryAt.Sub(now) != tt.wait {
		t.Fatalf("got %s %q after %s, want a retry after %s", d.Verdict, d.Reason, d.RetryAt.Sub(now), tt.wait)
	}
}

func TestTheReserveIsAFifthOfTheWindowWithinBounds(t *testing.T) {
	for _, tt := range []struct{ window, want time.Duration }{
		{0, 0}, {-time.Hour, 0},
		{4 * time.Second, 4 * time.Second}, // Never longer than the window.
		{30 * time.Second, 10 * time.Second},
		{time.Minute, 12 * time.Second},
		{15 * time.Minute, 3 * time.Minute},
		{25 * time.Minute, 5 * time.Minute},
		{72 * time.Hour, 5 * time.Minute},
	} {
		if got := retry.DefaultReserve(tt.window); got != tt.want {
			t.Errorf("budget.DefaultReserve(%s) = %s, want %s", tt.window, got, tt.want)
		}
	}
}

func TestAttemptsEndAtTheEarliestBound(t *testing.T) {
	with := func(f func(*Budget)) Budget { b := urgentBudget(15 * time.Minute); f(&b); return b }
	for _, tt := range []struct {
		name   string
		budget Budget
		want   time.Duration
	}{
		{"the deadline less the default reserve", with(func(*Budget) {}), 12 * time.Minute},
		{"the deadline less the reserve asked for", with(func(b *Budget) { b.Reserve = time.Minute }), 14 * time.Minute},
		{"the deadline itself when there is no reserve", with(func(b *Budget) { b.Reserve = -1 }), 15 * time.Minute},
		{"the start when the reserve is longer than the window", with(func(b *Budget) { b.Reserve = time.Hour }), 0},
		{"the schedule's window when it ends first", with(func(b *Budget) { b.Policy.Window = time.Minute }), time.Minute},
		{"the standard window", standardBudget(), 33 * time.Hour},
		{"33 hours when nothing else bounds an urgent schedule", with(func(b *Budget) { b.DeliverBy = time.Time{} }),
			33 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := retry.AttemptsUntil(tt.budget).Sub(owed()); got != tt.want {
				t.Errorf("attempts end after %s, want %s", got, tt.want)
			}
		})
	}
}

func TestABudgetBoundByNumberAloneHasNoEndInTime(t *testing.T) {
	b := Budget{FirstAt: owed(), Policy: retry.Policy{Delays: []time.Duration{time.Second}}}
	if until := retry.AttemptsUntil(b); !until.IsZero() {
		t.Fatalf("attempts end at %s, want no bound", until)
	}
	if got := retry.AttemptTimeout(b, owed().Add(1000*time.Hour), time.Second); got != time.Second {
		t.Errorf("timeout is %s, want it uncut", got)
	}
}

func TestAnAttemptNeverRunsPastItsBudget(t *testing.T) {
	b := urgentBudget(15 * time.Minute)
	for _, tt := range []struct{ at, want time.Duration }{
		{0, 10 * time.Second},
		{12*time.Minute - 3*time.Second, 3 * time.Second},
		{12 * time.Minute, 0},
		{time.Hour, 0},
	} {
		if got := retry.AttemptTimeout(b, owed().Add(tt.at), 10*time.Second); got != tt.want {
			t.Errorf("at %s the timeout is %s, want %s", tt.at, got, tt.want)
		}
	}
}

func TestATaskThatComesTooLateGetsNoAttempt(t *testing.T) {
	responded := standardBudget()
	responded.EverResponded = true
	for _, tt := range []struct {
		name   string
		budget Budget
		made   int
		at     time.Duration
		held   Held
		reason outcome.Reason
		says   string
	}{
		{"before the deadline", urgentBudget(15 * time.Minute), 3, time.Minute, Held{}, "", ""},
		{"at the deadline less its reserve", urgentBudget(15 * time.Minute), 0, 12 * time.Minute, Held{},
			outcome.ReasonDeadlineExceeded, "no attempt was made"},
		{"at the deadline, held", urgentBudget(15 * time.Minute), 0, 12 * time.Minute, Held{Failing: "F"},
			outcome.ReasonDeadlineExceeded, "escalation: F"},
		{"at the deadline, after attempts", urgentBudget(15 * time.Minute), 2, 12 * time.Minute, Held{},
			outcome.ReasonDeadlineExceeded, "no further attempt"},
		{"after the window, never answered", standardBudget(), 3, 40 * time.Hour, Held{Failing: "F"},
			outcome.ReasonEndpointUnreachable, "no response ever came"},
		{"after the window, once answered", responded, 3, 40 * time.Hour, Held{}, outcome.ReasonAttemptsExhausted, ""},
		{"after the window, held by the breaker", standardBudget(), 0, 40 * time.Hour, Held{Failing: "F"},
			outcome.ReasonEndpointFailing, "no attempt was made in the time of the schedule: F"},
		{"after the window, held by us", standardBudget(), 0, 40 * time.Hour, Held{Ours: "O", Failing: "F"},
			outcome.ReasonInternalError, "on our side, O"},
		{"after the window, and nobody knows why", standardBudget(), 0, 40 * time.Hour, Held{}, outcome.ReasonNotAttempted,
			"no attempt was made in the time of the schedule"},
		{"with all attempts made", standardBudget(), 8, time.Hour, Held{}, outcome.ReasonEndpointUnreachable, ""},
		{"with one attempt left", standardBudget(), 7, time.Hour, Held{}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, ok := DecideBefore(tt.budget, tt.made, owed().Add(tt.at), tt.held)
			if ok != (tt.reason == "") || d.Reason != tt.reason || !strings.Contains(d.Why, tt.says) {
				t.Errorf("got %q (%s), allowed %v; want %q", d.Reason, d.Why, ok, tt.reason)
			}
		})
	}
}

func TestADeliveryCanBeGivenUpWithoutAnAttempt(t *testing.T) {
	for _, reason := range []outcome.Reason{
		outcome.ReasonEndpointDisabled, outcome.ReasonEndpointDeleted, outcome.ReasonInvalidEvent,
		outcome.ReasonPayloadTooLarge, outcome.ReasonAddressBlocked,
	} {
		d := Undeliverable(reason)
		if d.Verdict != outcome.VerdictDeadLetter || d.Reason != reason || d.Why == "" || d.DisableEndpoint {
			t.Errorf("Undeliverable(%s) = %+v", reason, d)
		}
	}
}

// TestEveryDeliveryEnds plays whole lives: whatever fails, the number of attempts
// and their times stay inside the budget, and the end has a reason.
func TestEveryDeliveryEnds(t *testing.T) {
	for seed := range uint64(200) {
		rnd := retry.Seeded(seed)
		b := standardBudget()
		if seed%2 == 1 {
			b = urgentBudget(time.Duration(1+rnd()*1e4) * time.Second)
		}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			now, until := owed(), retry.AttemptsUntil(b)
			for made := 1; ; made++ {
				if !now.Before(until) {
					t.Fatalf("attempt %d starts at %s, after the budget's end %s", made, now, until)
				}
				now = now.Add(time.Duration(rnd() * float64(retry.AttemptTimeout(b, now, 10*time.Second))))
				d := Decide(attempt.Facts{Outcome: outcome.Timeout}, made, b, now, rnd)
				if d.Verdict == outcome.VerdictDeadLetter {
					if d.Reason == "" {
						t.Fatal("the dead letter has no reason")
					}
					return
				}
				if d.RetryAt.Before(now) {
					t.Fatalf("the next attempt is due in the past: %s before %s", d.RetryAt, now)
				}
				now = d.RetryAt
			}
		})
	}
}
