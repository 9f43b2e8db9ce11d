package escalator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
)

func TestWhatJoinsOutOfOrderIsCountedAndToldOnce(t *testing.T) {
	problem := func(revision uint64) member {
		tr := escalation.Problem{Kind: record.DeliveryDeadLetter, Tenant: "default", EventID: fmt.Sprint(revision),
			EndpointID: "ep_1", Reason: "attempts_exhausted"}
		tr.ID = record.EndID(tr.Kind, tr.EventID, tr.EndpointID, "")
		return member{revision, tr}
	}
	first := problem(10)
	doc := escalation.Begin(first.Problem, escalation.Policy{Name: "all"}, first.revision, time.Now())
	a := newActor(nil, &group{}, doc, 0)
	for _, revisions := range [][]uint64{{10}, {14, 13}, {12, 14}, {11}} {
		for _, r := range revisions {
			a.join(problem(r))
		}
		a.pending()
	}
	if doc.Count != 5 || doc.Reasons["attempts_exhausted"] != 5 || doc.Endpoints["ep_1"] != 5 || doc.Seen != 14 {
		t.Errorf("%d are counted, %v, %v, up to %d; want 5 up to 14", doc.Count, doc.Reasons, doc.Endpoints, doc.Seen)
	}
	for _, c := range []struct {
		from, to uint64
		want     []uint64
	}{{0, 14, []uint64{10, 11, 12, 13, 14}}, {10, 12, []uint64{11, 12}}, {12, 14, []uint64{13, 14}}, {14, 14, nil}} {
		var got []uint64
		for _, m := range a.between(c.from, c.to) {
			got = append(got, m.revision)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %d up to %d are %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
