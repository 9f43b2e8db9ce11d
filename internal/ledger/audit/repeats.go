package audit

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// anAttempt is how the ledger names one in why another was made.
var anAttempt = regexp.MustCompile(`\battempt [0-9]+\b`)

// why is the reason for a request without the numbers, so that the same reason
// is the same text: "an earlier attempt ended as timeout".
func why(repeat string) string {
	if _, reason, ok := strings.Cut(repeat, ": "); ok {
		repeat = reason
	}
	return anAttempt.ReplaceAllString(repeat, "an earlier attempt")
}

// grouped says each reason once. What is there once stays as it is, with its
// numbers.
func grouped(repeats []string) []string {
	times := map[string]int{}
	for _, r := range repeats {
		times[why(r)]++
	}
	var out []string
	for _, r := range repeats {
		reason := why(r)
		switch n := times[reason]; n {
		case 0: // said before
		case 1:
			out = append(out, r)
		default:
			out = append(out, fmt.Sprintf("%d times: %s", n, reason))
		}
		delete(times, reason)
	}
	return out
}

// RepeatTotalGrid shows why requests were made again, each reason once.
func RepeatTotalGrid(rows []Repetition) Grid {
	requests, deliveries := map[string]int64{}, map[string]int64{}
	for _, r := range rows {
		seen := map[string]bool{}
		for _, repeat := range r.Repeats {
			reason := why(repeat)
			requests[reason]++
			if !seen[reason] {
				deliveries[reason]++
				seen[reason] = true
			}
		}
	}
	g := Grid{Header: []string{"WHY", "REQUESTS", "DELIVERIES"}, Clip: []string{"WHY"}}
	for _, reason := range slices.SortedFunc(maps.Keys(requests), func(a, b string) int {
		return cmp.Or(cmp.Compare(requests[b], requests[a]), strings.Compare(a, b))
	}) {
		g.add(reason, number(requests[reason]), number(deliveries[reason]))
	}
	return g
}
