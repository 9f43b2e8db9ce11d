package ledgersink

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/record"
)

// quality is how well a message could be read.
type quality int

const (
	valid quality = iota
	// newer: a record of a newer format, read as far as it is understood. During
	// an upgrade other stages may be ahead of the sink.
	newer
	// invalid: no record.
	invalid
)

// read gives the record that a message holds. What is no record becomes one of
// kind "invalid" that keeps the message as it came: the ledger holds everything
// that was in the stream, and nothing in the stream can stop the sink. Its id
// follows from where the message is, when it was stored there and what it says.
func read(subject string, data []byte, seq uint64, storedAt time.Time) (record.Record, quality) {
	r, err := record.Decode(data)
	if err == nil {
		return r, valid
	}
	if r.Version > record.Version && r.ID != "" && r.Kind != "" && !r.At.IsZero() && r.Tenant != "" {
		return r, newer
	}
	sum := sha256.Sum256(data)
	return record.Record{
		ID:     fmt.Sprintf("%s/%d-%d/%s", ledger.KindInvalid, seq, storedAt.UnixNano(), hex.EncodeToString(sum[:8])),
		Kind:   ledger.KindInvalid,
		At:     storedAt.UTC(),
		Tenant: subject[strings.LastIndexByte(subject, '.')+1:],
		Reason: "not_a_record",
	}, invalid
}
