package audit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// Grid is a table for people: the columns that tell the story.
type Grid struct {
	Header []string
	Rows   [][]string
	// Notes of a row, by its index: what does not fit in a column.
	Notes map[int]string
	// Wide are the columns that go first, in this order, where there is little room.
	Wide []string
	// Clip are the columns whose text may be cut: no ids.
	Clip []string
}

func (g *Grid) add(cells ...string) { g.Rows = append(g.Rows, cells) }

func (g *Grid) note(text string) {
	if text == "" {
		return
	}
	if g.Notes == nil {
		g.Notes = map[int]string{}
	}
	g.Notes[len(g.Rows)-1] = text
}

// when is a time in a column: without the zone, which the header names.
func when(t time.Time) string { return strings.TrimSuffix(When(t), " UTC") }

func whenOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return when(*t)
}

func number[N int64 | uint64](n N) string { return fmt.Sprint(n) }

func short(digest string) string {
	if len(digest) > 16 {
		return digest[:16] + "…"
	}
	return digest
}

// AttemptGrid shows attempts, gaps as gaps.
func AttemptGrid(rows []Attempt) Grid {
	g := Grid{Header: []string{"ENDPOINT", "ATTEMPT", "STARTED (UTC)", "TOOK", "STATUS", "OUTCOME", "DECISION", "DIGEST"},
		Wide: []string{"DIGEST", "TOOK", "DECISION"}, Clip: []string{"OUTCOME"}}
	for _, r := range rows {
		switch r.State {
		case Missing:
			g.add(r.EndpointID, number(r.Number), "", "", "", "GAP: not on record", "", "")
			continue
		case Unknown:
			g.add(r.EndpointID, number(r.Number), whenOf(r.StartedAt), "", "", "GAP: outcome unknown", r.Decision, "")
		default:
			status := ""
			if r.Status > 0 {
				status = number(r.Status)
			}
			g.add(r.EndpointID, number(r.Number), whenOf(r.StartedAt), Took(r.DurationUS), status, r.Outcome, r.Decision,
				short(r.PayloadDigest))
		}
		var notes []string
		if r.ReplayID != "" {
			notes = append(notes, "replay "+r.ReplayID)
		}
		if r.Error != "" {
			notes = append(notes, r.Error)
		}
		if r.ResponseExcerpt != "" {
			notes = append(notes, "response: "+clip(r.ResponseExcerpt, 160))
		}
		g.note(strings.Join(notes, "; "))
	}
	return g
}

func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most]) + "…"
}

// RepetitionGrid shows deliveries with more than one request, and why.
func RepetitionGrid(rows []Repetition) Grid {
	g := Grid{Header: []string{"EVENT", "ENDPOINT", "FIRST (UTC)", "REQUESTS", "MAY HAVE ARRIVED", "SUCCESSES",
		"AFTER SUCCESS", "BY REPLAY", "CHECKED"},
		Wide: []string{"CHECKED", "FIRST (UTC)", "BY REPLAY", "AFTER SUCCESS", "SUCCESSES", "MAY HAVE ARRIVED"}}
	for _, r := range rows {
		checked := "never"
		if r.ConformanceAt != nil {
			checked = whenOf(r.ConformanceAt) + " " + r.ConformanceOutcome
		}
		g.add(r.EventID, r.EndpointID, when(r.FirstAt), number(r.Requests), number(r.MayHaveArrived), number(r.Delivered),
			number(r.AfterSuccess), number(r.AfterSuccessByReplay), checked)
		g.note(strings.Join(grouped(r.Repeats), "; "))
	}
	return g
}

// FailureGrid shows failures and how long it took to tell a human.
func FailureGrid(rows []Failure, now time.Time) Grid {
	g := Grid{Header: []string{"EVENT", "ENDPOINT", "REASON", "FAILED (UTC)", "HUMAN TOLD AFTER", "WITHIN 5 MIN",
		"BEFORE DEADLINE", "ACKNOWLEDGED BY", "RESOLUTION"},
		Wide: []string{"BEFORE DEADLINE", "FAILED (UTC)", "WITHIN 5 MIN", "ACKNOWLEDGED BY", "RESOLUTION",
			"HUMAN TOLD AFTER"}, Clip: []string{"REASON", "ACKNOWLEDGED BY", "RESOLUTION"}}
	for _, r := range rows {
		told, within, before := "NOBODY", "NO", "NO"
		if r.TimeToHumanUS != nil {
			told = Took(*r.TimeToHumanUS)
		}
		switch r.Promise {
		case "kept":
			within = "yes"
		case "open":
			told, within = "nobody yet", "not over"
		}
		if r.EscalatedInTime {
			before = "yes"
		}
		switch {
		case r.DeliverBy == nil:
			before = "no deadline"
		case r.EscalatedAt == nil && now.Before(*r.DeliverBy):
			before = "not over"
		}
		resolution := r.Resolution
		if r.ResolvedBy != "" {
			resolution += " by " + r.ResolvedBy
		}
		event := r.EventID
		if event == "" {
			event = "(an event without an id)"
		}
		if r.EndpointID == "" {
			r.EndpointID = "(rejected)"
		}
		g.add(event, r.EndpointID, r.Reason, when(r.FailedAt), told, within, before, r.AcknowledgedBy, resolution)
		var notes []string
		if r.Detail != "" {
			notes = append(notes, r.Detail)
		}
		if r.ResolutionReason != "" {
			notes = append(notes, "settled: "+r.ResolutionReason)
		}
		g.note(strings.Join(notes, "; "))
	}
	return g
}

// FailureTotalGrid shows failures by reason.
func FailureTotalGrid(rows []FailureTotals) Grid {
	g := Grid{Header: []string{"WHAT", "REASON", "COUNT", "HUMAN TOLD", "WITHIN 5 MIN", "NOT WITHIN", "BEFORE DEADLINE",
		"ACKNOWLEDGED", "OPEN"},
		Wide: []string{"BEFORE DEADLINE", "HUMAN TOLD", "WITHIN 5 MIN", "WHAT"}}
	for _, r := range rows {
		g.add(strings.ReplaceAll(r.What, "_", " "), r.Reason, number(r.Count), number(r.Told), number(r.Within5Minutes),
			number(r.Broken), number(r.BeforeDeadline), number(r.Acknowledged), number(r.Open))
	}
	return g
}

// SignedGrid shows digests.
func SignedGrid(rows []Signed) Grid {
	compared := false
	for _, r := range rows {
		compared = compared || r.Compared != ""
	}
	g := Grid{Header: []string{"EVENT", "ENDPOINT", "ATTEMPT", "SIGNED (UTC)", "SCHEME", "KEYS", "DIGEST OF THE BODY",
		"DIGEST OF THE DATA"},
		Wide: []string{"KEYS", "SCHEME", "SIGNED (UTC)", "DIGEST OF THE DATA", "DIGEST OF THE BODY"}, Clip: []string{"KEYS"}}
	if compared {
		g.Header = append(g.Header, "COMPARED")
	}
	for _, r := range rows {
		digest := short(r.PayloadDigest)
		switch r.State {
		case Unknown:
			digest = "GAP: outcome unknown"
		case "not_sent":
			digest = "nothing was sent"
		}
		data := short(r.DataDigest)
		if r.DataDigests > 1 {
			data = fmt.Sprintf("%d DIFFERENT", r.DataDigests)
		}
		cells := []string{r.EventID, r.EndpointID, number(r.Number), whenOf(r.SignedAt), r.SignatureScheme,
			strings.Join(r.KeyIDs, " "), digest, data}
		if compared {
			cells = append(cells, r.Compared)
		}
		g.add(cells...)
	}
	return g
}

// DayGrid shows the controls by day.
func DayGrid(rows []Day) Grid {
	g := Grid{Header: []string{"DAY", "EVENTS", "DELIVERED", "ATTEMPTS", "UNKNOWN", "DEAD LETTERS", "PEOPLE TOLD",
		"NOT TOLD IN TIME", "CHECKS", "TESTS", "ALARMS", "CHANGES", "REPLAYS", "CHECKPOINTS", "GAPS"},
		Wide: []string{"CHECKPOINTS", "REPLAYS", "CHANGES", "CHECKS", "TESTS", "ALARMS", "ATTEMPTS", "PEOPLE TOLD",
			"UNKNOWN"}}
	for _, r := range rows {
		g.add(r.Day, number(r.EventsAccepted+r.EventsUnmatched+r.EventsRejected), number(r.Delivered), number(r.Attempts),
			number(r.AttemptsUnknown), number(r.DeadLettered), number(r.PeopleTold),
			number(r.NotToldInTime), number(r.ConformanceChecks), number(r.EscalationTests), number(r.AlarmsRaised),
			number(r.Changes), number(r.ReplaysRequested), number(r.Checkpoints), number(r.LedgerGaps))
	}
	return g
}

// ChangeGrid shows changes of the configuration.
func ChangeGrid(rows []Change) Grid {
	g := Grid{Header: []string{"AT (UTC)", "WHO", "WHAT", "ACTION", "ABOUT", "REASON"},
		Wide: []string{"WHAT", "REASON", "WHO"}, Clip: []string{"WHO", "ACTION", "REASON"}}
	for _, r := range rows {
		about := strings.TrimSpace(r.EndpointID + " " + r.Subject)
		if hold := r.Settings["hold"]; hold != "" {
			about = strings.TrimSpace(hold + " " + r.Detail) // what it covers
		}
		g.add(when(r.At), r.Actor, strings.TrimSuffix(r.Kind, ".changed"), r.Action, clip(about, 80), r.Reason)
	}
	return g
}

