package audit_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// hostile is what receivers, producers and operators may have written.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><style>*{display:none}</style>`,
	`</td></tr></table><h1>all is well</h1>`,
	"javascript:alert(1)", "&lt;script&gt;", "{{.Secret}}", `' OR 1=1 --`, "\u202egnp.exe", "a\x00b\x1b[31mred", "]]><!--",
	`=cmd|' /C calc'!A0`, "url(https://evil.example/x)",
}

// hostileReport has every hostile text in every field that somebody else writes.
func hostileReport() audit.Report {
	f := audit.Filter{Tenant: hostile[0], EndpointID: hostile[1], From: noon, To: noon.Add(24 * time.Hour)}
	r := audit.Report{Made: noon, Software: "Waybill/test", Filter: f}
	var attempts []audit.Attempt
	var repeats []audit.Repetition
	var failures []audit.Failure
	var totals []audit.FailureTotals
	var signed []audit.Signed
	var changes []audit.Change
	var mismatches []audit.Mismatch
	var rows []audit.Balance
	for i, h := range hostile {
		at := noon.Add(time.Duration(i) * time.Minute)
		attempts = append(attempts, audit.Attempt{EventID: h, EndpointID: h, Number: 1, State: audit.Unanswered,
			StartedAt: &at, Outcome: h, Error: h, ResponseExcerpt: h, URL: h})
		repeats = append(repeats, audit.Repetition{EventID: h, EndpointID: h, Requests: 2, MayHaveArrived: 2,
			Repeats: []string{h}, ConformanceAt: &at, ConformanceOutcome: h})
		failures = append(failures, audit.Failure{What: "dead_letter", EventID: h, EndpointID: h, Reason: h, Detail: h,
			AcknowledgedBy: h, ResolvedBy: h, ResolutionReason: h, Resolution: "resolved", FailedAt: at})
		totals = append(totals, audit.FailureTotals{What: h, Reason: h, Count: 1, Broken: 1})
		signed = append(signed, audit.Signed{EventID: h, EndpointID: h, State: "signed", SignatureScheme: h,
			KeyIDs: []string{h}, PayloadDigest: h})
		changes = append(changes, audit.Change{At: at, Kind: h, Action: h, Actor: h, Reason: h, Subject: h, EndpointID: h})
		r.Replays = append(r.Replays, audit.Replay{EventID: h, EndpointID: h, Actor: h, Reason: h, State: h,
			RequestedAt: &at})
		mismatches = append(mismatches, audit.Mismatch{EventID: h, EndpointID: h, What: audit.NotOwed, Detail: h})
		rows = append(rows, audit.Balance{Day: "2026-11-02", Tenant: h, EndpointID: h, Accepted: 3, Delivered: 1,
			DeadLettered: 1, NotOwed: 1, Mismatched: 1})
	}
	r.Days, r.Endpoints = audit.Fold(rows, audit.ByDay), audit.Fold(rows, audit.ByEndpoint)
	r.Completeness = audit.NewCompleteness(f, audit.Events{Accepted: 1}, rows, mismatches, 3, nil)
	r.Gaps = audit.OfAttempts(f, attempts, 1)
	r.Duplicates = audit.OfDuplicates(f, repeats, 1, audit.RepetitionTotals{Deliveries: 9, Unexplained: 1})
	r.Failures = audit.OfFailures(f, failures, 1, totals)
	r.Service = audit.ServiceOf(rows, totals)
	r.Integrity = audit.OfIntegrity(f, signed, 1, audit.SignedTotals{Attempts: 9, Schemes: hostile, KeyIDs: hostile})
	r.Controls = audit.OfControls(f, []audit.Day{{Day: "2026-11-02"}}, changes, 1)
	r.MoreReplays = 1
	r.Checkpoints = audit.Checkpoints{Count: 1, Covering: &audit.Checkpoint{Size: 9, At: noon, Origin: hostile[0],
		Key: hostile[1], Root: "ab"}}
	return r
}

