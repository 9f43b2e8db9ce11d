package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/streams"
)

const (
	// askBound is what one question to the server gets; listBound what the
	// reading of a whole bucket gets.
	askBound  = 3 * time.Second
	listBound = 20 * time.Second
	// askPause is the pause before a question is asked again.
	askPause = 250 * time.Millisecond
	// asksAtOnce bounds how much is asked of the server at a time.
	asksAtOnce = 8
)

// Silence is something that was asked and did not answer.
type Silence struct {
	What       string // a stream, a consumer, or what else was asked for
	Stream     string // if it is one, or belongs to one
	Leaderless bool   // the server says that nobody leads it
	Err        error
}

// asker asks many questions, each within a bound of its own: what does not
// answer is noted, and takes nothing from the others.
type asker struct {
	group errgroup.Group
	bound time.Duration // of one question
	// until is until when a question is repeated while nobody leads what it is
	// about: an election is no finding.
	until time.Time

	mu       sync.Mutex // guards what follows
	answered int
	silent   []Silence
}

// newAsker makes one that repeats its questions for patience; 0: whoever asks
// comes again soon.
func newAsker(bound, patience time.Duration) *asker {
	a := &asker{bound: bound, until: time.Now().Add(patience)}
	a.group.SetLimit(asksAtOnce)
	return a
}

// about asks one question. It may run beside others.
func (a *asker) about(ctx context.Context, what, stream string, ask func(context.Context) error) {
	a.group.Go(func() error { a.now(ctx, what, stream, ask); return nil })
}

// now asks one question and returns when it is answered or given up.
func (a *asker) now(ctx context.Context, what, stream string, ask func(context.Context) error) {
	for {
		err := a.once(ctx, ask)
		if err != nil && unled(err) && time.Now().Before(a.until) && stage.Pause(ctx, askPause) {
			continue
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.answered++
		} else {
			a.silent = append(a.silent, Silence{What: what, Stream: stream, Leaderless: streams.Leaderless(err), Err: err})
		}
		return
	}
}

// wait returns what did not answer, in order, and an error when nothing did.
// What belongs to a stream that is silent itself is not said again.
func (a *asker) wait() ([]Silence, error) {
	_ = a.group.Wait() // no question fails the others
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.SortFunc(a.silent, func(x, y Silence) int { return compareText(x.What, y.What) })
	if a.answered == 0 && len(a.silent) > 0 {
		return a.silent, fmt.Errorf("%s: %w", a.silent[0].What, a.silent[0].Err)
	}
	return slices.DeleteFunc(a.silent, func(s Silence) bool {
		return s.What != s.Stream && slices.ContainsFunc(a.silent,
			func(o Silence) bool { return o.What == s.Stream && s.Stream != "" })
	}), nil
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (a *asker) once(ctx context.Context, ask func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, a.bound)
	defer cancel()
	err := ask(bounded)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("no answer within %s: %w", a.bound, err)
	}
	return err
}

// unled says that an error may be due to an election.
func unled(err error) bool {
	return streams.Leaderless(err) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
