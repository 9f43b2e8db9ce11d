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
func (d *Dispatcher) header(task delivery.Delivery, p prospect, keys []envelope.Key, at time.Time, body []byte) (http.Header, error) {
	h := make(http.Header, 8+len(p.opened.Header))
	maps.Copy(h, p.opened.Header) // the values are shared: only ever replaced whole
	if err := envelope.SetHeaders(h, keys, p.endpoint.SignatureHeader, task.EventID, at, body); err != nil {
		return nil, err
	}
	h.Set("User-Agent", d.o.Software)
	if task.Traceparent != "" {
		h.Set("Traceparent", task.Traceparent)
	}
	if task.Tracestate != "" {
		h.Set("Tracestate", task.Tracestate)
	}
	return h, nil
}
