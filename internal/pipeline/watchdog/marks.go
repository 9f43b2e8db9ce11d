package watchdog

import (
	"time"
)

const (
	// marksKept bounds what is remembered of a stream: so many moments, spread
	// over the time that it keeps its messages.
	marksKept = 64
	// ageSlack is how much earlier than promised a message may go: the server
	// removes what is old when it gets to it, by its own clock.
	ageSlack = time.Minute
)

// mark says that a stream ended at Seq at a time.
type mark struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"` // when message Seq was stored
}

// history is what was seen of one stream. It is kept in the bucket of statuses:
// a watchdog that starts knows what was there before.
type history struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"` // the highest end that was seen
	First   mark      `json:"first"`
	Marks   []mark    `json:"marks"`
	// What was found stays for as long as people need to see it.
	Removed   uint64    `json:"removed,omitempty"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
	RewoundAt time.Time `json:"rewound_at,omitzero"`
}

// keepFinding is how long something that happened once is a finding.
const keepFinding = 10 * time.Minute

// recall completes what was seen of the streams with what was seen of them
// before, and returns what to remember. Whoever calls it has read marks before
// the streams were looked at.
func (s *Snapshot) recall(marks map[string]history) map[string]history {
	next := map[string]history{}
	for i, st := range s.Streams {
		trimmable := max(st.First, 1)
		if s.Sink.Known {
			trimmable = s.Sink.Stored
		}
		s.Streams[i], next[st.Name] = marks[st.Name].compare(st, trimmable, s.At)
	}
	return next
}

// compare completes what was seen of a stream with what was seen before, and
// returns what to remember. stored is the sequence up to which it may have been
// trimmed; it counts for LEDGER alone, where nothing goes by age.
func (h history) compare(s Stream, stored uint64, now time.Time) (Stream, history) {
	if s.Missing {
		return s, h
	}
	if !h.Created.IsZero() && (!h.Created.Equal(s.Created) || s.Last < h.Last) {
		h = history{RewoundAt: now}
	}
	h.Created = s.Created
	if early := h.removed(s, stored, now); early > 0 {
		h.Removed, h.RemovedAt = early, now
		h.Marks, h.First = nil, mark{} // said once
	}
	h.Last, h.First = s.Last, mark{s.First, s.FirstAt}
	h.remember(s, now)
	s.Rewound = !h.RewoundAt.IsZero() && now.Sub(h.RewoundAt) < keepFinding
	if now.Sub(h.RemovedAt) < keepFinding {
		s.Removed = h.Removed
	}
	return s, h
}

// removed counts the messages that are gone and must not be.
func (h history) removed(s Stream, stored uint64, now time.Time) uint64 {
	if s.MaxAge == 0 { // only what ClickHouse has may go
		if len(h.Marks) > 0 && s.First > stored+1 {
			return s.First - stored - 1
		}
		return 0
	}
	early := uint64(0)
	if f := h.First; f.Seq > 0 && s.First > f.Seq && now.Before(f.At.Add(s.MaxAge-ageSlack)) {
		early = s.First - f.Seq
	}
	for i := len(h.Marks) - 1; i >= 0; i-- {
		// Message Seq was stored at At, and those before it earlier.
		if m := h.Marks[i]; m.Seq < s.First && now.Before(m.At.Add(s.MaxAge-ageSlack)) {
			earlier := uint64(0)
			for _, o := range h.Marks[:i] {
				if !now.Before(o.At.Add(s.MaxAge - ageSlack)) {
					earlier = o.Seq
				}
			}
			return max(early, m.Seq-earlier)
		}
	}
	return early
}

// remember adds a mark, or moves the last one if the one before is near.
func (h *history) remember(s Stream, now time.Time) {
	if s.Messages == 0 {
		return
	}
	for len(h.Marks) > 1 && s.MaxAge > 0 && now.After(h.Marks[0].At.Add(s.MaxAge)) {
		h.Marks = h.Marks[1:]
	}
	next := mark{s.Last, s.LastAt}
	n := len(h.Marks)
	if n > 0 && h.Marks[n-1].Seq == next.Seq {
		return
	}
	if n > 1 && next.At.Sub(h.Marks[n-2].At) < s.MaxAge/marksKept || n >= marksKept {
		h.Marks[n-1] = next
		return
	}
	h.Marks = append(h.Marks, next)
}
