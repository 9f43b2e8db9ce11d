package delivery_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/streams"
)

func whole() delivery.Delivery {
	at := time.Date(2026, 3, 4, 3, 14, 15, 123456789, time.UTC)
	return delivery.Delivery{
		EventID: "evt_01K2YXQ8N3M4P5Q6R7S8T9V0W1", EndpointID: "ep_01K2YXQ8N3M4P5Q6R7S8T9V0W2", Tenant: "ward-7",
		Type: "lab_result.critical", EventSeq: 42, Replay: "rpl_01K2YXQ8N3M4P5Q6R7S8T9V0W3", OwedAt: at,
		DeliverBy: at.Add(time.Minute), Attempts: 5, Spent: 2, Responded: true, Due: at.Add(time.Second),
		Wait: 2 * time.Second, HeldSince: at.Add(-time.Hour),
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Tracestate: "a=b",
		Event: []byte(`{"id":"x"}`),
	}
}

func TestADeliveryComesBackAsItWasSent(t *testing.T) {
	plain := whole()
	plain.Replay, plain.DeliverBy, plain.Due, plain.Wait, plain.HeldSince, plain.Traceparent, plain.Tracestate,
		plain.Responded = "", time.Time{}, time.Time{}, 0, time.Time{}, "", "", false
	for name, d := range map[string]delivery.Delivery{"with every field": whole(), "with only what is required": plain} {
		for _, m := range []*nats.Msg{d.First(4), d.Later(4)} {
			got, err := delivery.Parse(m.Header, m.Data)
			if err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("%s, on %s: %v\ngot  %+v\nwant %+v", name, m.Subject, err, got, d)
			}
		}
	}
}

func TestMessageIDs(t *testing.T) {
	d := whole()
	replay := d.First(1).Header.Get(nats.MsgIdHdr)
	retryOfReplay := d.Later(1).Header.Get(nats.MsgIdHdr)
	d.Replay = ""
	seen := map[string]bool{replay: true, retryOfReplay: true}
	for _, id := range []string{d.First(1).Header.Get(nats.MsgIdHdr), d.Later(1).Header.Get(nats.MsgIdHdr)} {
		if seen[id] {
			t.Errorf("id %s is used for two different messages", id)
		}
		seen[id] = true
	}
	if !seen["evt_01K2YXQ8N3M4P5Q6R7S8T9V0W1/ep_01K2YXQ8N3M4P5Q6R7S8T9V0W2"] {
		t.Errorf("a first delivery is not named <event>/<endpoint>: %v", seen)
	}
}

func TestForeignMessagesAreRefused(t *testing.T) {
	for name, breakIt := range map[string]func(nats.Header){
		streams.HeaderAttempts:  func(h nats.Header) { h.Set(streams.HeaderAttempts, "-1") },
		streams.HeaderEventSeq:  func(h nats.Header) { h.Del(streams.HeaderEventSeq) },
		streams.HeaderOwedAt:    func(h nats.Header) { h.Del(streams.HeaderOwedAt) },
		streams.HeaderDue:       func(h nats.Header) { h.Set(streams.HeaderDue, "tomorrow") },
		streams.HeaderDeliverBy: func(h nats.Header) { h.Set(streams.HeaderDeliverBy, "soon") },
		streams.HeaderEndpoint:  func(h nats.Header) { h.Set(streams.HeaderEndpoint, "ep_1") },
		"id":                    func(h nats.Header) { h.Set(streams.HeaderEvent, "a b") },
		"tenant":                func(h nats.Header) { h.Set(streams.HeaderTenant, "a.b") },
	} {
		m := whole().First(1)
		breakIt(m.Header)
		if _, err := delivery.Parse(m.Header, m.Data); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a broken %s gave %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("e", "ep_01K2YXQ8N3M4P5Q6R7S8T9V0W2", "t", "1", "2026-03-04T03:14:15Z", "1")
	f.Fuzz(func(t *testing.T, event, endpoint, tenant, seq, owed, attempts string) {
		h := nats.Header{}
		for name, v := range map[string]string{streams.HeaderEvent: event, streams.HeaderEndpoint: endpoint,
			streams.HeaderTenant:   tenant,
			streams.HeaderEventSeq: seq, streams.HeaderOwedAt: owed, streams.HeaderAttempts: attempts,
			streams.HeaderSpent: attempts} {
			h.Set(name, v)
		}
		d, err := delivery.Parse(h, nil)
		if err != nil {
			return
		}
		m := d.First(1)
		again, err := delivery.Parse(m.Header, m.Data)
		if err != nil || !again.OwedAt.Equal(d.OwedAt) || again.Attempts != d.Attempts || again.EventID != d.EventID {
			t.Errorf("accepted %+v, but read it back as %+v (%v)", d, again, err)
		}
	})
}
