package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report writes violations for people, each delivery's with its whole history:
// records in the ledger's order, and requests by the time they came. most bounds
// the number of violations that are shown.
func Report(h History, found []Violation, most int) string {
	var b strings.Builder
	counts := map[string]int{}
	for _, v := range found {
		counts[string(v.Rule)]++
	}
	fmt.Fprintf(&b, "%d violations\n", len(found))
	for _, rule := range sortedKeys(counts) {
		fmt.Fprintf(&b, "  %5d against: %s\n", counts[rule], rule)
	}
	told := map[pair]bool{}
	for i, v := range found {
		if i == most {
			fmt.Fprintf(&b, "… and %d more\n", len(found)-most)
			break
		}
		fmt.Fprintf(&b, "\n%s\n  %s %s\n  %s\n", v.Rule, v.EventID, v.EndpointID, v.Detail)
		at := pair{v.EventID, v.EndpointID}
		if at == (pair{}) || told[at] {
			continue
		}
		told[at] = true
		for _, line := range history(h, at) {
			fmt.Fprintf(&b, "    %s\n", line.text)
		}
	}
	return b.String()
}

type line struct {
	at   time.Time
	text string
}

func history(h History, of pair) []line {
	var lines []line
	for _, row := range h.Ledger {
		r := row.Record
		if r.EventID != of.event && of.event != "" || r.EndpointID != of.endpoint && of.endpoint != "" && r.EndpointID != "" {
			continue
		}
		if of.event == "" && r.EndpointID != of.endpoint {
			continue
		}
		text := fmt.Sprintf("%s  idx %d seq %d  %s  %s", clock(r.At), row.Idx, row.StreamSeq, r.Kind, r.ID)
		if r.Attempt > 0 {
			text += fmt.Sprintf("  attempt %d %s status %d, started %s, %d us, then %s (%s), by %s", r.Attempt, r.Outcome,
				r.Status,
				clock(r.StartedAt), r.DurationUS, r.Decision, r.Detail, r.Dispatcher)
		}
		if !r.NextAttemptAt.IsZero() {
			text += ", next at " + clock(r.NextAttemptAt)
		}
		if r.ReplayID != "" {
			text += ", " + r.ReplayID
		}
		if r.Error != "" || r.Reason != "" {
			text += fmt.Sprintf(", reason %q, error %q", r.Reason, r.Error)
		}
		lines = append(lines, line{r.At, text})
	}
	for _, r := range h.Requests {
		if r.EventID == of.event && (r.EndpointID == of.endpoint || of.endpoint == "") {
			lines = append(lines, line{r.At, fmt.Sprintf("%s  request %d at %s, digest %.12s…, answered: %s", clock(r.At),
				r.Attempt, r.EndpointID, r.Digest, r.Answer)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return lines
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }
