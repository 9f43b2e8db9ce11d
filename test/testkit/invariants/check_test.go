package invariants

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

var noon = time.Date(2026, 8, 19, 12, 0, 0, 0, time.UTC)

// story is a history that keeps every promise: one event that an endpoint took
// at its second attempt and another never, one replay, one that was cancelled,
// one event that nobody wanted, one that was invalid.
func story() []record.Record {
	n := 0
	at := func() time.Time { n++; return noon.Add(time.Duration(n) * time.Second) }
	attempt := func(event, endpoint string, number int, outcome, class, decision, replay string) record.Record {
		r := record.Record{ID: fmt.Sprintf("att_%s_%s_%d", event, endpoint, number), Kind: record.Attempt, At: at(),
			Tenant:  "t",
			EventID: event, EndpointID: endpoint, Attempt: number, Outcome: outcome, Class: class, Decision: decision,
			ReplayID:      replay,
			PayloadDigest: fmt.Sprintf("digest-%s-%d", event, number)}
		if decision == "retry" {
			r.NextAttemptAt = r.At
		}
		return r
	}
	owed := func(endpoint, replay string) record.Record {
		return record.Record{ID: record.OwedID("e1", endpoint, replay), Kind: record.DeliveryOwed, At: at(), Tenant: "t",
			EventID: "e1", EndpointID: endpoint, ReplayID: replay}
	}
	return []record.Record{
		{ID: "a1", Kind: record.EventAccepted, At: at(), Tenant: "t", EventID: "e1", Endpoints: 2},
		owed("good", ""), owed("bad", ""),
		attempt("e1", "good", 1, "status_retryable", "retryable", "retry", ""),
		attempt("e1", "good", 2, "delivered", "delivered", "delivered", ""),
		attempt("e1", "bad", 1, "timeout", "retryable", "retry", ""),
		attempt("e1", "bad", 2, "unknown", "retryable", "retry", ""),
		attempt("e1", "bad", 3, "status_terminal", "terminal", "dead_letter", ""),
		{ID: "d1", Kind: record.DeliveryDeadLetter, At: at(), Tenant: "t", EventID: "e1", EndpointID: "bad", Attempts: 3},
		{ID: "r1", Kind: record.ReplayRequested, At: at(), Tenant: "t", EventID: "e1", EndpointID: "good", ReplayID: "rpl"},
		owed("good", "rpl"),
		attempt("e1", "good", 3, "delivered", "delivered", "delivered", "rpl"),
		{ID: "r2", Kind: record.ReplayRequested, At: at(), Tenant: "t", EventID: "e1", EndpointID: "bad", ReplayID: "rpl"},
		{ID: "c2", Kind: record.DeliveryCancelled, At: at(), Tenant: "t", EventID: "e1", EndpointID: "bad", ReplayID: "rpl"},
		{ID: "u1", Kind: record.EventUnmatched, At: at(), Tenant: "t", EventID: "e2"},
		{ID: "x1", Kind: record.EventRejected, At: at(), Tenant: "t", EventID: "e3"},
	}
}

func historyOf(records []record.Record) History {
	h := History{Queued: map[string]uint64{"DELIVERIES": 0, "RETRY": 0}, Published: []Published{
		{ID: "e1", Owed: []string{"good", "bad"}}, {ID: "e2"}, {ID: "e3", Invalid: true}},
		Replayed: []Replayed{{ID: "rpl", EventID: "e1", Targets: []string{"good", "bad"}}}}
	for i, r := range records {
		body, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		h.Ledger = append(h.Ledger, Row{Idx: uint64(i), StreamSeq: uint64(i + 1), Body: body, Record: r})
		h.Stream = append(h.Stream, Message{Seq: uint64(i + 1), Body: body, ID: r.ID})
		if r.Kind == record.Attempt {
			h.Requests = append(h.Requests, Request{EndpointID: r.EndpointID, EventID: r.EventID, BodyID: r.EventID,
				Attempt: r.Attempt,
				Digest:  r.PayloadDigest, At: r.At})
		}
	}
	return h
}