func TestAReportHoldsNothingThatRunsLoadsOrHides(t *testing.T) {
	var b bytes.Buffer
	if err := audit.WriteHTML(&b, hostileReport()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	// What is not text: the tags, as a browser would see them.
	tags := regexp.MustCompile(`<[^>]*>`).FindAllString(regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page,
		""), -1)
	allowed := regexp.MustCompile(`^</?(!DOCTYPE html|html|head|meta|title|body|header|nav|main|h[123]|p|ol|ul|li|a|b|div|span|table|caption|thead|tbody|tr|th|td|code|svg|line|rect|text)( [^<>]*)?>$`)
	for _, tag := range tags {
		if !allowed.MatchString(tag) {
			t.Errorf("a tag that is none of ours: %s", tag)
		}
		if regexp.MustCompile(`(?i)\son\w+=|\ssrc=|javascript:|https?:`).MatchString(tag) {
			t.Errorf("a tag that runs or loads something: %s", tag)
		}
	}
	if n := strings.Count(page, "<style>"); n != 1 {
		t.Errorf("%d style sheets", n)
	}
	for _, bad := range []string{"\u202e", "\x00", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	style := regexp.MustCompile(`(?s)<style>.*?</style>`).FindString(page)
	for _, bad := range []string{"@import", "url(", "evil"} {
		if strings.Contains(style, bad) {
			t.Errorf("the style sheet holds %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("what was written is not shown")
	}
}

func TestAReportHasAllItsPartsAndSaysWhatIsNotProven(t *testing.T) {
	for name, r := range map[string]audit.Report{"full": hostileReport(), "empty": {
		Made: noon, Filter: audit.Filter{From: noon, To: noon.Add(time.Hour)},
		Completeness: audit.NewCompleteness(audit.Filter{}, audit.Events{}, nil, nil, 0, nil),
		Gaps:         audit.OfAttempts(audit.Filter{}, nil, 0), Duplicates: audit.OfDuplicates(audit.Filter{}, nil, 0,
			audit.RepetitionTotals{}), Failures: audit.OfFailures(audit.Filter{}, nil, 0, nil),
		Integrity: audit.OfIntegrity(audit.Filter{}, nil, 0, audit.SignedTotals{}),
		Controls:  audit.OfControls(audit.Filter{}, nil, nil, 0), Service: audit.ServiceOf(nil, nil)}} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := audit.WriteHTML(&b, r); err != nil {
				t.Fatal(err)
			}
			page := b.String()
			anchors := regexp.MustCompile(`href="#([a-z]+)"`).FindAllStringSubmatch(page, -1)
			if len(anchors) != 12 {
				t.Errorf("%d entries in the table of contents", len(anchors))
			}
			for _, a := range anchors {
				if strings.Count(page, `id="`+a[1]+`"`) != 1 {
					t.Errorf("the contents name %s, which is not there once", a[1])
				}
			}
			for _, q := range audit.Questions() {
				for _, s := range append([]string{q.Asked}, q.CannotProve...) {
					if !strings.Contains(page, escaped(s)) {
						t.Errorf("the page does not say %q", s)
					}
				}
			}
			for _, want := range []string{`lang="en"`, "@page", "prefers-color-scheme: dark", "Content-Security-Policy"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %s", want)
				}
			}
			if name == "full" && strings.Count(page, " more, query: <code>SELECT * FROM ") != 7 {
				t.Errorf("%d of the lists that were cut say how to see the rest",
					strings.Count(page, " more, query: <code>SELECT * FROM "))
			}
			j, err := json.Marshal(r)
			if err != nil || bytes.Contains(j, []byte(`"rows":null`)) {
				t.Errorf("as JSON: %v", err)
			}
		})
	}
}

func escaped(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", "'", "&#39;", "+", "&#43;").Replace(s)
}

