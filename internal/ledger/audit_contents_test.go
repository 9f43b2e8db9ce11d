package ledger_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
)

// sameIDs is what came in under ids: x twice, with other data; y twice, the same;
// z once, and another one was rejected; each x of a tenant of its own.
func sameIDs(t testing.TB) []ledger.Row {
	s := &story{t: t}
	came := func(kind record.Kind, tenant, id, eventType, digest string, seq uint64) {
		s.tell(kind, id, "", func(r *record.Record) {
			r.Tenant, r.EventType, r.DataDigest, r.EventSeq = tenant, eventType, digest, seq
			if kind == record.EventRejected {
				r.Reason = "id_in_use"
			}
		})
	}
	const one, two = "1111111111111111aaaa", "2222222222222222bbbb"
	came(record.EventAccepted, "acme", "x", "order.paid", one, 4)
	s.tell(record.DeliveryOwed, "x", "ep_a", func(r *record.Record) { r.EventSeq = 4 })
	came(record.EventAccepted, "acme", "x", "order.paid", two, 9)
	came(record.EventAccepted, "acme", "y", "order.paid", one, 10)
	came(record.EventAccepted, "acme", "y", "order.paid", one, 11)
	came(record.EventDuplicate, "acme", "y", "order.paid", one, 12)
	came(record.EventAccepted, "acme", "z", "order.paid", one, 13)
	came(record.EventRejected, "acme", "z", "order.paid", two, 14)
	came(record.EventAccepted, "other", "z", "order.paid", two, 15)
	came(record.EventUnmatched, "other", "w", "order.paid", one, 16)
	came(record.EventUnmatched, "other", "w", "order.sent", one, 17)
	return s.rows
}

func TestIDsWithTwoContentsAreNamed(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	if err := db.Append(context.Background(), sameIDs(t)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter audit.Filter
		limit  int
		want   []string
		more   uint64
	}{
		"of all":               {audit.Filter{}, 10, []string{"acme/x", "other/w"}, 0},
		"of one, and one more": {audit.Filter{}, 1, []string{"acme/x"}, 1},
		"of a tenant":          {audit.Filter{Tenant: "other"}, 10, []string{"other/w"}, 0},
		"of an event":          {audit.Filter{EventID: "x"}, 10, []string{"acme/x"}, 0},
		"of another event":     {audit.Filter{EventID: "z"}, 10, nil, 0},
		"of the period of the second alone": {audit.Filter{From: noon.Add(2e9), To: noon.Add(3e9)}, 10, []string{"acme/x"},
			0},
		"of another period": {audit.Filter{From: noon.Add(1e12)}, 10, nil, 0},
	} {
		found, more, err := db.AuditContents(context.Background(), c.filter, c.limit)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, m := range found {
			got = append(got, m.Tenant+"/"+m.EventID)
			if m.What != audit.TwoContents || m.At.IsZero() {
				t.Errorf("%s: %+v", name, m)
			}
		}
		if !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("%s: %v and %d more, want %v and %d", name, got, more, c.want, c.more)
		}
	}
	found, _, err := db.AuditContents(context.Background(), audit.Filter{EventID: "x"}, 1)
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Detail,
		"number 4 in EVENTS (accepted, type order.paid, data sha256 1111111111111111…), number 9 in EVENTS (accepted") {
		t.Errorf("%+v %v", found, err)
	}
}

func TestAnEventIsTheOneThatWasSent(t *testing.T) {
	t.Parallel()
	db, _, _ := open(t)
	if err := db.Append(context.Background(), sameIDs(t)); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for of, want := range map[[2]string]uint64{{"acme", "x"}: 4, {"acme", "y"}: 11, {"acme", "z"}: 13,
		{"other", "z"}: 15} {
		if e, err := db.Event(ctx, of[0], of[1]); err != nil || e.EventSeq != want {
			t.Errorf("%v is number %d (%v), want %d", of, e.EventSeq, err, want)
		}
	}
	if tenants, err := db.EventTenants(ctx, "z"); err != nil || !slices.Equal(tenants, []string{"acme", "other"}) {
		t.Errorf("z is of %v (%v)", tenants, err)
	}
	contents, err := db.Contents(ctx, "acme", "x")
	if err != nil || len(contents) != 2 || contents[0].EventSeq != 4 || contents[0].Owed != 1 ||
		contents[1].EventSeq != 9 || contents[1].Owed != 0 {
		t.Errorf("%+v (%v)", contents, err)
	}
	contents, err = db.Contents(ctx, "acme", "z")
	if err != nil || len(contents) != 2 || contents[1].State != "rejected" || contents[1].Reason != "id_in_use" {
		t.Errorf("%+v (%v)", contents, err)
	}
	if contents, err = db.Contents(ctx, "acme", "y"); err != nil || len(contents) != 1 || contents[0].Times != 2 {
		t.Errorf("%+v (%v)", contents, err)
	}
}
