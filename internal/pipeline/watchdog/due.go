package watchdog

import (
	"time"
)

const (
	// tellWithin is the promise where there is no nearer deadline, and what
	// waybill_dead_letters_not_escalated_within_5m_total counts.
	tellWithin = 5 * time.Minute
	// handOverAfter is when the escalator is asked again at the latest: the
	// message that asked it may be lost.
	handOverAfter = time.Minute
	// slackMax is how long after the end of the attempts a verdict may be late, of
	// a delivery with a long reserve: a dispatcher with much in hand takes a moment.
	slackMax = 30 * time.Second
	// standbyMax is what an escalator that stands by gets to take over.
	standbyMax = 15 * time.Second
	// lead is what the watchdog keeps for telling by itself: two tries.
	lead = 5 * time.Second
	// orphanFor is how long a telling of something unknown is remembered: its
	// dead letter was published at the same moment.
	orphanFor = 10 * time.Minute
	// giveUpAfter ends what concerns one dead letter here. The incident, if there
	// is one, goes on without the watchdog.
	giveUpAfter = time.Hour
)

// step is what an obligation needs now.
type step uint8

const (
	nothing  step = iota
	handOver      // ask the escalator
	tell          // tell people, without the escalator
	count         // put on record that nobody was told in time
	forget        // it is nobody's business here any more
)

// promise is the moments of one obligation to tell people.
type promise struct {
	ask  time.Time // when the escalator should have told
	tell time.Time // when the watchdog tells by itself
	by   time.Time // when people must have been told
}

// promiseOf says when people must be told of an obligation. alive says whether
// an escalator holds its lease. The zero promise: never, as far as is known.
func promiseOf(e entry, alive bool) promise {
	at, by := time.UnixMilli(e.at), time.UnixMilli(e.by)
	switch {
	case e.phase == open && e.by != 0:
		ask := at.Add(clamp(by.Sub(at)/4, settle, slackMax))
		p := promise{ask: ask, tell: ask, by: by}
		if alive {
			p.tell = ask.Add(max(by.Sub(ask)/2, settle))
		}
		return p
	case e.phase == untold:
		latest := at.Add(tellWithin)
		if e.by == 0 || by.After(latest) {
			by = latest
		}
		window := by.Sub(at)
		p := promise{ask: at.Add(clamp(window/3, settle, handOverAfter)), by: by}
		p.tell = at.Add(clamp(window/8, settle, standbyMax))
		if alive {
			p.tell = by.Add(-clamp(window/4, lead, tellWithin))
			least := p.ask.Add(settle)
			if !by.After(at) {
				// There is no time to win, and an escalator that works is not yet late:
				// even such a message may wait for others of its incident.
				least = p.ask.Add(2 * lead)
			}
			if p.tell.Before(least) {
				p.tell = least
			}
		}
		return p
	}
	return promise{}
}

func clamp(d, least, most time.Duration) time.Duration { return min(max(d, least), most) }

// due decides what an obligation needs. Pure.
func due(e entry, alive bool, now time.Time) step {
	at := time.UnixMilli(e.at)
	switch {
	case e.phase == told && e.marks&orphan != 0 && now.Sub(at) > orphanFor:
		return forget
	case e.phase == told || e.phase == open && e.by == 0:
		return nothing
	case e.phase == untold && now.Sub(at) > giveUpAfter && e.marks&tallied != 0:
		return forget
	case e.phase == untold && e.marks&tallied == 0 && now.Sub(at) > tellWithin:
		return count
	}
	p := promiseOf(e, alive)
	switch {
	case !now.Before(p.tell):
		return tell
	case e.marks&handedOver == 0 && !now.Before(p.ask):
		return handOver
	}
	return nothing
}

// overdue says for how long the next attempt of a delivery without a deadline
// has been due, beyond grace; 0 when it is not.
func overdue(e entry, grace time.Duration, now time.Time) time.Duration {
	if e.phase != open || e.by != 0 {
		return 0
	}
	late := now.Sub(time.UnixMilli(e.at))
	if late <= grace {
		return 0
	}
	return late
}

// Debts are what is owed, in figures.
type Outstanding struct {
	Open          int           `json:"open"` // deliveries without a verdict
	PastDeadline  int           `json:"past_deadline"`
	Overdue       int           `json:"overdue"` // without deadline, and their attempt is long due
	OldestOverdue time.Duration `json:"oldest_overdue_ns"`
	Untold        int           `json:"untold"`      // people must be told, within the promise
	UntoldLate    int           `json:"untold_late"` // and were not in time
	OldestSeq     uint64        `json:"-"`           // record of the oldest overdue one
	LateSeq       uint64        `json:"-"`           // record of one that is late
}

// task is one obligation that needs something.
type task struct {
	key  key
	step step
	seq  uint64 // record in LEDGER
	by   time.Time
	try  int // 1, 2, 3 …
}

// survey looks at every obligation: what needs something, and the figures.
// Those that need nothing more are forgotten.
func (o *obligations) survey(alive bool, grace time.Duration, now time.Time) (Outstanding, []task) {
	var d Outstanding
	var tasks []task
	ms, late := now.UnixMilli(), now.Add(-grace).UnixMilli()
	o.waiting = o.waiting[:0]
	for k, e := range o.by {
		if e.phase == open && (e.by != 0 && ms < e.at || e.by == 0 && late < e.at) {
			d.Open++ // in time, as nearly all are
			continue
		}
		if _, doubted := o.doubts[k]; doubted && e.phase != told {
			o.waiting = append(o.waiting, k) // LEDGER is asked first
			continue
		}
		o.add(&d, e, grace, now)
		switch s := due(e, alive, now); s {
		case nothing:
		case forget:
			o.forget(k)
		default:
			tasks = append(tasks, task{key: k, step: s, seq: e.last, by: promiseOf(e, alive).by})
		}
	}
	return d, tasks
}

func (o *obligations) add(d *Outstanding, e entry, grace time.Duration, now time.Time) {
	switch e.phase {
	case open:
		d.Open++
		if late := overdue(e, grace, now); late > 0 {
			d.Overdue++
			if late > d.OldestOverdue {
				d.OldestOverdue, d.OldestSeq = late, e.last
			}
		}
		if p := promiseOf(e, false); !p.ask.IsZero() && now.After(p.ask) {
			d.PastDeadline++
			d.LateSeq = e.last
		}
	case untold:
		d.Untold++
		if now.After(promiseOf(e, false).by) {
			d.UntoldLate++
			d.LateSeq = e.last
		}
	case told:
		if e.marks&orphan == 0 {
			d.Open++
			d.PastDeadline++ // people know, and there is no verdict yet
			d.LateSeq = e.last
		}
	}
}