func TestCSVHoldsWholeRowsAndNoFormula(t *testing.T) {
	var rows []audit.Attempt
	at := noon
	for _, h := range hostile {
		rows = append(rows, audit.Attempt{EventID: h, StartedAt: &at, ResponseExcerpt: h + "\n,\"x\"",
			KeyIDs: []string{"a", "b"}, ResponseHeaders: map[string]string{"x": h}})
	}
	rows = append(rows, audit.Attempt{Error: "+1", Reason: "-1", Outcome: "@x", Class: "\t=1", Number: -5})
	var b bytes.Buffer
	if err := audit.WriteCSV(&b, rows); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(got) != len(rows)+1 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	column := func(name string) int { return slices.Index(got[0], name) }
	for i, h := range hostile {
		want := h
		if h[0] == '=' {
			want = "'" + h
		}
		if want = text.Lines(want); got[i+1][column("event_id")] != want ||
			got[i+1][column("started_at")] != "2026-11-02T12:00:00Z" || got[i+1][column("key_ids")] != "a b" {
			t.Errorf("row %d: %q", i, got[i+1])
		}
	}
	last := got[len(got)-1]
	for name, want := range map[string]string{"error": "'+1", "reason": "'-1", "outcome": "'@x", "class": "'\t=1",
		"attempt": "-5"} {
		if last[column(name)] != want {
			t.Errorf("%s is %q, want %q", name, last[column(name)], want)
		}
	}
}

func TestLatenciesOfAnyNumberOfDaysAreGoodToOnePercent(t *testing.T) {
	var rows []audit.Balance
	for day := range 10 {
		b := audit.Balance{Day: fmt.Sprint(day)}
		for i := range 1000 {
			b.Buckets, b.Counts = append(b.Buckets, audit.Bucket(int64(day*1000+i+1))), append(b.Counts, 1)
		}
		rows = append(rows, b)
	}
	l := audit.LatencyOf(rows)
	for _, c := range []struct{ got, want int64 }{{l.P50US, 5000}, {l.P95US, 9500}, {l.P99US, 9900}, {l.MaxUS, 10000}} {
		if math.Abs(float64(c.got-c.want)) > 0.012*float64(c.want) {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
	if l.Count != 10000 || audit.LatencyOf(nil) != (audit.Latency{}) {
		t.Errorf("%+v", l)
	}
}

func TestAShareIsNeverRoundedUpToAll(t *testing.T) {
	for _, c := range []struct {
		met, of uint64
		want    string
	}{{0, 0, "nothing to measure"}, {3, 3, "100\u00a0%"}, {999_999, 1_000_000, "99.99\u00a0%"}, {0, 3, "0.00\u00a0%"}} {
		if got := (audit.Objective{Met: c.met, Of: c.of}).Share(); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.met, c.of, got, c.want)
		}
	}
}

