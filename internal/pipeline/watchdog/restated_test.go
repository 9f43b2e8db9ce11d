package watchdog

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
)

// again publishes records that LEDGER no longer knows the ids of.
func (b *bench) again(rs ...record.Record) {
	b.t.Helper()
	for _, r := range rs {
		m, err := r.Message()
		must(b.t, err)
		m.Header.Set(nats.MsgIdHdr, "again/"+r.ID)
		_, err = b.js.PublishMsg(b.t.Context(), m)
		must(b.t, err)
	}
}

func TestWhatEndedStaysEndedThoughItIsStatedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tellable(newReceiver(t))
	now := time.Now().UTC()
	long := now.Add(-time.Hour)
	of := func(n int) record.Record { return owed(n, long, 0) }
	restated := func(r record.Record) record.Record {
		r.At = now.Add(-20 * time.Minute)
		return r
	}
	replay := of(4)
	replay.ReplayID = ids.New(ids.Replay, long)
	replay.ID = record.OwedID(replay.EventID, replay.EndpointID, replay.ReplayID)
	cancelled := record.Record{ID: record.EndID(record.DeliveryCancelled, of(3).EventID, of(3).EndpointID, ""),
		Kind: record.DeliveryCancelled, At: long, Tenant: "default",
		EventID: of(3).EventID, EndpointID: of(3).EndpointID}
	dead := deadLetter(of(5), long.Add(time.Minute))
	late := restated(dead)
	tries := restated(attempt(of(6), long.Add(time.Minute), "retry", long.Add(2*time.Minute)))
	tries.StartedAt = long.Add(time.Minute)
	b.publish(of(1), of(3), replay, of(5), of(6),
		attempt(of(1), long, "delivered", time.Time{}), cancelled,
		attempt(replay, long.Add(time.Second), "delivered", time.Time{}),
		dead, telling(dead, long.Add(2*time.Minute), "delivered"),
		attempt(of(6), long.Add(3*time.Minute), "delivered", time.Time{}))
	b.again(restated(of(1)), restated(of(3)), restated(replay), late, tries)
	// One that was fanned out late, and has no end.
	b.publish(restated(of(2)))

	check := func(who string, d Outstanding) {
		t.Helper()
		if d.Overdue != 1 || d.Untold != 0 || d.UntoldLate != 0 || d.PastDeadline != 0 {
			t.Errorf("%s: %+v; want one delivery overdue, and nothing else", who, d)
		}
	}
	d, err := ReadOutstanding(t.Context(), b.js, DefaultLimits())
	must(t, err)
	check("the doctor", d)
	if d.Open != 1 {
		t.Errorf("%d are open, want 1", d.Open)
	}
	dog := b.watchdog("dog")
	b.eventually("the watchdog knows what ended", func() bool {
		return dog.outstanding.Load().Open == 1 &&
			dog.outstanding.Load().Overdue == 1
	})
	check("the watchdog", dog.outstanding.Load().Outstanding)
}
