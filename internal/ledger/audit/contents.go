package audit

import (
	"errors"

	"github.com/waybill-dev/waybill/internal/platform/text"
)

// TwoContents is a Mismatch: different events stand under one id of a tenant.
// Receivers take an id for one event.
const TwoContents = "two_contents"

// ErrTwoContents ends an audit that met an id with two contents.
var ErrTwoContents = errors.New("different events stand under one id; see what was sent: waybill event show EVENT")

// ErrDisagrees ends an audit of payloads whose digests do not agree.
var ErrDisagrees = errors.New("digests of one attempt, or of one event, do not agree; see: waybill event show " +
	"EVENT, waybill audit attempts EVENT")

// otherData warns of deliveries of an id with two contents.
func (t RepetitionTotals) otherData() string {
	return text.Count(t.OtherData, "delivery", "deliveries") +
		": different events stand under one id. Receivers may know either; see which was sent: waybill event show EVENT."
}
