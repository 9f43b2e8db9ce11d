package audit

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// OfAttempts answers the first question.
func OfAttempts(f Filter, rows []Attempt, more uint64) *Answer[Attempt] {
	a := answer("attempts", f, rows, more)
	states := map[string]int{}
	endpoints := map[string]bool{}
	for _, r := range rows {
		states[r.State]++
		endpoints[r.Tenant+" "+r.EndpointID] = true
	}
	if len(rows) > 0 {
		a.note("%s to %s: %d answered, %d without an answer.", text.Count(len(rows)-states[Missing], "attempt", "attempts"),
			text.Count(len(endpoints), "endpoint", "endpoints"), states[Answered], states[Unanswered])
	}
	if n := states[Unknown]; n > 0 {
		a.warn("%s: a process died during the request. It may have arrived.",
			text.Count(n, "outcome is unknown", "outcomes are unknown"))
	}
	if n := states[Missing]; n > 0 {
		a.warn("%s: no record has the number, and there is a higher one. This must not be in a whole ledger.",
			text.Count(n, "attempt is missing", "attempts are missing"))
	}
	return a
}

// Holes says whether a number below a delivery's highest is in none of its rows.
func Holes(rows []Attempt) bool {
	numbers, highest := map[[2]string]map[int64]bool{}, map[[2]string]int64{}
	for _, r := range rows {
		of := [2]string{r.Tenant, r.EndpointID}
		if numbers[of] == nil {
			numbers[of] = map[int64]bool{}
		}
		numbers[of][r.Number] = true
		highest[of] = max(highest[of], r.Number)
	}
	for of, n := range highest {
		if int64(len(numbers[of])) != n {
			return true
		}
	}
	return false
}

// Duplicates is the answer to the second question.
type Duplicates struct {
	*Answer[Repetition]
	Totals RepetitionTotals `json:"totals"`
}

// OfDuplicates answers the second question.
func OfDuplicates(f Filter, rows []Repetition, more uint64, t RepetitionTotals) Duplicates {
	a := answer("duplicates", f, rows, more)
	if t.Deliveries > 0 {
		a.Notes = []string{}
		a.note("%s with %s; %d may have reached their receiver more than once.",
			text.Count(t.Deliveries, "delivery", "deliveries"), text.Count(t.Requests, "request", "requests"), t.Repeated)
		a.note("%s came after a success; %d of them by a replay that a named person asked for.",
			text.Count(t.AfterSuccess, "request", "requests"), t.AfterSuccessByReplay)
		a.note("Every request of an event carried its id, as the event was stored with it; an id belongs to one event for " +
			"as long as EVENTS holds it, and an attempt's number to one request by its claim.")
		if t.Checked == 0 {
			a.note("No conformance check of these endpoints is on record: that they deduplicate is their word.")
		} else {
			a.note("%s to endpoints of which a conformance check is on record.",
				text.Count(t.Checked, "delivery went", "deliveries went"))
		}
	}
	if t.Unexplained > 0 {
		a.warn("%s came after a success without a replay: the ledger does not explain it.",
			text.Count(t.Unexplained, "request", "requests"))
	}
	if t.WithoutMsgID > 0 {
		a.warn("%s published without Nats-Msg-Id, or nothing is on record of the event: earlier versions could not "+
			"recognise a second copy of it.", text.Count(t.WithoutMsgID, "delivery is of an event", "deliveries are of events"))
	}
	if t.StoredTwice > 0 {
		a.warn("%s stored more than once under one id: it was published again, and not recognised at once.",
			text.Count(t.StoredTwice, "delivery is of an event", "deliveries are of events"))
	}
	if t.OtherData > 0 {
		a.warn("%s", t.otherData())
	}
	return Duplicates{a, t}
}

// Failures is the answer to the third question.
type Failures struct {
	*Answer[Failure]
	Totals []FailureTotals `json:"totals"`
}

// OfFailures answers the third question.
func OfFailures(f Filter, rows []Failure, more uint64, totals []FailureTotals) Failures {
	a := answer("failures", f, rows, more)
	var s FailureTotals
	for _, t := range totals {
		s.Count += t.Count
		s.Told += t.Told
		s.Within5Minutes += t.Within5Minutes
		s.Broken += t.Broken
		s.BeforeDeadline += t.BeforeDeadline
		s.Acknowledged += t.Acknowledged
		s.Open += t.Open
	}
	if s.Count > 0 {
		a.note("%s; a channel took the message for a human of %d, within 5 minutes of %d, before the deadline of %d (or "+
			"there was none).",
			text.Count(s.Count, "failure", "failures"), s.Told, s.Within5Minutes, s.BeforeDeadline)
		a.note("%d acknowledged by a named person; %d still open.", s.Acknowledged, s.Open)
	} else {
		a.Notes = []string{fmt.Sprintf("No dead letter and no rejected event is on record: %s.", f)}
	}
	if s.Broken > 0 {
		a.warn("%s not told to anybody within 5 minutes: the promise was broken.",
			text.Count(s.Broken, "failure was", "failures were"))
	}
	if n := s.Count - s.Within5Minutes - s.Broken; n > 0 {
		a.note("%s not told to anybody yet, and the 5 minutes are not over.", text.Count(n, "failure was", "failures were"))
	}
	return Failures{a, none(totals)}
}

