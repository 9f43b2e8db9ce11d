package sink_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
)

// resend publishes facts again, as stages do that state them again.
func (h *harness) resend(facts ...fact) {
	h.t.Helper()
	for _, f := range facts {
		m := nats.NewMsg(streams.LedgerSubject("attempt", "default"))
		m.Header.Set(nats.MsgIdHdr, f.id)
		m.Data = []byte(f.body)
		h.send(m)
	}
}

// loseTail puts the stream back to what it was when keep returned: what a power
// cut does to what was not synced.
func (h *harness) keep() (loseTail func()) {
	h.t.Helper()
	kept := h.t.TempDir() + "/kept"
	h.nats.Stop()
	if err := os.CopyFS(kept, os.DirFS(h.nats.Dir)); err != nil {
		h.t.Fatal(err)
	}
	h.restart()
	return func() {
		h.nats.Kill()
		if err := os.RemoveAll(h.nats.Dir); err != nil {
			h.t.Fatal(err)
		}
		if err := os.CopyFS(h.nats.Dir, os.DirFS(kept)); err != nil {
			h.t.Fatal(err)
		}
		h.restart()
	}
}

func (h *harness) restart() {
	h.t.Helper()
	h.nats.Restart()
	h.js = h.nats.JetStream()
}

func TestAStreamThatLostItsTailAndUsesSequencesAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// stop: the sink is down during the loss; otherwise it lives through it.
		stop  bool
		again []int // which of the lost records are stated again
		fresh int   // new records after those
	}{
		{"the sink is down, fewer sequences than before", true, []int{70, 75}, 3},
		{"the sink is down, the same number", true, []int{60, 99}, 38},
		{"the sink is down, more than before", true, []int{61}, 80},
		{"the sink lives through it, fewer than before", false, []int{98, 60}, 5},
		{"the sink lives through it, more than before", false, []int{60, 61, 62}, 90},
		{"all of the tail comes again, in another order", true, []int{90, 80, 70, 60}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			small := func(o *sink.Options) { o.BatchRecords = 13 }
			h.publish(60)
			loseTail := h.keep()
			h.publish(40)
			r := h.start(&faulty{Ledger: h.db()}, small)
			r.waitStored(100)
			if c.stop {
				r.end()
			}
			loseTail()
			for _, i := range c.again {
				h.resend(h.sent[i])
			}
			h.publish(c.fresh)
			if c.stop {
				r = h.start(&faulty{Ledger: h.db()}, small)
			}
			r.waitStored(100 + c.fresh)
			// A further session, and facts of the tail that are stated only now.
			r.end()
			h.resend(h.sent[88], h.sent[77])
			h.publish(4)
			r = h.start(&faulty{Ledger: h.db()}, small)
			r.waitStored(100 + c.fresh + 4)
			r.end()
			h.check(h.sent)
		})
	}
}

func TestAStreamThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	for _, alive := range []bool{false, true} {
		name := map[bool]string{false: "the sink is down", true: "the sink lives through it"}[alive]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			r := h.start(&faulty{Ledger: h.db()}, nil)
			h.publish(50)
			r.waitStored(50)
			if !alive {
				r.end()
			}
			if err := h.js.DeleteStream(context.Background(), streams.Ledger); err != nil {
				t.Fatal(err)
			}
			h.nats.Apply(streams.Options{Partitions: 1})
			h.resend(h.sent[10:20]...)
			h.publish(70)
			if !alive {
				r = h.start(&faulty{Ledger: h.db()}, nil)
			}
			r.waitStored(120)
			r.end()
			h.resend(h.sent[0:5]...)
			h.publish(3)
			r = h.start(&faulty{Ledger: h.db()}, nil)
			r.waitStored(123)
			r.end()
			h.check(h.sent)
			if !strings.Contains(h.log.String(), "ledger_stream.made_anew") {
				t.Error("nothing was said about it")
			}
		})
	}
}
