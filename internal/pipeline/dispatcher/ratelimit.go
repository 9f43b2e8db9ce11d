package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/platform/coalesce"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// turnEarly is how long before its turn a delivery that was moved aside comes
	// back, to wait for the exact moment in memory: a queue hands back tens of
	// milliseconds late.
	turnEarly = 100 * time.Millisecond
	// turnGrace is how late a turn may be used. What comes later (after a stall,
	// or from an endpoint at its cap) takes a new one, so that no more than the
	// turns of one second can ever add up.
	turnGrace = time.Second
	// turnHorizon is how far ahead turns are given. It bounds how long the turns
	// of an old limit live on; who finds none asks again after about as long.
	turnHorizon = 2 * time.Minute
	// maxLease is how many turns are taken at once: as many as deliveries wait for one
	// at that moment, so that none is taken and not used.
	maxLease = 256
)

// rates hand out turns: the times at which an endpoint that has a rate limit
// may be called. All dispatchers take them from one row of turns for each
// endpoint, spaced evenly (GCRA with no burst), which a bucket keeps; a lease is
// one compare-and-set that moves the row on. The bucket is in files, because
// turns that were given outlive a restart of the server in RETRY: a row that
// began anew would come on top of them.
//
// Turns are times of the dispatchers' clocks. A clock that is ahead delays the
// others' turns by as much, and breaks no limit.
type rates struct {
	kv  rateBucket
	now func() time.Time

	mu sync.Mutex // guards what follows
	by map[string]*rate
}

// rateBucket is what rates need of a key-value bucket.
type rateBucket interface {
	Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
}

// rate is an endpoint's row of turns, as far as this dispatcher knows.
type rate struct {
	asks   *coalesce.Group[*turnAsk]
	asking int // who asks
	row    row // this and at belong to the one that leases
	at     uint64
	last   time.Time // when this dispatcher last used a turn
}

// row is what the bucket keeps of an endpoint.
type row struct {
	Next      time.Time `json:"next"` // the first turn that nobody has
	PerSecond float64   `json:"per_second"`
	Revision  uint64    `json:"endpoint_revision"` // that set PerSecond
}

type turnAsk struct {
	endpoint *registry.Endpoint
	before   time.Time // a turn then or later is of no use
	turn     time.Time // the answer; zero: there is none in time
}

func openRates(ctx context.Context, js jetstream.JetStream, now func() time.Time) (*rates, error) {
	kv, err := streams.Bucket(ctx, js, streams.RatesBucket)
	if err != nil {
		return nil, err
	}
	return newRates(kv, now), nil
}

func newRates(kv rateBucket, now func() time.Time) *rates {
	return &rates{kv: kv, now: now, by: map[string]*rate{}}
}

// take takes the next turn of an endpoint that has a limit. The zero time means
// that there is none within the horizon and before a time; zero: no such time.
func (r *rates) take(ctx context.Context, e *registry.Endpoint, before time.Time) (time.Time, error) {
	if limit := r.now().Add(turnHorizon); before.IsZero() || before.After(limit) {
		before = limit
	}
	ask := &turnAsk{endpoint: e, before: before}
	r.mu.Lock()
	row := r.rate(e.ID)
	row.asking++
	r.mu.Unlock()
	err := row.asks.Do(ctx, ask) // if ctx ends, its turn passes unused
	r.mu.Lock()
	row.asking--
	r.mu.Unlock()
	if err != nil {
		return time.Time{}, err
	}
	return ask.turn, nil
}

// rate is held under r.mu.
func (r *rates) rate(endpoint string) *rate {
	e := r.by[endpoint]
	if e == nil {
		if len(r.by) > idleEndpoints {
			for id, idle := range r.by {
				if idle.asking == 0 && r.now().Sub(idle.last) > turnHorizon {
					delete(r.by, id)
				}
			}
		}
		e = &rate{last: r.now().Add(-turnHorizon)}
		e.asks = coalesce.New(coalesce.Options[*turnAsk]{Most: maxLease,
			Serve: func(ctx context.Context, asks []*turnAsk) error { return r.lease(ctx, endpoint, e, asks) }})
		r.by[endpoint] = e
	}
	return e
}

