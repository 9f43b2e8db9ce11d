package pipeline_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/registry"
)

// An address may be a bearer secret. The ledger says where each request went, and
// not how to send there, whatever the receiver says.
func TestNoSecretOfAnAddressGoesOnRecord(t *testing.T) {
	const segment, token = "q7Zr2LwX9vKp4TnB8sYd3HfM", "0123-4567-89ab"
	b := newBench(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("nobody is at " + segment + " with " + token))
	})
	b.endpoint(r, func(e *registry.Endpoint) { e.URL = r.URL + "/services/" + segment + "?token=" + token })
	b.fanout()
	b.dispatcher()
	b.publish("default", "evt-1", "order.paid", `1`)
	r.WaitFor(t, 1)
	b.ledger.WaitFor(t, 1, kind(record.DeliveryDeadLetter))
	seen := 0
	for _, rec := range b.ledger.WaitFor(t, 1, func(record.Record) bool { return true }) {
		body, err := rec.Encode()
		must(t, err)
		if text := string(body); strings.Contains(text, segment) || strings.Contains(text, token) {
			t.Errorf("on record: %s", text)
		}
		if rec.URL != "" {
			seen++
			if want := record.SafeURL(r.URL + "/services/" + segment); rec.URL != want ||
				!strings.Contains(want, "/services/~secret-") {
				t.Errorf("%s: %q, want %q", rec.Kind, rec.URL, want)
			}
		}
	}
	if seen < 3 {
		t.Errorf("%d records name the URL, want the endpoint's, the attempt's and the dead letter's", seen)
	}
}