// ReplayGrid shows replays.
func ReplayGrid(rows []Replay) Grid {
	g := Grid{Header: []string{"AT (UTC)", "WHO", "WHY", "EVENT", "ENDPOINT", "REQUESTS", "BECAME"},
		Wide: []string{"REQUESTS", "WHO", "AT (UTC)", "WHY", "BECAME"}, Clip: []string{"WHO", "WHY", "BECAME"}}
	for _, r := range rows {
		g.add(whenOf(r.RequestedAt), r.Actor, r.Reason, r.EventID, r.EndpointID, number(r.AttemptCount),
			strings.TrimSpace(r.State+" "+r.EndReason))
	}
	return g
}

// BalanceGrid shows balances under the columns that key leaves.
func BalanceGrid(rows []Balance) Grid {
	g := Grid{Header: []string{"DAY", "TENANT", "ENDPOINT", "OWED", "DELIVERED", "DEAD LETTERS", "CANCELLED", "PENDING",
		"NOT OWED", "BEGUN IN A RETIRED MONTH", "UNKNOWN ATTEMPTS", "MISMATCHES"},
		Wide: []string{"BEGUN IN A RETIRED MONTH", "UNKNOWN ATTEMPTS", "CANCELLED", "NOT OWED", "TENANT", "DAY"}}
	for _, r := range rows {
		begun := ""
		if r.BegunRetired > 0 {
			begun = number(r.BegunRetired)
		}
		g.add(r.Day, r.Tenant, r.EndpointID, number(r.Accepted), number(r.Delivered), number(r.DeadLettered),
			number(r.Cancelled), number(r.Pending), number(r.NotOwed), begun, number(r.AttemptsUnknown), number(r.Mismatched))
	}
	return g.withoutEmpty()
}

// MismatchGrid names mismatches.
func MismatchGrid(rows []Mismatch) Grid {
	g := Grid{Header: []string{"MISMATCH", "EVENT", "ENDPOINT", "AT (UTC)", "DETAIL"},
		Wide: []string{"AT (UTC)", "DETAIL"}, Clip: []string{"DETAIL"}}
	for _, r := range rows {
		g.add(r.What, r.EventID, r.EndpointID, when(r.At), r.Detail)
	}
	return g
}

// withoutEmpty drops columns that say nothing.
func (g Grid) withoutEmpty() Grid {
	if len(g.Rows) == 0 {
		return g
	}
	out := Grid{Rows: make([][]string, len(g.Rows)), Notes: g.Notes, Wide: g.Wide, Clip: g.Clip}
	for c, name := range g.Header {
		empty := true
		for _, r := range g.Rows {
			empty = empty && r[c] == ""
		}
		if empty {
			continue
		}
		out.Header = append(out.Header, name)
		for i, r := range g.Rows {
			out.Rows[i] = append(out.Rows[i], r[c])
		}
	}
	return out
}

// WriteCSV writes rows, a slice of structs, under their JSON names. A text that a
// spreadsheet would take for a formula gets an apostrophe before it.
func WriteCSV(w io.Writer, rows any) error {
	v := reflect.ValueOf(rows)
	t := v.Type().Elem()
	var header []string
	var fields []int
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			header, fields = append(header, name), append(fields, i)
		}
	}
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	for i := range v.Len() {
		cells := make([]string, len(fields))
		for n, f := range fields {
			cells[n] = cell(v.Index(i).Field(f).Interface())
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func cell(v any) string {
	switch x := v.(type) {
	case string:
		return harmless(x)
	case time.Time:
		if x.IsZero() {
			return ""
		}
		return x.UTC().Format(time.RFC3339Nano)
	case *time.Time:
		if x == nil {
			return ""
		}
		return x.UTC().Format(time.RFC3339Nano)
	case *int64:
		if x == nil {
			return ""
		}
		return strconv.FormatInt(*x, 10)
	case []string:
		return harmless(strings.Join(x, " "))
	case map[string]string:
		if len(x) == 0 {
			return ""
		}
		b, _ := json.Marshal(x) // strings always encode
		return string(text.JSON(b))
	}
	return fmt.Sprint(v)
}

// harmless keeps a spreadsheet from running what a receiver or producer wrote, and
// a terminal from obeying it.
func harmless(s string) string {
	s = text.Lines(s)
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
