package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/domain/replay"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// publish stores an event and puts it on record as accepted.
func (s *system) publish(tenant, id string) control.EventRecord {
	s.t.Helper()
	ack, err := s.PublishEvent(s.ctx, tenant, []byte(`{"id":"`+id+
		`","type":"a.b","timestamp":"2026-08-19T14:32:07Z","data":{"x": 1}}`), "")
	if err != nil {
		s.t.Fatal(err)
	}
	rec := control.EventRecord{ID: id, Tenant: tenant, Type: "a.b", State: control.EventAccepted, Seq: ack.Seq,
		DataDigest: envelope.DigestHex([]byte(`{"x": 1}`))}
	s.ledger.events[id] = rec
	return rec
}

func (s *system) owed(event, endpoint, state string, attempts int) {
	s.ledger.deliveries = append(s.ledger.deliveries, control.Delivery{EventID: event, EndpointID: endpoint,
		Tenant: "default", State: state, Attempts: attempts})
}

// requests are what REPLAYS holds.
func (s *system) requests() []replay.Request {
	s.t.Helper()
	stream, err := s.nats.JetStream().Stream(s.ctx, streams.Replays)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []replay.Request
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(s.ctx, seq)
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := replay.Decode(m.Data)
		if err != nil || m.Header.Get(jetstream.MsgIDHeader) != r.ID || m.Subject != streams.ReplaySubject(r.Tenant) {
			s.t.Fatalf("%s %v %s: %v", m.Subject, m.Header, m.Data, err)
		}
		out = append(out, r)
	}
	return out
}

