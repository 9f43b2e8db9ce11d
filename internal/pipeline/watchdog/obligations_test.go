package watchdog

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// sequence applies records in order, at LEDGER's sequences 1, 2, 3 …
func sequence(rs ...record.Record) *obligations {
	o := newObligations()
	for i := range rs {
		o.apply(&rs[i], uint64(i+1))
	}
	return o
}

func attempt(o record.Record, at time.Time, decision string, next time.Time) record.Record {
	return record.Record{ID: "att_" + at.String(), Kind: record.Attempt, At: at, StartedAt: at, Tenant: o.Tenant,
		EventID: o.EventID, EndpointID: o.EndpointID,
		ReplayID: o.ReplayID, DeliverBy: o.DeliverBy, Attempt: 1, Decision: decision, NextAttemptAt: next}
}

func telling(about record.Record, at time.Time, class string) record.Record {
	return record.Record{ID: record.EscalationID("inc_1-1", "hook", 1, about.ID), Kind: record.Escalation, At: at,
		Tenant: about.Tenant, EventID: about.EventID,
		EndpointID: about.EndpointID, ReplayID: about.ReplayID, Class: class, Outcome: class, Action: "trigger"}
}

func TestWhatIsOwedFollowsFromTheRecords(t *testing.T) {
	at := start()
	o := owed(1, at, time.Hour)
	replay := o
	replay.ReplayID, replay.ID = "rpl_1", record.OwedID(o.EventID, o.EndpointID, "rpl_1")
	dead := deadLetter(o, at.Add(50*time.Minute))
	cancelled := record.Record{ID: "x", Kind: record.DeliveryCancelled, At: at, Tenant: o.Tenant, EventID: o.EventID,
		EndpointID: o.EndpointID}
	rejected := record.Record{ID: record.EventRecordID(9, at), Kind: record.EventRejected, At: at, Tenant: "default",
		Reason: "invalid_event"}
	tests := []struct {
		name         string
		records      []record.Record
		open, untold int
		keys         int // that are kept
	}{
		{"a delivery that is owed", []record.Record{o}, 1, 0, 1},
		{"stated twice", []record.Record{o, o}, 1, 0, 1},
		{"delivered", []record.Record{o, attempt(o, at, "delivered", time.Time{})}, 0, 0, 0},
		{"retried", []record.Record{o, attempt(o, at, "retry", at.Add(time.Minute))}, 1, 0, 1},
		{"retried, and no longer in LEDGER as owed", []record.Record{attempt(o, at, "retry", at.Add(time.Minute))}, 1, 0, 1},
		{"cancelled", []record.Record{o, cancelled}, 0, 0, 0},
		{"given up, and the dead letter is not on record", []record.Record{o, attempt(o, at, "dead_letter", time.Time{})}, 1,
			0, 1},
		{"a dead letter", []record.Record{o, dead}, 0, 1, 1},
		{"a dead letter that people were told of", []record.Record{o, dead,
			telling(dead, at.Add(51*time.Minute), "delivered")}, 0, 0, 0},
		{"a dead letter, and a telling that failed",
			[]record.Record{o, dead, telling(dead, at.Add(51*time.Minute), "retryable")}, 0, 1, 1},
		{"told before the dead letter was stored", []record.Record{o, telling(dead, at.Add(50*time.Minute), "delivered"),
			dead}, 0, 0, 0},
		{"told of an overdue delivery", []record.Record{o, telling(dead, at.Add(49*time.Minute), "delivered")}, 1, 0, 1},
		{"told of an overdue delivery that is made after all", []record.Record{o,
			telling(dead, at.Add(49*time.Minute), "delivered"), attempt(o, at.Add(55*time.Minute), "delivered", time.Time{})}, 0,
			0, 0},
		{"a replay is an obligation of its own", []record.Record{o, replay, attempt(replay, at, "delivered", time.Time{})}, 1,
			0, 1},
		{"a rejected event", []record.Record{rejected}, 0, 1, 1},
		{"a rejected event that people were told of",
			[]record.Record{rejected, telling(rejected, at.Add(time.Second), "delivered")}, 0, 0, 0},
		{"a telling of what is not known", []record.Record{telling(dead, at, "delivered")}, 0, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obligations := sequence(tt.records...)
			if n := len(obligations.by); n != tt.keys {
				t.Errorf("%d are kept, want %d", n, tt.keys)
			}
			d, _ := obligations.survey(true, time.Minute, at)
			if d.Open != tt.open || d.Untold != tt.untold {
				t.Errorf("open %d, untold %d; want %d, %d", d.Open, d.Untold, tt.open, tt.untold)
			}
			obligations.survey(true, time.Minute, at.Add(48*time.Hour))
			if tt.open == 0 && tt.untold == 0 && len(obligations.by) > 0 {
				t.Error("something is kept for ever")
			}
		})
	}
}

