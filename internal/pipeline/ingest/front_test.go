package ingest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

const patience = 2 * time.Minute

// producer publishes as a client of JetStream does.
type producer struct {
	*system
	js jetstream.JetStream
}

// listen starts ingest with its front.
func listen(t testing.TB, change func(*ingest.Options)) *producer {
	t.Helper()
	s := start(t, change)
	s.running = testkit.Start(t, s.stage.Run)
	s.await()
	return &producer{s, s.nats.JetStream()}
}

func (s *system) await() {
	s.t.Helper()
	select {
	case <-s.stage.Listening():
	case <-time.After(patience):
		s.t.Fatal("ingest does not listen")
	}
}

// message has headers by name, then value.
func message(subject, body string, headers ...string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = append(m.Header[headers[i]], headers[i+1])
	}
	return m
}

func (p *producer) stores(m *nats.Msg) *jetstream.PubAck {
	p.t.Helper()
	ack, err := p.js.PublishMsg(p.t.Context(), m)
	if err != nil {
		p.t.Fatalf("%s: %v", m.Subject, err)
	}
	return ack
}

// refuses wants an answer that a client of JetStream reads as an error.
func (p *producer) refuses(m *nats.Msg, reason string) {
	p.t.Helper()
	_, err := p.js.PublishMsg(p.t.Context(), m)
	var api *jetstream.APIError
	if !errors.As(err, &api) || uint16(api.ErrorCode) != ingest.ErrCodes[outcome.Reason(reason)] ||
		!strings.HasPrefix(api.Description, reason+": ") {
		p.t.Errorf("%s: answered %v, want %s", m.Subject, err, reason)
	}
}

func TestAnEventOverNATSIsStoredAsOneOverHTTPIs(t *testing.T) {
	p := listen(t, nil)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	body := ` {"data": {"n": 1.10} , "type":"payment.captured","timestamp":"2026-08-19T14:32:07.421+02:00","id":"pay:17/a"}`
	first := p.stores(message("events.acme.payment.captured", body, "Nats-Msg-Id", "pay:17/a", "traceparent", parent,
		"tracestate", "a=b", "tracestate", "c=d", "X-Mine", "1", "Nats-Expected-Stream", "EVENTS"))
	if first.Stream != streams.Events || first.Sequence != 1 || first.Duplicate {
		t.Errorf("answered %+v", first)
	}
	subject, header, stored := p.stored(1)
	for _, of := range []string{"Stream", "Subject", "Sequence", "Time-Stamp"} { // what reading adds
		header.Del("Nats-" + of)
	}
	want := nats.Header{"Nats-Msg-Id": {"acme/pay:17/a"}, "traceparent": {parent}, "tracestate": {"a=b,c=d"}}
	if subject != "events.acme.payment.captured" || stored != body || fmt.Sprint(header) != fmt.Sprint(want) {
		t.Errorf("stored %s %s with %v", subject, stored, header)
	}
	// Whichever way it comes again, it is the same event.
	if again := p.stores(message("events.acme.payment.captured", body)); !again.Duplicate || again.Sequence != 1 {
		t.Errorf("answered %+v", again)
	}
	if again := p.send("POST", ingest.Path+"?tenant=acme", "application/json", body).accepted(t, 200); again.Seq != 1 {
		t.Errorf("answered %+v", again)
	}
	p.refuses(message("events.acme.payment.captured", strings.Replace(body, "1.10", "1.1", 1)), "id_in_use")
	// Another tenant's id is another id.
	if other := p.stores(message("events.globex.payment.captured", body, "Nats-Msg-Id", "pay:17/a")); other.Duplicate {
		t.Errorf("answered %+v", other)
	}
}

// Trace context that cannot be passed on is dropped, and the event delivered.
func TestPoisonedHeadersOverNATSAreDropped(t *testing.T) {
	p := listen(t, nil)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for i, c := range []struct{ parent, state, wantParent string }{
		{parent, "a\x01b", parent}, {parent, "a=b\x7f", parent}, {parent, "a=" + strings.Repeat("x", 60_000), parent},
		{"x\x7fy", "a=b", ""}, {parent + "\u009b", "", ""}, {"", "a=b", ""},
	} {
		m := message("events.default.a", event(fmt.Sprint(i), "a", "1"), "traceparent", c.parent, "tracestate", c.state)
		ack := p.stores(m)
		_, header, _ := p.stored(ack.Sequence)
		if header.Get("traceparent") != c.wantParent || header.Get("tracestate") != "" {
			t.Errorf("%q %.80q: stored with %.200q", c.parent, c.state, header)
		}
	}
	// Header lines that no client can read: the event counts.
	raw := "NATS/1.0\r\nno colon\r\n\r\n"
	body := event("raw", "a", "1")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.nats.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB events.default.a %d "+
		"%d\r\n%s%s\r\nPING\r\n", len(raw), len(raw)+len(body), raw, body); err != nil {
		t.Fatal(err)
	}
	p.eventually(func() bool { return p.messages() == 7 })
	if _, header, stored := p.stored(7); stored != body || header.Get(streams.HeaderNoMsgID) == "" {
		t.Errorf("stored %s with %v", stored, header)
	}
}

