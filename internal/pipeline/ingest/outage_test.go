package ingest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/streams"
)

func (a answer) unavailable(t *testing.T, code string) problemDoc {
	t.Helper()
	p := a.problem(t, http.StatusServiceUnavailable, code)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("503 without Retry-After: %s", a.body)
	}
	if !strings.Contains(p.Detail, "same id") {
		t.Errorf("the problem does not say to publish with the same id: %s", p.Detail)
	}
	return p
}

// reconnected waits until a connection is back.
func reconnected(t *testing.T, nc *nats.Conn) {
	t.Helper()
	status := nc.StatusChanged(nats.CONNECTED)
	if nc.Status() == nats.CONNECTED {
		return
	}
	select {
	case <-status:
	case <-time.After(30 * time.Second):
		t.Fatal("no reconnect")
	}
}

func disconnected(t *testing.T, nc *nats.Conn) {
	t.Helper()
	status := nc.StatusChanged(nats.RECONNECTING)
	if nc.Status() == nats.RECONNECTING {
		return
	}
	select {
	case <-status:
	case <-time.After(30 * time.Second):
		t.Fatal("still connected")
	}
}

func TestWithNATSAwayTheProducerIsToldAndThenServedAgain(t *testing.T) {
	s := start(t, nil)
	s.nats.Kill()
	disconnected(t, s.nc)
	if p := s.post(event("away", "t", "1")).unavailable(t, "unavailable"); p.EventID != "away" {
		t.Errorf("the problem is %+v", p)
	}
	batch := s.post(`{"events":[`+event("away", "t", "1")+`,{}]}`).unavailable(t, "unavailable")
	if batch.Results[0].Status != 503 || batch.Results[1].Status != 422 {
		t.Errorf("results %+v", batch.Results)
	}
	s.nats.Restart()
	reconnected(t, s.nc)
	if got := s.post(event("away", "t", "1")).accepted(t, 202); got.Seq != 1 {
		t.Errorf("answered %+v: what was refused was sent all the same", got)
	}
}

// A stalled server may have stored what it did not acknowledge: publishing
// again under the same id settles it.
func TestAnEventWithoutAcknowledgementIsRecognisedWhenItIsPublishedAgain(t *testing.T) {
	s := start(t, func(o *ingest.Options) { o.AckTimeout = 300 * time.Millisecond })
	s.nats.Freeze()
	p := s.post(`{"type":"t","timestamp":"2026-08-19T14:32:07Z","data":1}`).unavailable(t, "unavailable")
	s.nats.Thaw()
	if p.EventID == "" {
		t.Fatal("the id that was assigned is not told")
	}
	again := fmt.Sprintf(`{"id":%q,"type":"t","timestamp":"2026-08-19T14:32:07Z","data":1}`, p.EventID)
	// A flush is a round trip behind the first publish, which the thawed server has then stored.
	if err := s.nc.FlushTimeout(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	// What a busy machine does not acknowledge within that time either is published once more.
	answered := s.post(again)
	for deadline := time.Now().Add(time.Minute); answered.status == http.StatusServiceUnavailable &&
		time.Now().Before(deadline); {
		answered = s.post(again)
	}
	if got := answered.accepted(t, 200); !got.Duplicate || got.Seq != 1 {
		t.Errorf("answered %+v, want a duplicate of 1", got)
	}
}

func TestAFullStreamRefusesAndTakesAgainOnceThereIsRoom(t *testing.T) {
	s := start(t, nil)
	js := s.nats.JetStream()
	ctx := context.Background()
	limit := func(bytes int64) {
		stream, err := js.Stream(ctx, streams.Events)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxBytes = bytes
		if _, err := js.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
	}
	limit(20_000)
	data := `"` + strings.Repeat("x", 5000) + `"`
	stored, full := 0, 0
	for i := range 6 {
		switch a := s.post(event(fmt.Sprintf("f-%d", i), "t", data)); a.status {
		case 202:
			stored++
		default:
			a.unavailable(t, "full")
			full++
		}
	}
	if stored == 0 || full == 0 || s.count() != uint64(stored) {
		t.Fatalf("%d answered as stored, %d refused, EVENTS holds %d", stored, full, s.count())
	}
	limit(-1)
	s.post(event("f-5", "t", data)).accepted(t, 202)
	s.post(event("f-0", "t", data)).accepted(t, 200)
}

func TestWithoutTheStreamTheProducerIsTold(t *testing.T) {
	s := start(t, nil)
	if err := s.nats.JetStream().DeleteStream(context.Background(), streams.Events); err != nil {
		t.Fatal(err)
	}
	s.post(event("x", "t", "1")).unavailable(t, "unavailable")
}

func TestAnEventInTheWrongStreamIsNotAnswered202(t *testing.T) {
	s := start(t, nil)
	js, ctx := s.nats.JetStream(), context.Background()
	if err := js.DeleteStream(ctx, streams.Events); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "OTHER",
		Subjects: []string{streams.IngestSubject(streams.EventSubjects)}}); err != nil {
		t.Fatal(err)
	}
	p := s.post(event("x", "t", "1")).problem(t, 503, "unavailable")
	if !strings.Contains(p.Detail, "OTHER") {
		t.Errorf("the problem does not name the stream: %s", p.Detail)
	}
}

func TestMoreThanMemoryHoldsIsRefusedAndOthersAreServed(t *testing.T) {
	s := start(t, func(o *ingest.Options) { o.MaxBuffered = 1000 })
	s.post(event("big", "t", `"`+strings.Repeat("x", 2000)+`"`)).unavailable(t, "overloaded")
	s.post(event("small", "t", "1")).accepted(t, 202)
}