func TestPeopleAreToldInsideEveryWindow(t *testing.T) {
	for _, window := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 11 * time.Second,
		30 * time.Second, time.Minute, 5 * time.Minute, time.Hour, 48 * time.Hour} {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, an escalator runs: %v", window, alive), func(t *testing.T) {
				o := owed(1, start(), window)
				for _, e := range sequence(o).by {
					p := promiseOf(e, alive)
					if left := o.DeliverBy.Sub(p.tell); window >= 10*time.Second && left < 3*time.Second {
						t.Errorf("only %s are left to tell in", left)
					}
					if p.ask.After(p.tell) || !p.by.Equal(o.DeliverBy) {
						t.Errorf("%+v", p)
					}
				}
				dead := deadLetter(o, start().Add(window/2))
				for _, e := range sequence(dead).by {
					p := promiseOf(e, alive)
					if window >= 10*time.Second && p.by.Sub(p.tell) < time.Second {
						t.Errorf("only %s are left to tell of a dead letter in", p.by.Sub(p.tell))
					}
					if p.by.Sub(dead.At) > tellWithin {
						t.Errorf("people may be told as late as %s", p.by.Sub(dead.At))
					}
				}
			})
		}
	}
}

func TestAnEscalatorThatWorksGetsTimeWhenTheDeadlineWasPastAlready(t *testing.T) {
	dead := deadLetter(owed(1, start(), -time.Hour), start())
	for _, e := range sequence(dead).by {
		if got := due(e, true, start().Add(5*time.Second)); got == tell {
			t.Error("the watchdog tells what the escalator is about to tell")
		}
		if got := due(e, true, start().Add(12*time.Second)); got != tell {
			t.Errorf("after 12 s: %d", got)
		}
		if got := due(e, false, start().Add(2*time.Second)); got != tell {
			t.Errorf("without an escalator: %d", got)
		}
	}
}

func TestStepsComeInOrderAndEachInItsTime(t *testing.T) {
	at := start()
	dead := deadLetter(owed(1, at, 0), at)
	marked := func(marks uint8) entry {
		for _, e := range sequence(dead).by {
			e.marks |= marks
			return e
		}
		return entry{}
	}
	tests := []struct {
		after time.Duration
		marks uint8
		alive bool
		want  step
	}{
		{time.Second, 0, true, nothing}, {61 * time.Second, 0, true, handOver}, {61 * time.Second, handedOver, true, nothing},
		{226 * time.Second, handedOver, true, tell},
		{time.Second, 0, false, nothing}, {16 * time.Second, 0, false, tell}, {301 * time.Second, handedOver, true, count},
		{301 * time.Second, tallied, true, tell},
		{2 * time.Hour, tallied, true, forget}, {2 * time.Hour, 0, true, count},
	}
	for _, tt := range tests {
		if got := due(marked(tt.marks), tt.alive, at.Add(tt.after)); got != tt.want {
			t.Errorf("after %s, marks %b, alive %v: %d, want %d", tt.after, tt.marks, tt.alive, got, tt.want)
		}
	}
}

func TestAManyOpenDeliveriesTakeLittleMemory(t *testing.T) {
	const n = 200_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	o := newObligations()
	began := time.Now()
	for i := range n {
		r := owed(i, start(), time.Hour)
		o.apply(&r, uint64(i+1))
	}
	applied := time.Since(began)
	each := float64(heap()-before) / n
	began = time.Now()
	d, tasks := o.survey(true, time.Minute, start())
	surveyed := time.Since(began)
	t.Logf("%.0f bytes each; applied in %s, looked through in %s", each, applied, surveyed)
	if d.Open != n || len(tasks) != 0 {
		t.Errorf("%+v, %d tasks", d, len(tasks))
	}
	if each > 160 {
		t.Errorf("%.0f bytes for each open delivery", each)
	}
	for i := range n {
		r := attempt(owed(i, start(), time.Hour), start(), "delivered", time.Time{})
		o.apply(&r, uint64(n+i+1))
	}
	if len(o.by) != 0 || o.oldest(7) != 7 {
		t.Errorf("%d are kept of deliveries that were made", len(o.by))
	}
}

func TestWhatWasSeenOfAStreamSaysWhatWasTaken(t *testing.T) {
	at := start()
	age := 30 * 24 * time.Hour
	seen := func(first, last uint64, when time.Time) Stream {
		return Stream{Name: "EVENTS", Messages: last - first + 1, First: first, Last: last,
			FirstAt: at.Add(time.Duration((first-1)/10) * 24 * time.Hour), LastAt: when, MaxAge: age, Created: at}
	}
	var h history
	for day := range 40 { // ten events a day; what is older than thirty days goes
		now := at.Add(time.Duration(day) * 24 * time.Hour)
		first := uint64(max(1, (day-30)*10+1))
		var s Stream
		if s, h = h.compare(seen(first, uint64(day*10+10), now), 0, now); s.Removed != 0 || s.Rewound {
			t.Fatalf("day %d: %+v", day, s)
		}
	}
	if len(h.Marks) > marksKept {
		t.Errorf("%d marks", len(h.Marks))
	}
	now := at.Add(40 * 24 * time.Hour)
	if s, _ := h.compare(seen(390, 400, now), 0, now); s.Removed == 0 {
		t.Error("that all but the last were taken was not seen")
	}
	if s, _ := h.compare(seen(100, 300, now), 0, now); !s.Rewound {
		t.Error("that the tail is gone was not seen")
	}
	ledger := Stream{Name: "LEDGER", Messages: 10, First: 11, Last: 20, Created: at}
	_, l := history{}.compare(ledger, 15, now)
	ledger.First = 16
	if s, _ := l.compare(ledger, 15, now); s.Removed != 0 {
		t.Errorf("%d removed that ClickHouse has", s.Removed)
	}
	ledger.First = 18
	if s, _ := l.compare(ledger, 15, now); s.Removed != 2 {
		t.Errorf("%d removed that ClickHouse lacks, want 2", s.Removed)
	}
}
