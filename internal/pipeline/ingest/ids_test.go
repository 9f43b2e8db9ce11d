package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/events/eventids"
	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// TestAnIDIsKnownThatTheStreamHasForgotten: the first was stored under no message
// id, as one is that EVENTS no longer remembers.
func TestAnIDIsKnownThatTheStreamHasForgotten(t *testing.T) {
	t.Parallel()
	var ids *eventids.Index
	s := start(t, func(o *ingest.Options) {
		var err error
		if ids, err = eventids.New(o.NC, zerolog.Nop()); err != nil {
			t.Fatal(err)
		}
		o.IDs = ids
	})
	testkit.Start(t, ids.Run)
	event := func(data int) string {
		return fmt.Sprintf(`{"id":"x","type":"a.b","timestamp":"2026-08-19T14:32:07Z","data":%d}`, data)
	}
	js := s.nats.JetStream()
	ack, err := js.Publish(t.Context(), streams.IngestSubject(streams.EventSubject("default", "a.b")), []byte(event(1)))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), streams.Events)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetMsg(t.Context(), ack.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := ids.Reach(ctx, ack.Sequence, m.Time); err != nil {
		t.Fatal(err)
	}
	if got := s.post(event(1)); got.status != 200 ||
		!strings.Contains(string(got.body), fmt.Sprintf(`"duplicate":true,"seq":%d`, ack.Sequence)) {
		t.Errorf("the same event: %d %s", got.status, got.body)
	}
	if got := s.post(event(2)); got.status != 409 || !strings.Contains(string(got.body), "id_in_use") {
		t.Errorf("another event: %d %s", got.status, got.body)
	}
	if got := s.post(event(2), "Waybill-Tenant", "other"); got.status != 202 {
		t.Errorf("another tenant's event: %d %s", got.status, got.body)
	}
	if got := s.post(`{"id":"x","type":"a.b","data":1}`); got.status != 200 {
		t.Errorf("the same without a timestamp: %d %s", got.status, got.body)
	}
}
