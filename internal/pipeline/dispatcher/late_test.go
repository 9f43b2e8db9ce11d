package dispatcher

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt/webhook"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// A request that nobody expects any more, because its claim took so long, could
// outlast its lease and its deadline.
func TestAnAttemptThatTookTooLongToClaimMakesNoRequest(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	allow, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	d := &Dispatcher{destinations: attempt.Destinations{"http": webhook.NewClient(webhook.Options{Egress: allow})},
		clock: stage.NewClock(nil, "", nil, zerolog.Nop())}
	r := attempt.Request{URL: server.URL, Body: []byte("{}"), Timeout: 10 * time.Second}
	late := d.try(t.Context(), claim{began: time.Now().Add(-claimBound - time.Millisecond)}, r)
	if late.Outcome != outcome.NotSent || late.Class != outcome.ClassRetryable || late.StartedAt.IsZero() ||
		requests.Load() != 0 {
		t.Errorf("got %+v after %d requests", late, requests.Load())
	}
	if made := d.try(t.Context(), claim{began: time.Now()}, r); made.Outcome != outcome.Delivered || requests.Load() != 1 {
		t.Errorf("got %+v after %d requests", made, requests.Load())
	}
}
