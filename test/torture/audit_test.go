package torture_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// everything is more rows than a run makes.
const everything = 1_000_000

// made names one request: of which event, to whom, and its number.
type made struct {
	event, endpoint string
	attempt         int64
}

// checkAudit compares the answers to an auditor's questions with what the
// receivers really saw.
func (s *system) checkAudit(t *testing.T, h invariants.History) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	seen := map[made][]invariants.Request{}
	arrived := map[[2]string]uint64{}
	for _, r := range h.Requests {
		seen[made{r.EventID, r.EndpointID, int64(r.Attempt)}] = append(seen[made{r.EventID, r.EndpointID, int64(r.Attempt)}],
			r)
		arrived[[2]string{r.EventID, r.EndpointID}]++
	}
	s.checkAttempts(ctx, t, seen)
	s.checkDuplicates(ctx, t, arrived)
	s.checkIntegrity(ctx, t, seen)
	s.checkFailures(ctx, t, h)
	s.checkControls(ctx, t, h)
	s.checkCompleteness(ctx, t, h)
}

// checkAttempts: every request that came is in the first answer, and every
// answer in it was given to a request.
func (s *system) checkAttempts(ctx context.Context, t *testing.T, seen map[made][]invariants.Request) {
	rows, more, err := s.ledger.AuditAttempts(ctx, audit.Filter{}, everything)
	must(t, err)
	states := map[made]string{}
	for _, r := range rows {
		m := made{r.EventID, r.EndpointID, r.Number}
		if was, twice := states[m]; twice {
			t.Errorf("audit attempts: %v is there as %s and as %s", m, was, r.State)
		}
		states[m] = r.State
		switch {
		case r.State == audit.Missing:
			t.Errorf("audit attempts: %v is missing", m)
		case r.State == audit.Answered && len(seen[m]) == 0:
			t.Errorf("audit attempts: %v was answered with %d; its receiver never saw it", m, r.Status)
		}
	}
	for m := range seen {
		if states[m] == "" {
			t.Errorf("audit attempts: %v came, and the answer does not show it", m)
		}
	}
	if more != 0 || len(rows) == 0 {
		t.Errorf("audit attempts: %d rows, %d more", len(rows), more)
	}
}

// checkDuplicates: no receiver got an event more often than the second answer
// says that it may have, and each request after the first has its reason.
func (s *system) checkDuplicates(ctx context.Context, t *testing.T, arrived map[[2]string]uint64) {
	rows, _, totals, err := s.ledger.AuditDuplicates(ctx, audit.Filter{}, true, everything)
	must(t, err)
	may := map[[2]string]audit.Repetition{}
	for _, r := range rows {
		may[[2]string{r.EventID, r.EndpointID}] = r
		if len(r.Repeats) != int(r.Requests)-1 {
			t.Errorf("audit duplicates: %s to %s: %d requests, and reasons for %d", r.EventID, r.EndpointID, r.Requests,
				len(r.Repeats))
		}
	}
	for of, n := range arrived {
		if may[of].MayHaveArrived < n {
			t.Errorf("audit duplicates: %v came %d times; the answer says at most %d", of, n, may[of].MayHaveArrived)
		}
	}
	if totals.Unexplained != 0 || totals.OtherData != 0 || totals.Deliveries != uint64(len(rows)) {
		t.Errorf("audit duplicates: %+v over %d rows", totals, len(rows))
	}
}

// checkIntegrity: the digests are those of the bytes that came.
func (s *system) checkIntegrity(ctx context.Context, t *testing.T, seen map[made][]invariants.Request) {
	rows, _, totals, err := s.ledger.AuditIntegrity(ctx, audit.Filter{}, everything)
	must(t, err)
	compared := 0
	for _, r := range rows {
		for _, q := range seen[made{r.EventID, r.EndpointID, r.Number}] {
			if r.State == "unknown" {
				continue // the process that knew it died
			}
			compared++
			if r.PayloadDigest != q.Digest {
				t.Errorf("audit integrity: %s to %s, attempt %d: on record %s, received %s", r.EventID, r.EndpointID, r.Number,
					r.PayloadDigest, q.Digest)
			}
		}
	}
	if compared == 0 || totals.Disagree != 0 || totals.NoData != 0 {
		t.Errorf("audit integrity: %d compared, %+v", compared, totals)
	}
}