func TestAnArchivedPayloadIsComparedByteForByte(t *testing.T) {
	e := envelope.Event{ID: "e1", Type: "order.paid", RawTimestamp: "2026-11-02T12:00:00.000Z", Timestamp: noon,
		Data: []byte(`{"n":12345678901234567890, "a":[1, 2]}`)}
	rows := func() audit.Integrity {
		var out []audit.Signed
		for n := 1; n <= 3; n++ {
			out = append(out, audit.Signed{EventID: "e1", EventType: "order.paid", EndpointID: "ep_a", Number: int64(n),
				State: "signed", EventAt: &noon,
				PayloadDigest: envelope.DigestHex(e.AppendBody(nil, n)), DataDigest: envelope.DigestHex(e.Data)})
		}
		out = append(out, audit.Signed{EventID: "e1", EventType: "order.paid", EndpointID: "ep_a", Number: 4,
			State: "unknown", EventAt: &noon, DataDigest: envelope.DigestHex(e.Data)})
		return audit.OfIntegrity(audit.Filter{EventID: "e1"}, out, 0, audit.SignedTotals{Attempts: 4, Signed: 3, Unknown: 1})
	}
	body := e.AppendBody(nil, 2)
	for _, c := range []struct {
		name    string
		payload []byte
		altered bool
		want    string
	}{
		{"what was sent", body, false, "byte for byte, what was signed and sent as attempt 2. With only deliveryAttempt " +
			"changed it is what was sent as attempts 1 and 3."},
		{"an attempt that was not made", e.AppendBody(nil, 9), false,
			"with another deliveryAttempt they are what was sent as attempts 1, 2 and 3"},
		{"other data", bytes.Replace(body, []byte("890"), []byte("891"), 1), true,
			"Its data is not the data on record either."},
		{"another type", bytes.Replace(body, []byte("paid"), []byte("sold"), 1), true, "Its data is the data on record"},
		{"no JSON", []byte("hello"), true, "no JSON object"},
		{"nothing", nil, true, "ALTERED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := rows()
			if err := a.ComparePayload(c.payload); err != nil || a.Altered != c.altered || !strings.Contains(a.Verdict, c.want) {
				t.Errorf("altered %v, %q, %v", a.Altered, a.Verdict, err)
			}
		})
	}
	t.Run("each single bit", func(t *testing.T) {
		for bit := range len(body) * 8 {
			changed := bytes.Clone(body)
			changed[bit/8] ^= 1 << (bit % 8)
			a := rows()
			// A changed number of the attempt is what another attempt may have sent.
			if err := a.ComparePayload(changed); err != nil || !a.Altered &&
				!strings.Contains(a.Verdict, "another deliveryAttempt") && !strings.Contains(a.Verdict, "sent as attempt 3") {
				t.Fatalf("bit %d: %s", bit, a.Verdict)
			}
		}
	})
	t.Run("the data", func(t *testing.T) {
		a := rows()
		if err := a.CompareData(e.Data); err != nil || a.Altered ||
			!strings.Contains(a.Verdict, "The bodies of attempts 1, 2 and 3, rebuilt from it") {
			t.Errorf("%v, %q, %v", a.Altered, a.Verdict, err)
		}
		if err := a.CompareData(append(slices.Clone(e.Data), '\n')); err != nil || !a.Altered ||
			!strings.Contains(a.Verdict, "Without the white space") {
			t.Errorf("%v, %q, %v", a.Altered, a.Verdict, err)
		}
		none := audit.OfIntegrity(audit.Filter{}, nil, 0, audit.SignedTotals{})
		if err := none.ComparePayload(body); err == nil {
			t.Error("compared with nothing")
		}
	})
}

func TestLedgerAndClickHouseAreComparedRecordByRecord(t *testing.T) {
	messages := []audit.Stated{{Seq: 1, ID: "a", Digest: "1"}, {Seq: 2, ID: "b", Digest: "2"},
		{Seq: 3, ID: "c", Digest: "3"}, {Seq: 4, ID: "a", Digest: "1"}}
	rows := []audit.Stored{{Idx: 0, Seq: 1, ID: "a", Digest: "1"}, {Idx: 1, Seq: 2, ID: "b", Digest: "2"},
		{Idx: 2, Seq: 3, ID: "c", Digest: "3"}}
	what := func(list []audit.Mismatch) (out []string) {
		for _, m := range list {
			out = append(out, m.What)
		}
		return out
	}
	same, absent, found := audit.CompareChunk(messages, rows)
	if same != 3 || len(absent) != 1 || absent[0].Seq != 4 || found != nil {
		t.Errorf("%d, %v, %v", same, absent, found)
	}
	for name, c := range map[string]struct {
		rows []audit.Stored
		want string
	}{
		"bytes changed": {[]audit.Stored{rows[0], {Idx: 1, Seq: 2, ID: "b", Digest: "x"}, rows[2]}, audit.Differs},
		"a row added":   {append(slices.Clone(rows), audit.Stored{Idx: 3, Seq: 9, ID: "z"}), audit.NotInLedger},
		"swapped": {[]audit.Stored{{Idx: 0, Seq: 2, ID: "b", Digest: "2"}, {Idx: 1, Seq: 1, ID: "a", Digest: "1"},
			rows[2]}, audit.OutOfOrder},
	} {
		if _, _, found := audit.CompareChunk(messages, c.rows); !slices.Equal(what(found), []string{c.want}) {
			t.Errorf("%s: %v, want %s", name, found, c.want)
		}
	}
	if _, absent, _ := audit.CompareChunk(messages, rows[:2]); len(absent) != 2 {
		t.Errorf("a row removed: %v", absent)
	}
}