func TestAHistoryThatKeepsEveryPromiseHasNoViolation(t *testing.T) {
	h := historyOf(story())
	if found := Check(h); len(found) > 0 {
		t.Error(Report(h, found, 10))
	}
	// A request that never came (nobody listened), and one whose process died.
	h.Requests = slices.DeleteFunc(h.Requests, func(r Request) bool { return r.EndpointID == "bad" && r.Attempt < 3 })
	// A record stated again after LEDGER had forgotten its id.
	h.Stream = append(h.Stream, Message{Seq: 99, Body: []byte("{}"), ID: "d1"})
	if found := Check(h); len(found) > 0 || h.Restated() != 1 {
		t.Error(Report(h, found, 10))
	}
}

// without, swapped and added spoil the records of a story.
func without(id string) func([]record.Record) []record.Record {
	return func(rs []record.Record) []record.Record {
		return slices.DeleteFunc(rs, func(r record.Record) bool { return r.ID == id })
	}
}

func swapped(a, b string) func([]record.Record) []record.Record {
	return func(rs []record.Record) []record.Record {
		i := slices.IndexFunc(rs, func(r record.Record) bool { return r.ID == a })
		j := slices.IndexFunc(rs, func(r record.Record) bool { return r.ID == b })
		rs[i], rs[j] = rs[j], rs[i]
		return rs
	}
}

func altered(id string, alter func(*record.Record)) func([]record.Record) []record.Record {
	return func(rs []record.Record) []record.Record {
		for i := range rs {
			if rs[i].ID == id {
				alter(&rs[i])
			}
		}
		return rs
	}
}

func added(r record.Record) func([]record.Record) []record.Record {
	return func(rs []record.Record) []record.Record { return append(rs, r) }
}

func TestEachSpoiltRecordIsFound(t *testing.T) {
	owedGood := record.OwedID("e1", "good", "")
	for name, c := range map[string]struct {
		spoil func([]record.Record) []record.Record
		want  Rule
	}{
		"an event without a record": {without("u1"), RuleRecorded},
		"an event on record twice": {added(record.Record{ID: "u9", Kind: record.EventUnmatched, EventID: "e2"}),
			RuleRecorded},
		"a valid event rejected": {altered("u1", func(r *record.Record) { r.Kind = record.EventRejected }),
			RuleRecorded},
		"an invalid event accepted": {altered("x1", func(r *record.Record) { r.Kind = record.EventAccepted }),
			RuleRecorded},
		"an endpoint that is not owed":  {without(owedGood), RuleOwed},
		"an endpoint more than counted": {altered("a1", func(r *record.Record) { r.Endpoints = 3 }), RuleOwed},
		"an obligation stated twice": {added(record.Record{ID: "owed-again", Kind: record.DeliveryOwed,
			EventID: "e1", EndpointID: "good"}), RuleOwed},
		"a delivery in limbo": {without("d1"), RuleEnded},
		"a delivery with two ends": {added(record.Record{ID: "d9", Kind: record.DeliveryDeadLetter,
			EventID: "e1", EndpointID: "good"}), RuleEnded},
		"a replay in limbo":                {without("c2"), RuleEnded},
		"a replay that nobody asked for":   {without("r2"), RuleOrder},
		"an attempt before its obligation": {swapped(owedGood, "att_e1_good_1"), RuleOrder},
		"an attempt after the end":         {swapped("att_e1_bad_3", "d1"), RuleOrder},
		"attempts out of order":            {swapped("att_e1_bad_1", "att_e1_bad_2"), RuleOrder},
		"a hole in the numbers":            {without("att_e1_bad_2"), RuleNumbers},
		"a number on record twice": {altered("att_e1_good_2", func(r *record.Record) { r.Attempt = 1 }),
			RuleNumbers},
		"another digest": {altered("att_e1_good_2",
			func(r *record.Record) { r.PayloadDigest = "other" }), RuleDigest},
		"a digest missing though it was known": {altered("att_e1_bad_1", func(r *record.Record) { r.PayloadDigest = "" }),
			RuleDigest},
		"an attempt before it was due": {altered("att_e1_good_1",
			func(r *record.Record) { r.NextAttemptAt = r.At.Add(time.Hour) }), RuleDue},
		"an attempt after its deadline": {altered("att_e1_good_2",
			func(r *record.Record) { r.DeliverBy = r.At.Add(-time.Hour) }), RuleDeadline},
		"a record id twice": {altered("u1", func(r *record.Record) { r.ID = "x1" }), RuleIndex},
		"a gap in LEDGER": {added(record.Record{ID: "gap", Kind: record.LedgerGap, GapFrom: 3,
			GapTo: 4}), RuleGap},
		"an attempt of a delivery not known": {added(record.Record{ID: "att_x", Kind: record.Attempt, EventID: "e1",
			EndpointID: "other", Attempt: 1}), RuleOrder},
		"a replay attempted without being owed": {without(record.OwedID("e1", "good", "rpl")), RuleOrder},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(c.spoil(story()))
			if name == "a hole in the numbers" { // else its absence is no hole but an unrecorded request
				h.Requests = slices.DeleteFunc(h.Requests, func(r Request) bool { return r.Attempt == 2 })
			} else {
				h.Requests = historyOf(story()).Requests
			}
			wantViolation(t, h, c.want)
		})
	}
}

func TestEachSpoiltObservationIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*History)
		want  Rule
	}{
		"a request without a record": {func(h *History) { h.Requests[0].Attempt = 9 }, RuleOnRecord},
		"a request to an endpoint that nothing is on record of": {func(h *History) {
			h.Requests = append(h.Requests, Request{EventID: "e1", BodyID: "e1", EndpointID: "other", Attempt: 1})
		}, RuleOnRecord},
		"two requests under a number": {func(h *History) { h.Requests = append(h.Requests, h.Requests[0]) },
			RuleOneRequest},
		"a delivery that the receiver denies": {func(h *History) { h.Requests = h.Requests[:1] }, RuleHappened},
		"a wrong signature": {func(h *History) { h.Requests[0].Signature = errors.New("no match") },
			RuleSignature},
		"a body of another event":             {func(h *History) { h.Requests[0].BodyID = "e2" }, RuleSignature},
		"another content under the id":        {func(h *History) { h.Requests[0].Content = "other" }, RuleOneContent},
		"a contested id of which none lost":   {func(h *History) { h.Contested = []Contested{{"t", "e1"}} }, RuleContested},
		"a contested id that nobody has":      {func(h *History) { h.Contested = []Contested{{"t", "e3"}} }, RuleContested},
		"other bytes":                         {func(h *History) { h.Requests[0].Digest = "other" }, RuleDigest},
		"a message left in a queue":           {func(h *History) { h.Queued["RETRY"] = 1 }, RuleQueues},
		"a record that ClickHouse lacks":      {func(h *History) { h.Ledger = h.Ledger[:len(h.Ledger)-1] }, RuleEqual},
		"a record that LEDGER lacks":          {func(h *History) { h.Stream = h.Stream[:len(h.Stream)-1] }, RuleEqual},
		"a record in the middle that is lost": {func(h *History) { h.Stream = slices.Delete(h.Stream, 3, 4) }, RuleEqual},
		"two records that changed places": {func(h *History) { h.Stream[3], h.Stream[4] = h.Stream[4], h.Stream[3] },
			RuleEqual},
		"a replay that did not happen":    {func(h *History) { h.Replayed[0].ID = "rpl2" }, RuleReplayed},
		"a byte of a record":              {func(h *History) { h.Ledger[3].Body[5] ^= 1 }, RuleEqual},
		"a record under another sequence": {func(h *History) { h.Ledger[3].StreamSeq++ }, RuleEqual},
		"an index that is missing":        {func(h *History) { h.Ledger[3].Idx++ }, RuleIndex},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(story())
			for i := range h.Ledger { // bodies apart from the stream's
				h.Ledger[i].Body = slices.Clone(h.Ledger[i].Body)
			}
			c.spoil(&h)
			wantViolation(t, h, c.want)
		})
	}
}

func wantViolation(t *testing.T, h History, want Rule) {
	t.Helper()
	found := Check(h)
	if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == want }) {
		t.Fatalf("not found: %s; but:\n%s", want, Report(h, found, 10))
	}
	if report := Report(h, found, 100); !strings.Contains(report, string(want)) {
		t.Errorf("the report lacks it:\n%s", report)
	}
}

func TestAReportTellsTheDeliverysHistory(t *testing.T) {
	h := historyOf(without("d1")(story()))
	report := Report(h, Check(h), 10)
	for _, part := range []string{"ended 0 times", "att_e1_bad_1", "request 3 at bad", "delivery.owed/e1/bad"} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q:\n%s", part, report)
		}
	}
	if strings.Contains(report, "att_e1_good_1") {
		t.Errorf("the report tells of another delivery:\n%s", report)
	}
}
