package torture_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// A dispatcher is frozen in the middle of its requests, for longer than it takes
// to count as dead; its deliveries go elsewhere. When it goes on, it makes no
// second request under a number, and decides nothing.
func TestAFrozenDispatcherThatGoesOnMakesNoSecondRequest(t *testing.T) {
	t.Parallel()
	const events = 40
	s := separate(t)
	log := newRequestLog()
	release := make(chan struct{})
	// What it answers at first would end the delivery as a dead letter.
	r := newReceiver(t, log, "held", until(2, func(c call) bool {
		<-release
		return answer("422 Unprocessable Content")(c)
	}))
	s.endpoint(r, control.EndpointSpec{Types: []string{">"}, MaxInFlight: events,
		Timeout: control.Duration(3 * time.Second), Policy: quick()})
	l := newLoad(s, nil)
	for n := range events {
		id := fmt.Sprintf("evt-%d", n)
		_, err := s.js.Publish(t.Context(), streams.EventSubject(tenant, "pay.captured"), envelopeOf(id, "pay.captured", n),
			jetstream.WithMsgID(id))
		must(t, err)
		l.acknowledged(invariants.Published{ID: id, Owed: []string{r.endpoint}})
	}
	waitForRequests(t, log, events)
	frozen := s.program("dispatcher-1")
	frozen.freeze()
	close(release)
	// Whatever it had in hand is with the other one, and over.
	eventually(t, patience, "the other dispatcher ends every delivery", func(ctx context.Context) error {
		left, err := s.queued(ctx)
		if err == nil && left[streams.Deliveries]+left[streams.Retry] > 0 {
			err = fmt.Errorf("left: %v", left)
		}
		return err
	})
	frozen.thaw()
	frozen.stop() // it finishes what it has in hand
	frozen.start()
	s.rest()
	h := s.history(log, l)
	if found := invariants.Check(h); len(found) > 0 {
		t.Error(invariants.Report(h, found, 10))
	}
	unknown := 0
	for _, row := range h.Ledger {
		if row.Record.Outcome == "unknown" && row.Record.Dispatcher == frozen.name {
			unknown++
		}
	}
	if unknown == 0 {
		t.Error("the frozen dispatcher had nothing in hand")
	}
	t.Logf("%d requests, %d of them unknown", len(h.Requests), unknown)
}
