package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// ErrNotComparable says that there is nothing on record to compare with.
var ErrNotComparable = errors.New("no attempt on record has a digest to compare with")

// archived is a request body as it was kept, taken apart without changing a byte
// of what matters.
type archived struct {
	event   envelope.Event
	attempt int
}

func parseBody(body []byte) (archived, error) {
	var head struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		Timestamp string          `json:"timestamp"`
		Attempt   int             `json:"deliveryAttempt"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return archived{}, err
	}
	return archived{envelope.Event{ID: head.ID, Type: head.Type, RawTimestamp: head.Timestamp, Data: head.Data},
		head.Attempt}, nil
}

// ComparePayload compares a request's body, as an archive or a receiver kept it,
// with what is on record: the attempt that it is, and the others, which it must
// become when only deliveryAttempt is changed.
func (i *Integrity) ComparePayload(body []byte) error {
	if !i.comparable() {
		return ErrNotComparable
	}
	digest := envelope.DigestHex(body)
	a, parseErr := parseBody(body)
	var same, rebuilt, other []int64
	for n := range i.Rows {
		r := &i.Rows[n]
		switch {
		case r.PayloadDigest == "":
			r.Compared = "no digest on record"
		case r.PayloadDigest == digest:
			r.Compared = "the same bytes"
			same = append(same, r.Number)
		case parseErr == nil && r.PayloadDigest == envelope.DigestHex(a.event.AppendBody(nil, int(r.Number))):
			r.Compared = "the same but for deliveryAttempt"
			rebuilt = append(rebuilt, r.Number)
		default:
			r.Compared = "DIFFERS"
			other = append(other, r.Number)
		}
	}
	i.Altered = len(same) == 0 || len(other) > 0
	switch {
	case len(same) > 0 && len(other) == 0:
		i.Verdict = fmt.Sprintf("Not altered: the payload (SHA-256 %s) is, byte for byte, what was signed and sent as %s.",
			digest, numbers(same))
		if len(rebuilt) > 0 {
			i.Verdict += fmt.Sprintf(" With only deliveryAttempt changed it is what was sent as %s.", numbers(rebuilt))
		}
	case len(same) > 0:
		i.Verdict = fmt.Sprintf("The payload is what was sent as %s, but %s: other data was sent under this id.",
			numbers(same), numbers(other)+" differ")
	case len(rebuilt) > 0:
		i.Altered = len(other) > 0
		i.Verdict = fmt.Sprintf("No attempt sent exactly these bytes (SHA-256 %s), but with another deliveryAttempt they "+
			"are what was sent as %s: id, type, timestamp and data are not altered.", digest, numbers(rebuilt))
	default:
		i.Verdict = fmt.Sprintf("ALTERED, or of another event: no attempt on record has the digest of this payload "+
			"(SHA-256 %s).", digest)
		if parseErr == nil {
			i.Verdict += " " + dataVerdict(i.Rows, a.event.Data)
		} else {
			i.Verdict += " It is no JSON object either: " + parseErr.Error() + "."
		}
	}
	return nil
}

func dataVerdict(rows []Signed, data []byte) string {
	digest := envelope.DigestHex(data)
	if slices.ContainsFunc(rows, func(r Signed) bool { return r.DataDigest == digest }) {
		return "Its data is the data on record: what was changed is around it."
	}
	return "Its data is not the data on record either."
}

// CompareData compares an event's data, as the producer kept it, with the digest
// on record, and rebuilds every attempt's body from it.
func (i *Integrity) CompareData(data []byte) error {
	if !i.comparable() {
		return ErrNotComparable
	}
	digest := envelope.DigestHex(data)
	known := slices.ContainsFunc(i.Rows, func(r Signed) bool { return r.DataDigest == digest })
	var rebuilt, open []int64
	for n := range i.Rows {
		r := &i.Rows[n]
		switch {
		case r.DataDigest == "":
			r.Compared = "no digest of data on record"
		case r.DataDigest != digest:
			r.Compared = "DIFFERS"
		case r.PayloadDigest == "":
			r.Compared = "the same data; no digest of a body on record"
		case rebuild(*r, data):
			r.Compared = "the same data, in the signed bytes"
			rebuilt = append(rebuilt, r.Number)
		default:
			r.Compared = "the same data; the body could not be rebuilt"
			open = append(open, r.Number)
		}
	}
	i.Altered = !known
	if !known {
		i.Verdict = fmt.Sprintf("ALTERED, or of another event: the data on record has another digest (this one: SHA-256 "+
			"%s, %s).", digest, text.Count(len(data), "byte", "bytes"))
		if trimmed := strings.TrimSpace(string(data)); trimmed != string(data) &&
			slices.ContainsFunc(i.Rows, func(r Signed) bool { return r.DataDigest == envelope.DigestHex([]byte(trimmed)) }) {
			i.Verdict += " Without the white space around it, it is the data on record: give it without."
		}
		return nil
	}
	i.Verdict = fmt.Sprintf("Not altered: the data (SHA-256 %s) is what the event was accepted with.", digest)
	if len(rebuilt) > 0 {
		i.Verdict += fmt.Sprintf(" The bodies of %s, rebuilt from it, have the digests on record.", numbers(rebuilt))
	}
	if len(open) > 0 {
		i.Verdict += fmt.Sprintf(" The bodies of %s could not be rebuilt, because the record does not hold how the "+
			"producer wrote the timestamp: compare a payload.", numbers(open))
	}
	return nil
}

func (i *Integrity) comparable() bool {
	return slices.ContainsFunc(i.Rows, func(r Signed) bool { return r.PayloadDigest != "" || r.DataDigest != "" })
}

// rebuild tries the ways in which producers write a timestamp.
func rebuild(r Signed, data []byte) bool {
	if r.EventAt == nil {
		return false
	}
	e := envelope.Event{ID: r.EventID, Type: r.EventType, Data: data}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.000Z07:00", "2006-01-02T15:04:05.000000Z07:00",
		"2006-01-02T15:04:05.000000000Z07:00",
		"2006-01-02T15:04:05.000-07:00", "2006-01-02T15:04:05-07:00", "2006-01-02T15:04:05.000000-07:00"} {
		e.RawTimestamp = r.EventAt.UTC().Format(layout)
		if envelope.DigestHex(e.AppendBody(nil, int(r.Number))) == r.PayloadDigest {
			return true
		}
	}
	return false
}

// numbers says "attempt 1" or "attempts 1, 2 and 5".
func numbers(list []int64) string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = fmt.Sprint(n)
	}
	if len(words) == 1 {
		return "attempt " + words[0]
	}
	return "attempts " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}
