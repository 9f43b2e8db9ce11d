package watchdog

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/streams"
)

// watcher looks at the server every so often, and turns what it finds into
// alarms. It belongs to one goroutine.
type watcher struct {
	w       *Watchdog
	alarms  *alarms
	marks   map[string]history
	led     bool // at the last look this watchdog had the lease
	clock   clock
	jump    time.Duration
	jumpAt  time.Time
	reached time.Time // when the server last answered
	ledAt   time.Time // when this watchdog last had the lease
}

// watch looks until ctx ends.
func (w *Watchdog) watch(ctx context.Context) error {
	s := &watcher{w: w, alarms: newAlarms(w.o.Hold), marks: map[string]history{}, reached: time.Now(), clock: readClock()}
	t := time.NewTicker(w.o.LookEvery)
	defer t.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// look is one look, and what follows from it.
func (s *watcher) look(ctx context.Context) {
	s.tick(time.Now())
	bounded, cancel := context.WithTimeout(ctx, max(2*s.w.o.LookEvery, storeBound))
	defer cancel()
	// What the one before us saw is taken over before we look: what it saw later
	// than we did would be missing to us.
	leading := s.w.Leading()
	s.led = leading && (s.led || s.takeOver(bounded))
	snapshot, err := Look(bounded, s.w.js, LookOptions{Partitions: s.w.o.Partitions})
	if err != nil {
		if ctx.Err() == nil {
			s.unseen(err)
		}
		return
	}
	s.reached = time.Now()
	if s.led {
		s.ledAt = time.Now()
	}
	s.complete(bounded, &snapshot)
	s.w.metrics.snapshot(snapshot)
	s.act(ctx, Judge(snapshot, s.w.o.Limits))
}

// complete adds what the server alone does not know.
func (s *watcher) complete(ctx context.Context, snapshot *Snapshot) {
	snapshot.Host = hostname()
	snapshot.Policies = s.people(ctx)
	snapshot.Endpoints = s.w.registry.Enabled()
	snapshot.Unreadable = slices.Concat(s.w.registry.Unreadable(), s.w.channels.Unreadable(), s.w.policies.Unreadable())
	seen := s.w.outstanding.Load()
	snapshot.Debts, snapshot.Behind = seen.Outstanding, seen.behind
	if time.Since(s.jumpAt) < keepFinding {
		snapshot.Jump = s.jump
	}
	s.marks = snapshot.recall(s.marks)
}

// people counts the policies that can reach somebody; those that have not been
// read yet count as one, so that a start is no alarm.
func (s *watcher) people(ctx context.Context) int {
	if s.w.Ready(ctx) != nil {
		return 1
	}
	return reachable(s.w.policies.All(), channelExists(s.w.channels.All()))
}

// takeOver loads what the watchdog that acted before has stored. That the server
// was away could not be.
func (s *watcher) takeOver(ctx context.Context) bool {
	away, wasAway := s.alarms.all[alarmKey{NATSUnreachable, ""}]
	var stored []Alarm
	marks := map[string]history{}
	_, err := status(ctx, s.w.js, streams.StatusAlarms, &stored)
	_, err2 := status(ctx, s.w.js, streams.StatusMarks, &marks)
	if err := errors.Join(err, err2); err != nil {
		s.w.log.Warn().Err(err).Msg(logevent.WatchdogStatusUnread)
		return false
	}
	s.alarms.load(stored)
	s.marks = marks
	if wasAway {
		s.alarms.all[alarmKey{NATSUnreachable, ""}] = away
	}
	return true
}

// act takes in what was found. Only the watchdog that leads says anything; the
// others know it all the same, for their metrics.
func (s *watcher) act(ctx context.Context, found []Finding) {
	if !s.led {
		s.w.metrics.findings(found)
		return
	}
	changes := s.alarms.update(found, time.Now())
	s.w.metrics.raised(s.alarms.list())
	// Stored first: whoever takes over repeats at most what was not said.
	if err := errors.Join(s.w.store(ctx, streams.StatusAlarms, s.alarms.list()),
		s.w.store(ctx, streams.StatusMarks, s.marks)); err != nil && ctx.Err() == nil {
		s.w.log.Warn().Err(err).Msg(logevent.WatchdogStatusNotStored)
	}
	s.say(ctx, changes)
}

func (s *watcher) say(ctx context.Context, changes []change) {
	if len(changes) == 0 {
		return
	}
	select {
	case s.w.alarms <- changes:
	case <-ctx.Done():
	}
}

// unseen is a look that showed nothing: the server does not answer.
func (s *watcher) unseen(err error) {
	s.w.log.Debug().Err(err).Msg(logevent.WatchdogUnseen)
	away := time.Since(s.reached)
	bound := s.w.o.Limits.Unreachable
	// Without the server nobody holds a lease. Who had it last says so first; the
	// others after twice the time, in case it is gone with the server.
	if s.ledAt.IsZero() || s.reached.Sub(s.ledAt) > bound {
		bound *= 2
	}
	if away < bound {
		return
	}
	f := Finding{NATSUnreachable, Wrong, "", "the NATS server has not answered for " + away.Round(time.Second).String() +
		": nothing is accepted or delivered",
		"see that it runs, and its disk"}
	changes := s.alarms.update(append(s.present(), f), time.Now())
	s.w.metrics.raised(s.alarms.list())
	s.say(context.Background(), changes)
}

// present are the findings that stand while nothing can be seen.
func (s *watcher) present() []Finding {
	var out []Finding
	for _, a := range s.alarms.list() {
		if a.Code != NATSUnreachable && a.GoneAt.IsZero() {
			out = append(out, Finding{a.Code, a.Severity, a.Subject, a.Detail, a.Next})
		}
	}
	return out
}

// clock is one moment on both clocks of this machine.
type clock struct {
	wall time.Time // without the monotonic reading
	mono time.Time
}

func readClock() clock {
	now := time.Now()
	return clock{now.Round(0), now}
}

// jumped is how much further the wall clock went than the monotonic one.
func (c clock) jumped(next clock) time.Duration {
	return next.wall.Sub(c.wall) - next.mono.Sub(c.mono)
}

// tick looks at the clocks.
func (s *watcher) tick(time.Time) {
	next := readClock()
	if j := s.clock.jumped(next); abs(j) > s.w.o.Limits.Clock {
		s.jump, s.jumpAt = j, next.mono
		s.w.log.Warn().Dur("jump", j).Msg(logevent.ClockJumped)
	}
	s.clock = next
}

// connected says whether there is a connection at this moment.
func (w *Watchdog) connected() bool { return w.o.NC.Status() == nats.CONNECTED }
