package streams_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// An EVENTS that an earlier version made, which took what producers published
// themselves, goes over with its messages and with fanout's place in it.
func TestAnEarlierStreamOfEventsGoesOver(t *testing.T) {
	s := testkit.BareNATS(t)
	js := s.JetStream()
	earlier := definition(t)
	delete(earlier, "subject_transform")
	earlier["subjects"] = []string{streams.EventSubjects}
	b, err := json.Marshal(earlier)
	must(t, err)
	var config jetstream.StreamConfig
	must(t, json.Unmarshal(b, &config))
	_, err = js.CreateStream(t.Context(), config)
	must(t, err)
	fanout, err := js.CreateConsumer(t.Context(), streams.Events, jetstream.ConsumerConfig{Durable: streams.FanoutConsumer,
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: streams.EventSubjects})
	must(t, err)
	subject := streams.EventSubject("acme", "order.paid")
	for _, id := range []string{"1", "2"} {
		_, err = js.Publish(t.Context(), subject, []byte(id), jetstream.WithMsgID(id))
		must(t, err)
	}
	m, err := fanout.Next()
	must(t, err)
	must(t, m.DoubleAck(t.Context()))

	if err := streams.Check(t.Context(), js, streams.Options{}); err == nil {
		t.Error("a stage starts on the earlier stream")
	}
	for range 2 {
		_, err = streams.Apply(t.Context(), js, streams.Options{})
		must(t, err)
	}
	must(t, streams.Check(t.Context(), js, streams.Options{}))
	if _, err := js.Publish(t.Context(), subject, []byte("past ingest")); err == nil {
		t.Error("EVENTS still takes what a producer publishes itself")
	}
	_, err = js.Publish(t.Context(), streams.IngestSubject(subject), []byte("3"))
	must(t, err)
	for seq, want := range map[uint64]string{1: "1", 2: "2", 3: "3"} {
		stream, err := js.Stream(t.Context(), streams.Events)
		must(t, err)
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil || m.Subject != subject || string(m.Data) != want {
			t.Errorf("EVENTS has %+v at %d (%v)", m, seq, err)
		}
	}
	fanout, err = js.Consumer(t.Context(), streams.Events, streams.FanoutConsumer)
	must(t, err)
	for _, want := range []string{"2", "3"} {
		m, err := fanout.Next()
		if err != nil || string(m.Data()) != want || m.Subject() != subject {
			t.Fatalf("fanout gets %v (%v), want %s", m, err, want)
		}
		must(t, m.DoubleAck(t.Context()))
	}
}

func definition(t *testing.T) map[string]any {
	t.Helper()
	b, err := os.ReadFile("events.json")
	must(t, err)
	var out map[string]any
	must(t, json.Unmarshal(b, &out))
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
