package evidence_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

func TestWhatEVENTSSaidStandsInTheFile(t *testing.T) {
	l := newLog(t)
	l.tellSmall("e1")
	asked := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	file := func(e *evidence.Events) []byte {
		f := l.file(subject("e1"))
		f.Statement.Events = e
		return f.Encode()
	}
	for name, c := range map[string]struct {
		events    *evidence.Events
		format    string
		findings  int
		notProven string
	}{
		"it was not asked": {nil, evidence.Format1, 0, "EVENTS was not asked"},
		"it vouches": {&evidence.Events{AskedAt: asked, Vouched: 1}, evidence.Format2, 0,
			"held the event as it is on record"},
		"it keeps nothing so old": {&evidence.Events{AskedAt: asked, Beyond: 1}, evidence.Format2, 0,
			"keeps none that is so old"},
		"it does not vouch": {&evidence.Events{AskedAt: asked, Findings: []string{"event_unknown: EVENTS ends at 1"}},
			evidence.Format2, 1, "exporter's word"},
	} {
		t.Run(name, func(t *testing.T) {
			b := file(c.events)
			if !bytes.HasPrefix(b, []byte(`{"format":"`+c.format+`"`)) {
				t.Errorf("it begins with %.40s", b)
			}
			r := evidence.Verify(b, l.options())
			if !r.Proven || len(r.Findings) != c.findings || !strings.Contains(strings.Join(r.NotProven, " "), c.notProven) {
				t.Errorf("proven %v, problems %q, findings %q, not proven %q", r.Proven, r.Problems, r.Findings, r.NotProven)
			}
			var page strings.Builder
			if err := evidence.Page(&page, r); err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				if !strings.Contains(page.String(), f) || !strings.Contains(page.String(), "does not vouch") {
					t.Errorf("the page does not say %q", f)
				}
			}
		})
	}
	// Each format has its members, and not those of the other.
	one, two := file(nil), file(&evidence.Events{AskedAt: asked, Vouched: 1})
	for name, b := range map[string][]byte{
		"1 with the member of 2": bytes.Replace(slices.Clone(two), []byte(evidence.Format2), []byte(evidence.Format1), 1),
		"2 without its member":   bytes.Replace(slices.Clone(one), []byte(evidence.Format1), []byte(evidence.Format2), 1),
		"a number with a zero":   bytes.Replace(slices.Clone(two), []byte(`"vouched":"1"`), []byte(`"vouched":"01"`), 1),
		"a number that is none":  bytes.Replace(slices.Clone(two), []byte(`"vouched":"1"`), []byte(`"vouched":"x"`), 1),
		"a time that is not so": bytes.Replace(slices.Clone(two), []byte(`"asked_at":"2026`), []byte(`"asked_at":"x026`),
			1),
		"no findings, not a list": bytes.Replace(slices.Clone(two), []byte(`"findings":[]`), []byte(`"findings":null`), 1),
	} {
		if r := evidence.Verify(reseal(b), l.options()); r.Proven || len(r.Problems) == 0 {
			t.Errorf("%s is taken", name)
		}
	}
}
