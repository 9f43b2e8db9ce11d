package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

const (
	// JumpTolerance is by how much the clock on the wall may move against the one
	// that only runs and count as slewed: a minute of slewing makes 30 ms.
	JumpTolerance = 2 * time.Second
	// jumpEvery is how often the two are compared.
	jumpEvery = time.Second
	// resetBound and resetPause bound a try to take up again what waits, and the
	// pause before the next one.
	resetBound = 10 * time.Second
	resetPause = time.Second
)

// Jumps tells how far the clock on the wall has gone that the one which only runs
// has not: what somebody set, or a machine slept. It belongs to one goroutine.
type Jumps struct {
	now     func() time.Time // the clock on the wall
	apart   time.Duration
	wall    time.Time
	running time.Time
}

// WatchJumps begins. now is the clock on the wall; nil: time.Now.
func WatchJumps(now func() time.Time) *Jumps {
	if now == nil {
		now = time.Now
	}
	return &Jumps{now: now, wall: now().Round(0), running: time.Now()}
}

// Look is how far the clock jumped since the last look; 0: it did not.
func (j *Jumps) Look() time.Duration {
	before := time.Since(j.running)
	wall := j.now().Round(0)
	if time.Since(j.running)-before > JumpTolerance/4 {
		return 0 // we stood still in between: it says nothing
	}
	apart := wall.Sub(j.wall) - before
	jumped := apart - j.apart
	j.apart = apart
	if jumped.Abs() <= JumpTolerance {
		return 0
	}
	return jumped
}

// watchClock takes up again what waits at the server, whenever the clock was set
// back. The server goes by the clock on the wall: what was handed back with a
// delay, or was in the hand of a process that died, would wait for the delay and
// as much more as the clock was set back.
func (l *Loop) watchClock(ctx context.Context) {
	jumps, due := WatchJumps(l.o.Now), l.storedAhead(ctx)
	tick := time.NewTicker(jumpEvery)
	defer tick.Stop()
	for {
		if jumped := jumps.Look(); jumped < 0 {
			due = true
			l.o.Log.Warn().Dur("jumped", jumped).Str("consumer", l.o.Consumer).Msg(logevent.ClockSetBack)
		}
		if due && l.takeUpAgain(ctx) {
			due = false
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// storedAhead says that the clock was set back before we began: messages are
// stored at a time that is still to come.
func (l *Loop) storedAhead(ctx context.Context) bool {
	s, err := l.o.JS.Stream(ctx, l.o.Stream)
	if err != nil {
		return false // it is not there: nothing waits
	}
	info := s.CachedInfo()
	return !info.TimeStamp.IsZero() && info.State.LastTime.Sub(info.TimeStamp) > JumpTolerance
}

// setBack says whether the server's clock was set back since the last time: it is
// not the one of this machine.
func (l *Loop) setBack(at time.Time) bool {
	if at.IsZero() {
		return false
	}
	last, since := l.serverAt, time.Since(l.serverSeen)
	l.serverAt, l.serverSeen = at, time.Now()
	return !last.IsZero() && at.Sub(last)-since < -JumpTolerance
}

// takeUpAgain makes the server forget what it knows of messages that it handed
// out: each comes again at once. Those in hand are recognised, the others wait for
// what is left of their time.
func (l *Loop) takeUpAgain(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, resetBound)
	defer cancel()
	_, err := l.o.JS.ResetConsumer(bounded, l.o.Stream, l.o.Consumer)
	if err == nil {
		l.o.Log.Info().Str("stream", l.o.Stream).Str("consumer", l.o.Consumer).Msg(logevent.ClockTakenUpAgain)
		return true
	}
	if ctx.Err() == nil {
		l.o.Log.Warn().Err(fmt.Errorf("consumer %s/%s: %w; what waits there comes late by as much as the clock was set back",
			l.o.Stream, l.o.Consumer, err)).Msg(logevent.ClockNotTakenUp)
	}
	Pause(ctx, resetPause)
	return errors.Is(err, jetstream.ErrConsumerInvalidReset)
}