func TestAReplayGoesToAllWhoWereOwedTheEventAndTwiceInARowHappensTwice(t *testing.T) {
	s := start(t, nil)
	s.ledger.page = 1 // the deliveries come in several pages
	a, b, c, d := s.endpoint(nil).Endpoint.ID, s.endpoint(nil).Endpoint.ID, s.endpoint(nil).Endpoint.ID,
		s.endpoint(nil).Endpoint.ID
	if _, err := s.DisableEndpoint(s.ctx, c, control.Stop{Reason: "broken", EndPending: true}, actor); err != nil {
		t.Fatal(err)
	}
	rec := s.publish("default", "e/1:x")
	s.owed(rec.ID, a, outcome.StateDelivered, 1)
	s.owed(rec.ID, b, outcome.StateDeadLettered, 8)
	s.owed(rec.ID, c, outcome.StateDeadLettered, 8)
	// The same id, used in another tenant on another day.
	s.ledger.deliveries = append(s.ledger.deliveries, control.Delivery{EventID: rec.ID, EndpointID: "ep_other",
		Tenant: "globex", State: outcome.StateDelivered})
	due := s.now.Add(time.Hour)
	s.ledger.deliveries = append(s.ledger.deliveries, control.Delivery{EventID: rec.ID, EndpointID: d, Tenant: "default",
		State: outcome.StatePending, Attempts: 2, NextAttemptAt: due})

	req := control.ReplayRequest{EventID: rec.ID, Actor: actor, Reason: "the receiver lost its data"}
	first, err := s.Replay(s.ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Replay(s.ctx, req)
	if err != nil || second.ID == first.ID {
		t.Fatalf("%+v (%v)", second, err)
	}
	if got := strings.Join(first.Targets, " "); got != a+" "+b {
		t.Errorf("targets %s", got)
	}
	if sk := first.Skipped; len(sk) != 2 || sk[0].EndpointID != c || sk[0].Code != control.CodeEndpointDisabled ||
		sk[1].EndpointID != d || sk[1].Code != control.CodePending || !sk[1].NextAttemptAt.Equal(due) {
		t.Errorf("skipped %+v", sk)
	}
	all := s.requests()
	if len(all) != 2 || all[0].ID != first.ID || all[1].ID != second.ID {
		t.Fatalf("REPLAYS holds %+v", all)
	}
	want := replay.Request{ID: first.ID, Tenant: "default", EventID: rec.ID, EventSeq: rec.Seq, Actor: actor,
		Reason:  req.Reason,
		Targets: []replay.Target{{EndpointID: a, Attempts: 1}, {EndpointID: b, Attempts: 8}}, RequestedAt: s.now}
	if encode(t, all[0]) != encode(t, want) {
		t.Errorf("asked for %s\nwant %s", encode(t, all[0]), encode(t, want))
	}
}

func TestAReplayThatIsUnderWayIsNoObstacleToTheNext(t *testing.T) {
	s := start(t, nil)
	rec, ep := s.publish("default", "e1"), s.endpoint(nil).Endpoint.ID
	s.ledger.deliveries = []control.Delivery{{EventID: rec.ID, EndpointID: ep, Tenant: "default",
		State: outcome.StatePending, Attempts: 3, ReplayID: "rpl_x"}}
	if _, err := s.Replay(s.ctx, control.ReplayRequest{EventID: rec.ID, EndpointID: ep, Actor: actor,
		Reason: "again"}); err != nil {
		t.Fatal(err)
	}
}

func TestAnEventCanBeSentToAnEndpointOfItsTenantThatWasNeverOwedIt(t *testing.T) {
	s := start(t, nil)
	rec := s.publish("acme", "e1")
	mine := s.endpoint(func(e *control.EndpointSpec) { e.Tenant = "acme" }).Endpoint.ID
	other := s.endpoint(nil).Endpoint.ID
	got, err := s.Replay(s.ctx, control.ReplayRequest{EventID: rec.ID, EndpointID: mine, Actor: actor,
		Reason: "new receiver"})
	if err != nil || len(got.Targets) != 1 || got.Targets[0] != mine {
		t.Fatalf("%+v (%v)", got, err)
	}
	_, err = s.Replay(s.ctx, control.ReplayRequest{EventID: rec.ID, EndpointID: other, Actor: actor, Reason: "x"})
	failed(t, err, control.CodeInvalid, "endpoint_id")
}

func TestAReplayThatCannotHappenIsRefusedAndNothingIsAsked(t *testing.T) {
	s := start(t, nil)
	ep, disabled, deleted := s.endpoint(nil).Endpoint.ID, s.endpoint(nil).Endpoint.ID, s.endpoint(nil).Endpoint.ID
	if _, err := s.DisableEndpoint(s.ctx, disabled, control.Stop{Reason: "broken", EndPending: true}, actor); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeleteEndpoint(s.ctx, deleted, control.Stop{Reason: "", EndPending: true}, actor); err != nil {
		t.Fatal(err)
	}
	good := s.publish("default", "good")
	s.owed("good", ep, outcome.StateDelivered, 1)
	s.publish("default", "pending")
	s.owed("pending", ep, outcome.StatePending, 0)
	s.publish("default", "unmatched")
	record := func(id string, change func(*control.EventRecord)) {
		rec := good
		rec.ID = id
		change(&rec)
		s.ledger.events[id] = rec
	}
	record("trimmed", func(e *control.EventRecord) { e.Seq = 4711 })
	record("reused", func(*control.EventRecord) {}) // the position holds another event
	record("rejected", func(e *control.EventRecord) { e.State, e.Reason = control.EventRejected, "invalid_event" })
	altered := good
	altered.DataDigest = envelope.DigestHex([]byte("else"))

	for name, c := range map[string]struct {
		event, endpoint, actor, reason string
		code                           control.Code
		field                          string
	}{
		"nobody asks":               {"good", "", "", "x", control.CodeInvalid, "actor"},
		"no reason":                 {"good", "", actor, "", control.CodeInvalid, "reason"},
		"a reason of two lines":     {"good", "", actor, "a\nb", control.CodeInvalid, "reason"},
		"no event":                  {"", "", actor, "x", control.CodeInvalid, "id"},
		"an unknown event":          {"nope", "", actor, "x", control.CodeNotFound, ""},
		"a trimmed event":           {"trimmed", "", actor, "x", control.CodeEventExpired, ""},
		"a position that is reused": {"reused", "", actor, "x", control.CodeEventExpired, ""},
		"a rejected event":          {"rejected", "", actor, "x", control.CodeNothingToReplay, ""},
		"pending":                   {"pending", "", actor, "x", control.CodeNothingToReplay, ""},
		"pending, named":            {"pending", ep, actor, "x", control.CodeNothingToReplay, ""},
		"nobody was owed it":        {"unmatched", "", actor, "x", control.CodeNothingToReplay, ""},
		"an unknown endpoint":       {"good", "ep_x", actor, "x", control.CodeNotFound, ""},
		"a disabled endpoint":       {"good", disabled, actor, "x", control.CodeEndpointDisabled, ""},
		"a deleted endpoint":        {"good", deleted, actor, "x", control.CodeEndpointDeleted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Replay(s.ctx, control.ReplayRequest{EventID: c.event, EndpointID: c.endpoint, Actor: c.actor,
				Reason: c.reason})
			failed(t, err, c.code, c.field)
		})
	}
	s.ledger.events["good"] = altered
	_, err := s.Replay(s.ctx, control.ReplayRequest{EventID: "good", Actor: actor, Reason: "x"})
	failed(t, err, control.CodeEventExpired, "")
	if all := s.requests(); len(all) != 0 {
		t.Errorf("REPLAYS holds %+v", all)
	}
}

