package evidence

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/platform/text"
)

// cameIn says whether a record is about an event that came in.
func cameIn(k record.Kind) bool {
	return k == record.EventAccepted || k == record.EventUnmatched || k == record.EventRejected ||
		k == record.EventDuplicate
}

// Content is one of the contents that stand under the event's id.
type Content struct {
	Type, Digest string // of the data
	Seqs         []uint64
	Owed         int // deliveries that came to be owed of it
}

// Contents lists what stands under the event's id, in the order of the records:
// one content, unless something is wrong. What was rejected stands under none.
func (s *Story) Contents() []Content {
	var out []Content
	for _, e := range s.Event {
		if e.Kind != record.EventAccepted && e.Kind != record.EventUnmatched {
			continue
		}
		i := slices.IndexFunc(out, func(c Content) bool { return c.Type == e.EventType && c.Digest == e.DataDigest })
		if i < 0 {
			i = len(out)
			out = append(out, Content{Type: e.EventType, Digest: e.DataDigest})
		}
		out[i].Seqs = append(out[i].Seqs, e.EventSeq)
	}
	for _, d := range s.Deliveries {
		for _, o := range d.Owed {
			for i := range out {
				if slices.Contains(out[i].Seqs, o.EventSeq) {
					out[i].Owed++
				}
			}
		}
	}
	return out
}

// contradictions says in plain words what in these records cannot be as it should,
// whoever signed for them.
func (s *Story) contradictions() []string {
	contents := s.Contents()
	if len(contents) < 2 {
		return []string{}
	}
	var parts []string
	for _, c := range contents {
		parts = append(parts, fmt.Sprintf("one of type %s, whose data has SHA-256 %s, is %s and has %s", c.Type,
			or(c.Digest, "not on record"),
			numbers("number", c.Seqs)+" in EVENTS", text.Count(c.Owed, "delivery owed", "deliveries owed")))
	}
	return []string{"Different events stand under the id " + s.Subject.EventID + ", which is to be that of one: " +
		strings.Join(parts, "; ") +
		". Each attempt has the digest of the bytes that it sent; which of the events these were, only their payloads show."}
}
