package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func TestADeadLetterHasAnOwnerAClockAndEveryTryToTellPeople(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	s := &story{t: t}
	const ep = "ep_a"
	try := func(event, channel, outcome, action string) {
		s.tell(record.Escalation, event, ep, func(r *record.Record) {
			r.Channel, r.Outcome, r.Action, r.IncidentID, r.MessageID, r.Step, r.DeliverBy = channel, outcome, action, "inc_9",
				"inc_9-1", 1, noon.Add(time.Minute)
		})
	}
	// e1: nobody could be told; taken by one person and then by another, who settled it.
	s.owed("e1", ep, "")
	s.ended(record.DeliveryDeadLetter, "e1", ep, "", "endpoint_unreachable") // 1
	try("e1", "chat", "busy", "trigger")
	s.tell(record.EscalationAcked, "e1", ep, func(r *record.Record) { r.Actor = "bob" })
	s.tell(record.EscalationAcked, "e1", ep, func(r *record.Record) { r.Actor = "carol" }) // 4
	// somebody has it: not that there is something to do
	try("e1", "chat", "delivered", "resolve")
	s.tell(record.OperatorAction, "e1", ep, func(r *record.Record) { // 6
		r.Actor, r.Action, r.Reason = "carol", "deadletter.resolved", "told them by phone"
	})
	// e2: the watchdog was first, and knows no incident; told by the second try, in time.
	s.owed("e2", ep, "")
	s.ended(record.DeliveryDeadLetter, "e2", ep, "", "attempts_exhausted") // 8
	s.tell(record.Escalation, "e2", ep, func(r *record.Record) { r.Action = "handed_over" })
	try("e2", "chat", "timeout", "trigger")
	try("e2", "chat", "delivered", "trigger") // 11
	if err := db.Append(context.Background(), s.rows); err != nil {
		t.Fatal(err)
	}
	at := func(n int) string {
		return noon.Add(time.Duration(n) * time.Second).Format("'2006-01-02 15:04:05.000000000'")
	}
	compare(t, lines(t, conn, "SELECT (event_id, escalated_at, escalated_in_time, escalation_outcome, acknowledged_by, "+
		"owner, owned_at, resolution, resolved_by, resolved_at, resolution_reason) FROM dead_letters ORDER BY idx"),
		[]string{"('e1',NULL,false,'busy','bob','carol'," + at(4) + ",'resolved','carol'," + at(6) + ",'told them by phone')",
			"('e2'," + at(11) + ",true,'delivered','','',NULL,'open','',NULL,'')"})
	compare(t, lines(t, conn, "SELECT (event_id, incident_id) FROM dead_letters ORDER BY idx"),
		[]string{"('e1','inc_9')", "('e2','inc_9')"})
	compare(t, lines(t, conn, "SELECT (event_id, channel, step, incident_id, message_id, action, outcome) FROM "+
		"escalations WHERE action != 'handed_over' ORDER BY idx"),
		[]string{"('e1','chat',1,'inc_9','inc_9-1','trigger','busy')",
			"('e1','chat',1,'inc_9','inc_9-1','resolve','delivered')",
			"('e2','chat',1,'inc_9','inc_9-1','trigger','timeout')", "('e2','chat',1,'inc_9','inc_9-1','trigger','delivered')"})
	page, _, err := db.DeadLetters(context.Background(), ledger.DeadLetterFilter{Resolution: "open"}, "", 10)
	if err != nil || len(page) != 1 || page[0].EventID != "e2" || page[0].EscalatedAt == nil {
		t.Errorf("%v: %+v", err, page)
	}
}
