package stage

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

const (
	// clockEvery is how often the clocks are compared: a clock that is set while
	// we run is noticed within it.
	clockEvery = 10 * time.Second
	// clockBound is the longest round trip that says anything: the comparison is
	// off by up to half of it.
	clockBound = time.Second
	// clockTolerance is how far clocks may be apart and count as one. It is above
	// what NTP leaves and what a busy machine adds, so that time is not bent for
	// noise, and below the shortest delay of a schedule.
	clockTolerance = time.Second
)

// Clock is this machine's clock, put right by the server's when the two are
// apart. What is due is written by one process and read by another: only if both
// mean the same clock does nothing fire before its time.
type Clock struct {
	js     jetstream.JetStream
	stream string
	now    func() time.Time
	log    zerolog.Logger

	// apart is what was measured last (server less ours), applied what Now adds. Nanoseconds.
	apart, applied atomic.Int64
}

// NewClock compares with the server that leads stream. now is this machine's
// clock; nil: time.Now. The first Compare or Run makes it right.
func NewClock(js jetstream.JetStream, stream string, now func() time.Time, log zerolog.Logger) *Clock {
	if now == nil {
		now = time.Now
	}
	return &Clock{js: js, stream: stream, now: now, log: log}
}

// Now is the time.
func (c *Clock) Now() time.Time { return c.now().Add(c.Offset()) }

// Offset is what Now adds to this machine's clock.
func (c *Clock) Offset() time.Duration { return time.Duration(c.applied.Load()) }

// Register makes the measured difference known.
func (c *Clock) Register(r prometheus.Registerer, stage string) error {
	return register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_clock_offset_seconds",
		ConstLabels: prometheus.Labels{"stage": stage},
		Help: "The NATS server's clock less this machine's, as last measured. Beyond a second either way it is " +
			"made up for."},
		func() float64 { return time.Duration(c.apart.Load()).Seconds() }))
}

// Compare looks at the server's clock once.
func (c *Clock) Compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*clockBound)
	defer cancel()
	began, asked := time.Now(), c.now() // began: the round trip, whatever happens to clocks
	s, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if took > clockBound || s.CachedInfo().TimeStamp.IsZero() {
		return nil // says nothing
	}
	apart := s.CachedInfo().TimeStamp.Sub(asked.Add(took / 2))
	c.apart.Store(int64(apart))
	apply := apart
	if apart.Abs() < clockTolerance {
		apply = 0
	}
	if before := c.applied.Swap(int64(apply)); before == 0 && apply != 0 {
		c.log.Warn().Dur("apart", apart).Msg(logevent.ClockApart)
	} else if before != 0 && apply == 0 {
		c.log.Info().Msg(logevent.ClockTogether)
	}
	return nil
}

// Run compares until ctx ends. While the server is away, the last comparison holds.
func (c *Clock) Run(ctx context.Context) error {
	for {
		if err := c.Compare(ctx); err != nil && ctx.Err() == nil {
			c.log.Debug().Err(err).Msg(logevent.ClockNotCompared)
		}
		if !Pause(ctx, clockEvery) {
			return nil
		}
	}
}
