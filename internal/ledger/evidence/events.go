package evidence

import (
	"fmt"
	"strconv"
	"time"
)

// Events is what EVENTS said, when the file was written, of the records that say
// that the event came in.
type Events struct {
	AskedAt  time.Time
	Vouched  uint64   // records whose message EVENTS holds as they say
	Beyond   uint64   // records that are older than what EVENTS keeps
	Findings []string // what it does not vouch for, for people
}

type wireEvents struct {
	AskedAt  string   `json:"asked_at"`
	Vouched  string   `json:"vouched"`
	Beyond   string   `json:"beyond"`
	Findings []string `json:"findings"`
}

func (w *writer) events(e *Events) *writer {
	if e == nil {
		return w
	}
	w.raw(`,"events":{"asked_at":`).time(e.AskedAt).raw(`,"vouched":`).text(strconv.FormatUint(e.Vouched, 10)).
		raw(`,"beyond":`).text(strconv.FormatUint(e.Beyond, 10)).raw(`,"findings":[`)
	for i, f := range e.Findings {
		w.comma(i).text(f)
	}
	return w.raw("]}")
}

func (w *wireEvents) events() (e *Events, err error) {
	if w == nil {
		return nil, nil
	}
	e = &Events{Findings: w.Findings}
	if e.AskedAt, err = parseTime(w.AskedAt); err != nil {
		return nil, fmt.Errorf("asked_at: %w", err)
	}
	if e.Vouched, err = strconv.ParseUint(w.Vouched, 10, 63); err != nil {
		return nil, fmt.Errorf("vouched: %w", err)
	}
	if e.Beyond, err = strconv.ParseUint(w.Beyond, 10, 63); err != nil {
		return nil, fmt.Errorf("beyond: %w", err)
	}
	return e, nil
}

// text is what EVENTS said, for people.
func (e *Events) text() string {
	said := "Whoever exported the file says that EVENTS, the stream that takes events in,"
	if e.Vouched == 0 {
		return said + " keeps none that is so old."
	}
	return said + " held the event as it is on record, at " + moment(e.AskedAt) + "."
}