// lease answers those that ask.
func (r *rates) lease(ctx context.Context, endpoint string, e *rate, asks []*turnAsk) error {
	ctx, cancel := context.WithTimeout(ctx, afterwardsBound)
	defer cancel()
	turns, err := r.move(ctx, endpoint, e, asks)
	if err != nil {
		return err
	}
	for i, a := range asks {
		a.turn = turns[i]
	}
	return nil
}

// move gives each of those that ask a turn, and moves the row on by as many.
func (r *rates) move(ctx context.Context, endpoint string, e *rate, asks []*turnAsk) ([]time.Time, error) {
	for {
		now := r.now()
		next, turns, given := e.row.give(now, asks)
		if given == 0 && e.at > 0 && e.row.PerSecond == next.PerSecond {
			return turns, nil // what others have taken since only makes it later
		}
		b, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		at, err := r.kv.Update(ctx, endpoint, b, e.at)
		if err == nil {
			e.row, e.at = next, at
			return turns, nil
		}
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
			return nil, fmt.Errorf("turns of %s: %w", endpoint, err)
		}
		if e.row, e.at, err = r.read(ctx, endpoint); err != nil {
			return nil, err
		}
	}
}

func (r *rates) read(ctx context.Context, endpoint string) (row, uint64, error) {
	entry, err := r.kv.Get(ctx, endpoint)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return row{}, 0, nil
	}
	if err != nil {
		return row{}, 0, fmt.Errorf("turns of %s: %w", endpoint, err)
	}
	var out row
	if err := json.Unmarshal(entry.Value(), &out); err != nil {
		return row{}, 0, fmt.Errorf("turns of %s: %w", endpoint, err)
	}
	return out, entry.Revision(), nil
}

// give lays out the turns. It is pure. A change of the limit begins a new row;
// of two dispatchers that know different limits, the newer revision's holds.
func (w row) give(now time.Time, asks []*turnAsk) (next row, turns []time.Time, given int) {
	next = w
	newest := asks[0].endpoint
	for _, a := range asks {
		if a.endpoint.Revision > newest.Revision {
			newest = a.endpoint
		}
	}
	if newest.Revision >= w.Revision {
		next.Revision = newest.Revision
		if newest.MaxPerSecond != w.PerSecond {
			next.PerSecond, next.Next = newest.MaxPerSecond, now
		}
	}
	if next.Next.Before(now) || next.Next.After(now.Add(lastTurn(next.PerSecond))) {
		next.Next = now // a row that ends later than any can was made before the clock was set back
	}
	turns = make([]time.Time, len(asks))
	for i, a := range asks {
		if next.Next.Before(a.before) {
			turns[i] = next.Next
			next.Next = next.Next.Add(spacing(next.PerSecond))
			given++
		}
	}
	return next, turns, given
}

// lastTurn is how far ahead a turn can be that nobody has: one behind the last
// that is ever given.
func lastTurn(perSecond float64) time.Duration { return turnHorizon + spacing(perSecond) }

// spacing is the time between two turns.
func spacing(perSecond float64) time.Duration {
	return time.Duration(float64(time.Second) / perSecond)
}

// use says when a turn is used: at its time, or when it is late, spaced from
// the one before in this dispatcher. ok is false when it is too late for that.
func (r *rates) use(endpoint string, perSecond float64, turn, now time.Time) (at time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.rate(endpoint)
	if turn.After(now.Add(lastTurn(perSecond))) {
		return time.Time{}, false // it was given before the clock was set back
	}
	if e.last.Round(0).After(now.Round(0).Add(lastTurn(perSecond))) {
		e.last = now.Add(-spacing(perSecond)) // so was this one
	}
	at = turn
	if at.Before(now) {
		at = now
	}
	if spaced := e.last.Add(spacing(perSecond)); turn.Before(now) && at.Before(spaced) {
		at = spaced
	}
	if at.Sub(turn) > turnGrace {
		return time.Time{}, false
	}
	if at.After(e.last) {
		e.last = at
	}
	return at, true
}
