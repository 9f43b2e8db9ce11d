package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// shownEvent is the file whose event's attempts are shown in full.
const shownEvent = "lab_result_critical"

// report shows what is on record, and compares it with what was received.
func (d *demo) report(ctx context.Context) error {
	t := table{header: []string{"RECEIVER", "DELIVERED", "DEAD LETTERS", "WHY", "REQUESTS", "SIGNATURES", "DIGESTS"}}
	var shown control.DeliveryDetails
	failed := 0
	for _, r := range d.receivers {
		sum, err := d.tally(ctx, r)
		if err != nil {
			return err
		}
		failed += sum.wrong
		if r.name == "flaky" {
			shown = sum.shown
		}
		t.add(r.name, strconv.Itoa(sum.delivered), strconv.Itoa(sum.dead), sum.why, strconv.Itoa(sum.attempts),
			fmt.Sprintf("%d of %d good", r.good, r.good+len(r.bad)), fmt.Sprintf("%d of %d equal", sum.equal, sum.attempts))
	}
	if err := t.write(indented{d.out, "   "}, ""); err != nil {
		return err
	}
	d.say("\n   Signatures were verified by the receivers. Digests: the SHA-256 on record of each\n   request's signed " +
		"bytes, against the bytes that the receiver got.")
	d.say("\n4. The evidence for one delivery, %s to the flaky receiver:\n", shownEvent)
	if err := printDelivery(indented{d.out, "   "}, 0, shown, time.Now()); err != nil {
		return err
	}
	d.look(shown)
	if failed > 0 {
		return fmt.Errorf("%s not on record as received; please report this",
			text.Count(failed, "request is", "requests are"))
	}
	return nil
}

// tally is what is on record for one receiver.
type tally struct {
	delivered, dead, attempts, equal, wrong int
	why                                     string
	shown                                   control.DeliveryDetails
}

func (d *demo) tally(ctx context.Context, r *receiver) (tally, error) {
	var sum tally
	for i, e := range d.events {
		details, err := d.ctl.Delivery(ctx, e.ID, r.endpoint.ID)
		if err != nil {
			return sum, err
		}
		switch details.State {
		case outcome.StateDelivered:
			sum.delivered++
		case outcome.StateDeadLettered:
			sum.dead++
			sum.why = details.Reason
		}
		if d.names[i] == shownEvent {
			sum.shown = details
		}
		r.mu.Lock()
		for _, a := range details.History {
			sum.attempts++
			if r.digests[attemptAt{e.ID, a.Attempt}] == a.PayloadDigest {
				sum.equal++
			}
		}
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sum.wrong = sum.attempts - sum.equal + len(r.bad) + max(r.good-sum.attempts, 0)
	return sum, nil
}

// look says where to go on.
func (d *demo) look(shown control.DeliveryDetails) {
	a := d.w.Addresses()
	d.say("\n5. Look further:\n")
	self := calledAs()
	d.say("   %s delivery list --data-dir %s --state dead_lettered", self, d.w.Data())
	d.say("   %s delivery show --data-dir %s %s", self, d.w.Data(), shown.EventID)
	d.say("   %s audit completeness --data-dir %s", self, d.w.Data())
	d.say("   %s ledger verify --data-dir %s", self, d.w.Data())
	d.say("   curl 'http://%s/v1/deliveries/%s?endpoint=%s'", a.HTTP, shown.EventID, shown.EndpointID)
	if a.ClickHouseHTTP != "" {
		d.say("   %s", curl(a.ClickHouseHTTP,
			"SELECT attempt, started_at, status, outcome, decision FROM attempts WHERE event_id = '"+shown.EventID+
				"' ORDER BY endpoint_id, attempt FORMAT PrettyCompact"))
	}
	d.say("\n   API http://%s · NATS nats://%s · ClickHouse %s", a.HTTP, a.NATS, a.ClickHouseNative)
}
