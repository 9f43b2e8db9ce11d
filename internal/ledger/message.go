package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// Quality is how well a message of LEDGER could be read.
type Quality int

const (
	Valid Quality = iota
	// Newer is a record of a newer format, read as far as it is understood.
	// During an upgrade other stages may be ahead of the sink.
	Newer
	// Invalid is no record.
	Invalid
)

// ReadMessage gives the record that a message holds. What is no record becomes one of
// kind "invalid" that keeps the message as it came: the ledger holds everything
// that was in the stream, and nothing in the stream can stop the sink. Its id
// follows from where the message is, when it was stored there and what it says;
// its tenant is that of the subject.
func ReadMessage(tenant string, data []byte, seq uint64, storedAt time.Time) (record.Record, Quality) {
	r, err := record.Decode(data)
	if err == nil {
		return r, Valid
	}
	if r.Version > record.Version && r.ID != "" && r.Kind != "" && !r.At.IsZero() && r.Tenant != "" {
		return r, Newer
	}
	sum := sha256.Sum256(data)
	return record.Record{
		ID:     fmt.Sprintf("%s/%d-%d/%s", KindInvalid, seq, storedAt.UnixNano(), hex.EncodeToString(sum[:8])),
		Kind:   KindInvalid,
		At:     storedAt.UTC(),
		Tenant: tenant,
		Reason: "not_a_record",
	}, Invalid
}
