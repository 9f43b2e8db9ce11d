package pipeline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/fanout"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// A second content under an id reaches nobody, and everybody who should know is
// told: its producer, whoever listens, the record, people.
func TestASecondContentUnderAnIDIsRejectedOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	announced, err := b.server.Connect().SubscribeSync(streams.RejectedSubject("default"))
	must(t, err)
	b.publish("default", "same", "order.paid", `{"a":1}`)
	const second = `{"id":"same","type":"order.paid","timestamp":"2026-08-19T15:10:00.000Z","data":{"a":2}}`
	// Also without the header, and again.
	for range 2 {
		if _, err := b.tryPublish("events.default.order.paid", "", second); err == nil ||
			!strings.Contains(err.Error(), "id_in_use") {
			t.Errorf("its producer is told %v", err)
		}
	}
	rejected := b.ledger.WaitFor(t, 1, kind(record.EventRejected))[0]
	digest := envelope.DigestHex([]byte(`{"a":2}`))
	if rejected.Reason != "id_in_use" || rejected.EventID != "same" || rejected.DataDigest != digest ||
		rejected.EventType != "order.paid" {
		t.Errorf("on record: %+v", rejected)
	}
	if d := b.asked(rejected.ID); d.Reason != "id_in_use" {
		t.Errorf("people are told %+v", d)
	}
	m, err := announced.NextMsg(patience)
	must(t, err)
	var got fanout.Rejection
	must(t, json.Unmarshal(m.Data, &got))
	want := fanout.Rejection{ID: "same", Tenant: "default", Type: "order.paid", Reason: "id_in_use",
		Detail: rejected.Detail, Field: "id",
		Digest: digest, Seq: rejected.EventSeq, Subject: "events.default.order.paid"}
	if got != want {
		t.Errorf("announced %+v, want %+v", got, want)
	}
	b.ledger.WaitFor(t, 1, ended)
	if calls := r.Got(); len(calls) != 1 || !strings.Contains(string(calls[0].body), `{"a":1}`) {
		t.Errorf("the receiver got %d requests", len(calls))
	}
	if n := len(b.ledger.Where(kind(record.EventRejected))); n != 1 {
		t.Errorf("%d rejections on record, want 1", n)
	}
}

// What an earlier version let into EVENTS, unlooked at, is there for 30 days.
func TestPoisonedHeadersInTheStreamReachNoReceiver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := newReceiver(t, ok)
	b.endpoint(r)
	b.fanout()
	b.dispatcher()
	states := []string{"a\x01b", "a=" + strings.Repeat("x", 60_000)}
	for i, state := range states {
		id := string(rune('a' + i))
		_, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: streams.IngestSubject("events.default.a"),
			Header: nats.Header{
				jetstream.MsgIDHeader: {id}, "traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
				"tracestate": {state}},
			Data: []byte(`{"id":"` + id + `","type":"a","timestamp":"2026-08-19T15:10:00Z","data":1}`)})
		must(t, err)
	}
	for _, q := range r.WaitFor(t, len(states)) {
		if q.header.Get("Traceparent") == "" || q.header.Get("Tracestate") != "" {
			t.Errorf("%s came with %.200q", q.id, q.header)
		}
	}
}