// Integrity is the answer to the fourth question.
type Integrity struct {
	*Answer[Signed]
	Totals SignedTotals `json:"totals"`
	// Verdict of a payload or data that was compared; empty: none was.
	Verdict string `json:"verdict,omitempty"`
	Altered bool   `json:"altered"`
}

// OfIntegrity answers the fourth question.
func OfIntegrity(f Filter, rows []Signed, more uint64, t SignedTotals) Integrity {
	t.Schemes, t.KeyIDs = none(t.Schemes), none(t.KeyIDs)
	a := answer("integrity", f, rows, more)
	if t.Attempts > 0 {
		a.Notes = []string{}
		a.note("%s: %d with the digest of the signed bytes, %d that sent nothing, %d whose outcome is unknown.",
			text.Count(t.Attempts, "attempt", "attempts"), t.Signed, t.NotSent, t.Unknown)
		if len(t.Schemes) > 0 {
			a.note("Signed with %s by %s.", strings.Join(t.Schemes, ", "),
				text.Count(len(t.KeyIDs), "key", "keys")+" ("+list(t.KeyIDs, 5)+")")
		}
	}
	if t.Disagree > 0 {
		a.warn("%s: attempts of one number have different digests, or different events stand under one id.",
			text.Count(t.Disagree, "attempt disagrees", "attempts disagree"))
	}
	if t.NoData > 0 {
		a.warn("%s of an event whose record is missing: its data's digest is not known.",
			text.Count(t.NoData, "attempt is", "attempts are"))
	}
	return Integrity{Answer: a, Totals: t}
}

func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Controls is the answer to the fifth question.
type Controls struct {
	*Answer[Day]
	Changes     []Change `json:"changes"`
	MoreChanges uint64   `json:"more_changes"`
}

// OfControls answers the fifth question.
func OfControls(f Filter, days []Day, changes []Change, moreChanges uint64) Controls {
	a := answer("controls", f, days, 0)
	var s Day
	for _, d := range days {
		s.Delivered += d.Delivered
		s.Checkpoints += d.Checkpoints
		s.EscalationTests += d.EscalationTests
		s.ConformanceChecks += d.ConformanceChecks
		s.AlarmsRaised += d.AlarmsRaised
		s.LedgerGaps += d.LedgerGaps
		s.NotToldInTime += d.NotToldInTime
		s.AttemptsUnknown += d.AttemptsUnknown
		s.Changes += d.Changes
	}
	if len(days) > 0 {
		a.note("%s on record: %s, %s, %s, %s, %s.",
			text.Count(len(days), "day is", "days are"), text.Count(s.Delivered, "attempt that delivered",
				"attempts that delivered"), text.Count(s.Checkpoints, "checkpoint signed", "checkpoints signed"),
			text.Count(s.ConformanceChecks, "conformance check", "conformance checks"),
			text.Count(s.EscalationTests, "test of channels", "tests of channels"),
			text.Count(s.AlarmsRaised, "alarm raised", "alarms raised"))
	}
	if n := uint64(len(changes)) + moreChanges; n > 0 {
		changed := min(s.Changes, n)
		a.note("%s of the configuration, and %s, such as tests of channels, legal holds, and dead letters that were "+
			"settled; each with who did it.",
			text.Count(changed, "change", "changes"), text.Count(n-changed, "other action", "other actions"))
	}
	if s.LedgerGaps > 0 {
		a.warn("%s in LEDGER: messages were lost before they reached ClickHouse.", text.Count(s.LedgerGaps, "gap", "gaps"))
	}
	if s.NotToldInTime > 0 {
		a.warn("The watchdog put on record %s that nobody was told of within 5 minutes.",
			text.Count(s.NotToldInTime, "failure", "failures"))
	}
	if s.AttemptsUnknown > 0 {
		a.warn("%s: a process died during the request.", text.Count(s.AttemptsUnknown, "attempt has an unknown outcome",
			"attempts have an unknown outcome"))
	}
	var none_ []string
	if s.Checkpoints == 0 {
		none_ = append(none_, "checkpoints")
	}
	if s.EscalationTests == 0 {
		none_ = append(none_, "tests of channels")
	}
	if s.ConformanceChecks == 0 {
		none_ = append(none_, "conformance checks")
	}
	if len(days) > 0 && len(none_) > 0 {
		a.warn("Not on record in this period: %s.", strings.Join(none_, ", "))
	}
	return Controls{a, none(changes), moreChanges}
}