func TestWithoutALedgerWhatNeedsItSaysSo(t *testing.T) {
	s := start(t, func(o *control.Options) { o.Ledger = nil })
	_, event := s.Event(s.ctx, "", "e", false)
	_, list := s.Deliveries(s.ctx, control.DeliveryFilter{}, "", 0)
	_, one := s.Delivery(s.ctx, "e", "ep")
	_, again := s.Replay(s.ctx, control.ReplayRequest{EventID: "e", Actor: actor, Reason: "x"})
	for _, err := range []error{event, list, one, again} {
		if e := failed(t, err, control.CodeNoLedger, ""); !strings.Contains(e.Error(), "--clickhouse") {
			t.Errorf("does not name the flag: %v", e)
		}
	}
}

func TestAnEventAndADeliveryAreShownFromTheLedgerAndTheStream(t *testing.T) {
	s := start(t, nil)
	rec, ep := s.publish("default", "e1"), s.endpoint(nil).Endpoint.ID
	s.owed(rec.ID, ep, outcome.StateDelivered, 1)
	s.ledger.attempts = []record.Record{{Kind: record.Attempt, EventID: rec.ID, EndpointID: ep, Attempt: 1}}
	e, err := s.Event(s.ctx, "", rec.ID, true)
	if err != nil || string(e.Event) != `{"id":"e1","type":"a.b","timestamp":"2026-08-19T14:32:07Z","data":{"x": 1}}` {
		t.Errorf("%+v (%v)", e, err)
	}
	if e, err = s.Event(s.ctx, "", rec.ID, false); err != nil || e.Event != nil {
		t.Errorf("%+v (%v)", e, err)
	}
	d, err := s.Delivery(s.ctx, rec.ID, ep)
	if err != nil || len(d.History) != 1 || d.State != outcome.StateDelivered {
		t.Errorf("%+v (%v)", d, err)
	}
	_, err = s.Delivery(s.ctx, rec.ID, "ep_none")
	failed(t, err, control.CodeNotFound, "")
	for field, f := range map[string]control.DeliveryFilter{"tenant": {Tenant: "."}, "event_id": {EventID: "a b"},
		"type":  {EventType: "*"},
		"state": {State: "lost"}, "until": {Since: s.now, Until: s.now}} {
		_, err := s.Deliveries(s.ctx, f, "", 0)
		failed(t, err, control.CodeInvalid, field)
	}
	_, err = s.Deliveries(s.ctx, control.DeliveryFilter{}, "made up", 0)
	failed(t, err, control.CodeInvalid, "cursor")
	_, err = s.Deliveries(s.ctx, control.DeliveryFilter{}, "", control.MaxPage+1)
	failed(t, err, control.CodeInvalid, "limit")
}

func TestWithNATSAwayActionsFailAsUnavailable(t *testing.T) {
	s := start(t, nil)
	id := s.endpoint(nil).Endpoint.ID
	s.nats.Kill()
	ctx, cancel := context.WithTimeout(s.ctx, 500*time.Millisecond)
	defer cancel()
	_, err := s.Endpoint(ctx, id)
	failed(t, err, control.CodeUnavailable, "")
	_, err = s.PublishEvent(ctx, "", []byte(`{"type":"a","data":1}`), "")
	failed(t, err, control.CodeUnavailable, "")
}

func TestAnIDUnderWhichDifferentEventsStandIsNotReplayed(t *testing.T) {
	s := start(t, nil)
	rec, ep := s.publish("default", "e1"), s.endpoint(nil).Endpoint.ID
	s.owed(rec.ID, ep, outcome.StateDelivered, 1)
	rec.Contents = []control.EventContent{{State: control.EventAccepted, Type: "a.b", DataDigest: "one"},
		{State: control.EventRejected, Type: "a.b", DataDigest: "two"}}
	s.ledger.events[rec.ID] = rec
	req := control.ReplayRequest{EventID: rec.ID, Actor: actor, Reason: "again"}
	if _, err := s.Replay(s.ctx, req); err != nil {
		t.Fatalf("the other one was rejected: %v", err)
	}
	rec.Contents[1].State = control.EventUnmatched
	s.ledger.events[rec.ID] = rec
	_, err := s.Replay(s.ctx, req)
	failed(t, err, control.CodeIDInUse, "")
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d replays are asked for", n)
	}
}
