package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

func TestAReasonThatRepeatsIsSaidOnceWithHowOften(t *testing.T) {
	var rows []audit.Repetition
	for i := range 300 {
		r := audit.Repetition{EventID: fmt.Sprintf("evt_%026d", i), EndpointID: "ep_1", Requests: 3, MayHaveArrived: 3,
			Repeats: []string{"attempt 2: attempt 1 ended as timeout", "attempt 3: attempt 2 ended as timeout"}}
		if i == 0 {
			r.Repeats = append(r.Repeats, "attempt 4: what became of attempt 3 is unknown")
		}
		rows = append(rows, r)
	}
	g := audit.RepetitionGrid(rows)
	if g.Notes[0] != "2 times: an earlier attempt ended as timeout; attempt 4: what became of attempt 3 is unknown" ||
		g.Notes[1] != "2 times: an earlier attempt ended as timeout" {
		t.Errorf("notes %q and %q", g.Notes[0], g.Notes[1])
	}
	want := [][]string{{"an earlier attempt ended as timeout", "600", "300"},
		{"what became of an earlier attempt is unknown", "1", "1"}}
	if got := audit.RepeatTotalGrid(rows); !slices.EqualFunc(got.Rows, want, slices.Equal) {
		t.Errorf("in all: %q", got.Rows)
	}
}

func TestALongListIsPrintedInPartAndSaysSo(t *testing.T) {
	var rows []audit.Repetition
	for i := range 300 {
		rows = append(rows, audit.Repetition{EventID: fmt.Sprintf("evt_%026d", i),
			EndpointID: "ep_" + strings.Repeat("0", 26), Repeats: []string{"attempt 2: attempt 1 ended as timeout"}})
	}
	r := audit.Report{Made: time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC), Gaps: audit.OfAttempts(audit.Filter{}, nil, 0)}
	r.Duplicates.Answer = &audit.Answer[audit.Repetition]{Rows: rows}
	r.Failures.Answer, r.Integrity.Answer, r.Controls.Answer = &audit.Answer[audit.Failure]{},
		&audit.Answer[audit.Signed]{}, &audit.Answer[audit.Day]{}
	var b bytes.Buffer
	if err := audit.WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, ">evt_"); n > 40 || n == 0 {
		t.Errorf("%d of 300 rows are printed", n)
	}
	for _, want := range []string{"260 more of the list are not printed", `class="code id"`, "Why, and how often",
		"counter(pages)", "size: A4"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}
