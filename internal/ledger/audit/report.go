package audit

import (
	"fmt"
	"time"
)

// Report is everything that an auditor asks of a period, in one document.
type Report struct {
	Made     time.Time `json:"made"`
	Software string    `json:"software"`
	Filter   Filter    `json:"filter"`

	Completeness Completeness `json:"completeness"`
	Service      Service      `json:"service"`
	Days         []Balance    `json:"days"`
	Endpoints    []Balance    `json:"endpoints"`
	// MoreEndpoints are not listed: those with the fewest troubles.
	MoreEndpoints uint64 `json:"more_endpoints"`

	Gaps        *Answer[Attempt] `json:"attempts_with_gaps"`
	Duplicates  Duplicates       `json:"duplicates"`
	Failures    Failures         `json:"failures"`
	Integrity   Integrity        `json:"integrity"`
	Controls    Controls         `json:"controls"`
	Replays     []Replay         `json:"replays"`
	MoreReplays uint64           `json:"more_replays"`
	Checkpoints Checkpoints      `json:"checkpoints"`
}

// Objective is one service level that was promised.
type Objective struct {
	Name   string `json:"name"`
	Met    uint64 `json:"met"`
	Of     uint64 `json:"of"`
	Detail string `json:"detail"`
}

// Share says how much of it was met.
func (o Objective) Share() string {
	if o.Of == 0 {
		return "nothing to measure"
	}
	if o.Met == o.Of {
		return "100\u00a0%"
	}
	// Never rounded up to what was not reached.
	return fmt.Sprintf("%.2f\u00a0%%", float64(o.Met*10000/o.Of)/100)
}

// Kept says whether it was met whole.
func (o Objective) Kept() bool { return o.Met == o.Of }

// Service is how well the promises were kept.
type Service struct {
	Objectives []Objective `json:"objectives"`
	Latency    Latency     `json:"latency"`
}

// ServiceOf measures the promises of a period.
func ServiceOf(rows []Balance, failures []FailureTotals) Service {
	var t Balance
	for _, r := range Fold(rows, Total) {
		t = r
	}
	var f FailureTotals
	for _, r := range failures {
		f.Count += r.Count
		f.Within5Minutes += r.Within5Minutes
		f.Broken += r.Broken
		f.BeforeDeadline += r.BeforeDeadline
	}
	return Service{Latency: LatencyOf(rows), Objectives: []Objective{
		{Name: "delivered within the deadline", Met: t.WithinDeadline, Of: t.WithDeadline,
			Detail: "of the deliveries that had one and were owed in the period; those still pending count as not met"},
		{Name: "delivered at all", Met: t.Delivered, Of: t.Accepted, Detail: "of the deliveries owed in the period"},
		{Name: "a human told within 5 minutes of a failure", Met: f.Within5Minutes, Of: f.Within5Minutes + f.Broken,
			Detail: "of the dead letters and rejected events of the period whose 5 minutes are over: the time a channel took " +
				"the message"},
		{Name: "a human told before the deadline", Met: f.BeforeDeadline, Of: f.Within5Minutes + f.Broken,
			Detail: "of the same; where there was no deadline, that a human was told"},
	}}
}

// NotProven collects what no answer of the report proves, each sentence once.
func (r Report) NotProven() []string {
	var out []string
	seen := map[string]bool{}
	for _, q := range Questions() {
		for _, s := range q.CannotProve {
			if !seen[s] {
				seen[s] = true
				out = append(out, s)
			}
		}
	}
	switch c := r.Checkpoints; {
	case c.Covering == nil:
		out = append(out, "That the records of this period are those that were written: no checkpoint on record covers "+
			"them all.")
	case c.Witnessed == 0:
		out = append(out, "That the ledger was not written anew by whoever holds its key: no checkpoint of this period "+
			"has a witness's signature or a timestamp.")
	}
	return out
}

// Warnings of every part, for the first page.
func (r Report) Warnings() []string {
	var out []string
	if !r.Completeness.Balanced {
		out = append(out, r.Completeness.unbalanced())
	}
	for _, w := range [][]string{r.Gaps.Warnings, r.Duplicates.Warnings, r.Failures.Warnings, r.Integrity.Warnings,
		r.Controls.Warnings} {
		out = append(out, w...)
	}
	return out
}
