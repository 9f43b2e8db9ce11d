package ingest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/pipeline/ingest"
	"github.com/waybill-dev/waybill/streams"
)

func TestIngestIsNotReadyWithoutItsStream(t *testing.T) {
	p := listen(t, nil)
	if err := p.stage.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.js.DeleteStream(t.Context(), streams.Events); err != nil {
		t.Fatal(err)
	}
	if err := p.stage.Ready(t.Context()); err == nil {
		t.Error("ready, although nothing can be stored")
	}
	_, err := p.js.PublishMsg(t.Context(), message("events.default.a", event("x", "a", "1")))
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.Code != 503 || uint16(api.ErrorCode) != ingest.ErrCodes["unavailable"] {
		t.Errorf("answered %v", err)
	}
}

// After a restart of the server the same ingest goes on.
func TestIngestListensAgainAfterTheServersRestart(t *testing.T) {
	p := listen(t, nil)
	p.stores(message("events.default.a", event("1", "a", "1")))
	p.nats.Kill()
	p.nats.Restart()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := p.js.PublishMsg(ctx, message("events.default.a", event("2", "a", "1")))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if n := p.count(); n != 2 {
		t.Errorf("EVENTS holds %d events", n)
	}
}
