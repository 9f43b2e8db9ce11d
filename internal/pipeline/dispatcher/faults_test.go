package dispatcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/registry"
)

func TestWhatWeCannotSendIsTriedOnceAtATimeWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFaults(time.Now), &registry.Endpoint{ID: "ep_1", Meta: revision.Meta{Revision: 1}}
		f.failed(e, "no sockets")
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			until, why := f.wait(e)
			if time.Until(until) != pause*time.Second || why != "no sockets" {
				t.Fatalf("held for %s (%s), want %s", time.Until(until), why, pause*time.Second)
			}
			f.failed(e, "no sockets") // that were under way do not make it longer
			<-time.After(time.Until(until))
			if until, _ := f.wait(e); !until.IsZero() {
				t.Fatal("nothing is tried when the pause is over")
			}
			if until, _ := f.wait(e); until.IsZero() {
				t.Fatal("a second one is tried beside it")
			}
			f.failed(e, "no sockets")
		}
		other := &registry.Endpoint{ID: "ep_2", Meta: revision.Meta{Revision: 1}}
		if until, _ := f.wait(other); !until.IsZero() {
			t.Error("another endpoint is held")
		}
		changed := &registry.Endpoint{ID: "ep_1", Meta: revision.Meta{Revision: 2}}
		if until, _ := f.wait(changed); !until.IsZero() {
			t.Error("a changed endpoint is held")
		}
		f.failed(changed, "no sockets")
		f.made(changed)
		if until, why := f.wait(changed); !until.IsZero() || why != "" || f.why(changed) != "" {
			t.Error("an endpoint to which a request was made is held")
		}
	})
}

func TestAClockThatIsPutBackHoldsNothingLonger(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	f, e := newFaults(func() time.Time { return now }), &registry.Endpoint{ID: "ep_1", Meta: revision.Meta{Revision: 1}}
	f.failed(e, "no sockets")
	now = now.Add(-time.Hour)
	if until, _ := f.wait(e); until.Sub(now) > firstFaultPause {
		t.Errorf("held for %s", until.Sub(now))
	}
}