func TestWhatAMessageLeavesOutIsAssigned(t *testing.T) {
	p := listen(t, nil)
	p.stores(message("events.default.a", `{"type":"a","data":1}`, "Nats-Msg-Id", "mine"))
	if again := p.stores(message("events.default.a", `{"type":"a","data":1}`, "Nats-Msg-Id", "mine")); !again.Duplicate {
		t.Error("the same event, published again, is stored twice")
	}
	m, err := p.nc.RequestMsg(message("events.default.a", `{"type":"a","data":1}`), patience)
	if err != nil {
		t.Fatal(err)
	}
	var got ingest.Answer
	if err := json.Unmarshal(m.Data, &got); err != nil || !strings.HasPrefix(got.ID, "evt_") {
		t.Fatalf("answered %s (%v)", m.Data, err)
	}
	if _, header, body := p.stored(1); !strings.HasPrefix(body, `{"id":"mine",`) ||
		header.Get(streams.HeaderNoMsgID) != "" {
		t.Errorf("stored %s with %v", body, header)
	}
	if _, header, body := p.stored(2); !strings.HasPrefix(body, `{"id":"`+got.ID+`",`) ||
		header.Get(streams.HeaderNoMsgID) == "" {
		t.Errorf("stored %s with %v", body, header)
	}
}

// Each is refused at once, is stored for the record once, and holds no id.
func TestARefusedMessageIsAnsweredAndKeptForTheRecord(t *testing.T) {
	p := listen(t, nil)
	good := event("x", "a.b", "1")
	large := event("x", "a.b", `"`+strings.Repeat("x", envelope.MaxEventBytes)+`"`)
	cases := []struct {
		m      *nats.Msg
		reason string
	}{
		{message("events.default.a.b", `not json`, "Nats-Msg-Id", "x"), "invalid_event"},
		{message("events.default.a.b", `{"id":"x","type":"a.b","timestamp":"2026-08-19T15:10:00Z"}`, "Nats-Msg-Id", "x"),
			"invalid_event"},
		{message("events.default.a.b", large, "Nats-Msg-Id", "x"), "payload_too_large"},
		{message("events.default.a.c", good, "Nats-Msg-Id", "x"), "subject_mismatch"},
		{message("events.default", good, "Nats-Msg-Id", "x"), "subject_mismatch"},
		{message("events.no tenant!.a.b", good, "Nats-Msg-Id", "x"), "subject_mismatch"},
		{message("events.default."+strings.Repeat("a", 3000), good, "Nats-Msg-Id", "x"), "subject_mismatch"},
		{message("events.default.a.b", good, "Nats-Msg-Id", "y"), "id_mismatch"},
		{message("events.default.a.b", `{"type":"a.b","data":1}`, "Nats-Msg-Id", "no id"), "id_mismatch"},
		{message("events.default.a.b", good, "Nats-Msg-Id", "x", "Waybill-Only-Endpoint", "ep_1"), "unsupported_header"},
		{message("events.default.a.b", good, "Nats-Msg-Id", "x", "Nats-Expected-Last-Sequence", "0"), "unsupported_header"},
		{message("events.default.a.b", good, "Nats-Msg-Id", "x", "Nats-Expected-Stream", "OTHER"), "unsupported_header"},
		{message("events.default.a.b", strings.Repeat("x", 1<<20-500), "Nats-Msg-Id", "x", "Nats-Rollup", "all"),
			"unsupported_header"},
	}
	for i, c := range cases {
		c.m.Subject = strings.ReplaceAll(c.m.Subject, " ", "_")
		for range 2 {
			p.refuses(c.m, c.reason)
		}
		if n := p.messages(); n != uint64(i+1) {
			t.Fatalf("%s: EVENTS holds %d messages, want %d", c.reason, n, i+1)
		}
		if got := p.refused()[i]; !strings.HasSuffix(got, c.reason) {
			t.Errorf("kept %s, want %s", got, c.reason)
		}
	}
	if ack := p.stores(message("events.default.a.b", good, "Nats-Msg-Id", "x")); ack.Duplicate {
		t.Error("a refused event holds its id: the mended one is swallowed")
	}
}

