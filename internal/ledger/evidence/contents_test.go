package evidence_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
)

func TestDifferentEventsUnderOneIDAreSaidLoudlyAndSignedForAllTheSame(t *testing.T) {
	came := func(l *log, kind record.Kind, digest string, seq uint64) {
		l.tell(kind, "e1", "", func(r *record.Record) {
			r.EventType, r.DataDigest, r.EventSeq, r.Reason = "a.b", digest, seq, "id_in_use"
		})
	}
	for name, c := range map[string]struct {
		second record.Kind
		digest string
		loud   bool
	}{
		"another one was accepted":  {record.EventAccepted, "two", true},
		"another one matched none":  {record.EventUnmatched, "two", true},
		"another one was rejected":  {record.EventRejected, "two", false},
		"the same came again":       {record.EventDuplicate, "one", false},
		"the same came again, once": {record.EventAccepted, "one", false},
	} {
		l := newLog(t)
		came(l, record.EventAccepted, "one", 4)
		l.tell(record.DeliveryOwed, "e1", "ep_a", func(r *record.Record) { r.EventSeq = 4 })
		came(l, c.second, c.digest, 9)
		r := l.verify(l.file(subject("e1")).Encode())
		if !r.Proven || len(r.Contradictions) > 0 != c.loud {
			t.Errorf("%s: proven %v, contradictions %q (%q)", name, r.Proven, r.Contradictions, r.Problems)
			continue
		}
		var page bytes.Buffer
		if err := evidence.Page(&page, r); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page.String(), "contradicts itself") != c.loud {
			t.Errorf("%s: the page says otherwise", name)
		}
		if c.loud {
			for _, want := range []string{"SHA-256 one, is number 4 in EVENTS and has 1 delivery owed",
				"SHA-256 two, is number 9 in EVENTS and has 0 deliveries owed"} {
				if !strings.Contains(r.Contradictions[0], want) {
					t.Errorf("%s: %q lacks %q", name, r.Contradictions[0], want)
				}
			}
		}
	}
}
