package dispatcher

import (
	"maps"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// header is everything that the request carries beside its body. What the
// endpoint adds comes first, so that it can never stand in for the envelope's.
func (d *Dispatcher) header(delivery delivery.Delivery, t terms, keys []envelope.Key, at time.Time,
	body []byte) (http.Header, error) {
	h := make(http.Header, 8+len(t.opened.Header))
	maps.Copy(h, t.opened.Header) // the values are shared: only ever replaced whole
	if err := envelope.SetHeaders(h, keys, t.endpoint.SignatureHeader, delivery.EventID, at, body); err != nil {
		return nil, err
	}
	h.Set("User-Agent", d.o.Software)
	if delivery.Traceparent != "" {
		h.Set("Traceparent", delivery.Traceparent)
	}
	if delivery.Tracestate != "" {
		h.Set("Tracestate", delivery.Tracestate)
	}
	return h, nil
}