func TestAProducerWithoutReplyIsHeardToo(t *testing.T) {
	p := listen(t, nil)
	for _, m := range []*nats.Msg{message("events.default.a", event("core", "a", "1")),
		message("events.default.a", "broken", "Nats-Msg-Id", "lost")} {
		if err := p.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	p.stores(message("events.default.a", event("last", "a", "1")))
	p.eventually(func() bool { return p.messages() == 3 })
	if _, _, body := p.stored(1); !strings.Contains(body, `"core"`) {
		t.Errorf("stored %s", body)
	}
	if got := p.refused(); len(got) != 1 || got[0] != "events.default.a lost invalid_event" {
		t.Errorf("kept for the record: %v", got)
	}
}

// eventually waits for something that is on its way.
func (s *system) eventually(cond func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !cond(); {
		if time.Now().After(deadline) {
			s.t.Fatal("it did not come about")
		}
	}
}

// Whoever chooses where an answer goes would write there with our permissions.
func TestAnAnswerNeverGoesWhereAStreamListens(t *testing.T) {
	p := listen(t, nil)
	ctx := t.Context()
	if _, err := p.js.CreateStream(ctx, jetstream.StreamConfig{Name: "VICTIM",
		Subjects: []string{"victim.>"}}); err != nil {
		t.Fatal(err)
	}
	for i, reply := range []string{"victim.a", streams.LedgerSubject("event.accepted", "default"),
		"$JS.API.STREAM.DELETE.VICTIM",
		"$KV." + streams.LeasesBucket + ".x", streams.IngestSubject(streams.EventSubject("default", "a"))} {
		m := message("events.default.a", event(fmt.Sprint(i), "a", "1"))
		m.Reply = reply
		if err := p.nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually(func() bool { return p.messages() >= 5 })
	p.running.Stop(t) // everything in hand is done
	if n := p.messages(); n != 5 {
		t.Errorf("EVENTS holds %d messages, want 5", n)
	}
	for _, name := range []string{"VICTIM", streams.Ledger, "KV_" + streams.LeasesBucket} {
		stream, err := p.js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%s holds %d messages", name, n)
		}
	}
}

func TestWithoutIngestNobodyResponds(t *testing.T) {
	p := listen(t, nil)
	p.running.Stop(t)
	if _, err := p.js.PublishMsg(t.Context(), message("events.default.a", event("x", "a", "1")),
		jetstream.WithRetryAttempts(0)); !errors.Is(err, jetstream.ErrNoStreamResponse) {
		t.Errorf("answered %v", err)
	}
}

// A stop answers what has arrived, and nothing is answered that is not stored.
func TestAStopAnswersWhatIsInHand(t *testing.T) {
	p := listen(t, nil)
	js, err := jetstream.New(p.nats.Connect(), jetstream.WithPublishAsyncMaxPending(5000))
	if err != nil {
		t.Fatal(err)
	}
	var futures []jetstream.PubAckFuture
	for i := range 3000 {
		f, err := js.PublishMsgAsync(message("events.default.a", event(fmt.Sprint(i), "a", "1")),
			jetstream.WithRetryAttempts(0))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	select {
	case <-futures[0].Ok():
	case err := <-futures[0].Err():
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("no answer")
	}
	p.running.Stop(t)
	stored := uint64(1)
	for _, f := range futures[1:] {
		select {
		case <-f.Ok():
			stored++
		case err := <-f.Err():
			if !errors.Is(err, jetstream.ErrNoStreamResponse) && !errors.Is(err, nats.ErrNoResponders) {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("no answer")
		}
	}
	if n := p.messages(); n != stored {
		t.Errorf("EVENTS holds %d messages, %d were acknowledged", n, stored)
	}
}

// What is over the bounds is dropped, counted and never acknowledged.
func TestWhatIsDroppedIsCountedAndNotAcknowledged(t *testing.T) {
	p := listen(t, func(o *ingest.Options) { o.MaxPending = 4000 }) // one message in hand, one that waits
	answers, err := p.nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	const sent = 1000
	nc := p.nats.Connect()
	for i := range sent {
		m := message("events.default.a", event(fmt.Sprint(i), "a", `"`+strings.Repeat("x", 3000)+`"`))
		m.Reply = answers.Subject
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	p.eventually(func() bool { return p.messages()+p.dropped() == sent })
	p.running.Stop(t)
	if n := p.messages(); n == sent {
		t.Error("nothing was dropped, so this shows nothing")
	}
	for range p.messages() {
		m, err := answers.NextMsg(patience)
		if err != nil || !strings.Contains(string(m.Data), `"stream":"EVENTS"`) {
			t.Fatalf("answered %s (%v)", m.Data, err)
		}
	}
	if err := p.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := answers.Pending(); err != nil || n != 0 {
		t.Errorf("%d more were answered than are stored (%v)", n, err)
	}
}

func (p *producer) dropped() uint64 {
	families, err := p.metrics.Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "waybill_ingest_dropped_total" {
			return uint64(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	p.t.Fatal("dropped messages are not counted")
	return 0
}