// checkFailures: the third answer names every dead letter, and every event that
// was rejected.
func (s *system) checkFailures(ctx context.Context, t *testing.T, h invariants.History) {
	rows, _, _, err := s.ledger.AuditFailures(ctx, audit.Filter{}, everything)
	must(t, err)
	got, want := map[string]int{}, map[string]int{}
	for _, r := range rows {
		got[r.What+" "+r.EventID+" "+r.EndpointID+" "+r.ReplayID+" "+r.Reason]++
	}
	for _, row := range h.Ledger {
		switch r := row.Record; r.Kind {
		case record.DeliveryDeadLetter:
			want["dead_letter "+r.EventID+" "+r.EndpointID+" "+r.ReplayID+" "+r.Reason]++
		case record.EventRejected:
			want["rejected_event "+r.EventID+"   "+r.Reason]++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("audit failures names %d, the ledger has %d", len(got), len(want))
	}
}

// checkControls: the days' numbers are those of the records.
func (s *system) checkControls(ctx context.Context, t *testing.T, h invariants.History) {
	days, err := s.ledger.AuditDays(ctx, audit.Filter{})
	must(t, err)
	var sum audit.Day
	for _, d := range days {
		sum.Records += d.Records
		sum.Attempts += d.Attempts
		sum.AttemptsUnknown += d.AttemptsUnknown
		sum.EventsRejected += d.EventsRejected
	}
	var want audit.Day
	for _, row := range h.Ledger {
		want.Records++
		switch row.Record.Kind {
		case record.Attempt:
			want.Attempts++
			if row.Record.Outcome == "unknown" {
				want.AttemptsUnknown++
			}
		case record.EventRejected:
			want.EventsRejected++
		}
	}
	// What the system says of itself may still come: an alarm that is over, say.
	at, err := s.ledger.Last(ctx)
	must(t, err)
	if want.Records <= sum.Records && sum.Records <= at.Next {
		want.Records = sum.Records
	}
	if sum != want || sum.Attempts < uint64(len(h.Requests)) {
		t.Errorf("audit controls: %+v, want %+v; %d requests came", sum, want, len(h.Requests))
	}
}

// checkCompleteness: what producers were told is stored is accounted for.
func (s *system) checkCompleteness(ctx context.Context, t *testing.T, h invariants.History) {
	events, err := s.ledger.AuditEvents(ctx, audit.Filter{})
	must(t, err)
	rows, found, more, err := s.ledger.AuditBalances(ctx, audit.Filter{}, 20)
	must(t, err)
	indices, err := s.ledger.AuditIndices(ctx)
	must(t, err)
	a := audit.NewCompleteness(audit.Filter{}, events, rows, append(found, indices...), more, nil)
	if !a.Balanced || a.Total.Pending != 0 {
		t.Errorf("audit completeness: %+v, %v", a.Notes, a.Mismatches)
	}
	// Under a contested id one stands, and each other one is rejected: as often as it was published.
	contested := uint64(0)
	for _, row := range h.Ledger {
		if r := row.Record; strings.HasPrefix(r.EventID, rivalPrefix) && strings.HasPrefix(string(r.Kind), "event.") &&
			r.Kind != record.EventDuplicate {
			contested++
		}
	}
	if n := events.Accepted + events.Unmatched + events.Rejected; n != uint64(len(h.Published))+contested {
		t.Errorf("audit completeness: %+v, and producers were told of %d, and contended for ids with %d", events,
			len(h.Published), contested)
	}
}
