package watchdog

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// repeatFirst is the least time between two words about one alarm; each
	// further one takes twice as long, up to repeatMax.
	repeatFirst = 10 * time.Minute
	repeatMax   = 4 * time.Hour
)

// Hold is how long a finding must last before it is an alarm, and must be gone
// before the alarm is over: what comes and goes within it is no news.
type Hold struct{ Raise, Clear time.Duration }

// DefaultHold outlasts one look, and a part that restarts.
func DefaultHold() Hold { return Hold{Raise: 10 * time.Second, Clear: 30 * time.Second} }

// Alarm is a finding that lasts. It is stored: whoever takes over knows what
// people have been told.
type Alarm struct {
	Code     Code      `json:"code"`
	Subject  string    `json:"subject,omitempty"`
	Severity Severity  `json:"severity"`
	Detail   string    `json:"detail"`
	Next     string    `json:"next"`
	SeenAt   time.Time `json:"seen_at"`            // since then it is there
	RaisedAt time.Time `json:"raised_at,omitzero"` // zero: not yet
	GoneAt   time.Time `json:"gone_at,omitzero"`   // since then it is not there; zero: it is
	ToldAt   time.Time `json:"told_at,omitzero"`
	Words    int       `json:"words"` // about it, since it was raised
}

// Raised says whether people have to know.
func (a Alarm) Raised() bool { return !a.RaisedAt.IsZero() }

type alarmKey struct {
	code    Code
	subject string
}

// change is one word about an alarm.
type change struct {
	Alarm
	Action string // actionRaised, actionRepeated, actionCleared
}

// alarms turn findings, which come and go, into few words.
type alarms struct {
	hold Hold
	all  map[alarmKey]Alarm
}

func newAlarms(h Hold) *alarms { return &alarms{hold: h, all: map[alarmKey]Alarm{}} }

// load takes over what another watchdog has stored.
func (s *alarms) load(stored []Alarm) {
	s.all = map[alarmKey]Alarm{}
	for _, a := range stored {
		s.all[alarmKey{a.Code, a.Subject}] = a
	}
}

// list is what to store, in order.
func (s *alarms) list() []Alarm {
	return slices.SortedFunc(maps.Values(s.all), func(a, b Alarm) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
	})
}

// update takes in what is found now, and returns what to say. Pure, but for the
// alarms themselves.
func (s *alarms) update(found []Finding, now time.Time) []change {
	now = now.UTC()
	present := map[alarmKey]bool{}
	for _, f := range found {
		k := alarmKey{f.Code, f.Subject}
		present[k] = true
		a, ok := s.all[k]
		if !ok {
			a = Alarm{Code: f.Code, Subject: f.Subject, SeenAt: now}
		}
		a.Severity, a.Detail, a.Next, a.GoneAt = f.Severity, f.Detail, f.Next, time.Time{}
		s.all[k] = a
	}
	var out []change
	for _, k := range slices.SortedFunc(maps.Keys(s.all), func(a, b alarmKey) int {
		return cmp.Or(cmp.Compare(a.code, b.code), cmp.Compare(a.subject, b.subject))
	}) {
		if c, ok := s.turn(k, present[k], now); ok {
			out = append(out, c)
		}
	}
	return out
}

// turn moves one alarm on.
func (s *alarms) turn(k alarmKey, present bool, now time.Time) (change, bool) {
	a := s.all[k]
	action := ""
	switch {
	case present && !a.Raised() && now.Sub(a.SeenAt) >= s.hold.Raise:
		a.RaisedAt, a.ToldAt, a.Words, action = now, now, 1, actionRaised
	case present && a.Raised() && now.Sub(a.ToldAt) >= repeatAfter(a.Words):
		a.ToldAt, action = now, actionRepeated
		a.Words++
	case !present && !a.Raised():
		delete(s.all, k)
		return change{}, false
	case !present && a.GoneAt.IsZero():
		a.GoneAt = now
	case !present && now.Sub(a.GoneAt) >= s.hold.Clear:
		delete(s.all, k)
		a.Words++
		return change{a, actionCleared}, true
	}
	s.all[k] = a
	return change{a, action}, action != ""
}

func repeatAfter(words int) time.Duration {
	return min(repeatFirst<<min(max(words-1, 0), 10), repeatMax)
}
