package stage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// ErrHardStop is the cause with which a handler's context ends when a stop has
// lasted longer than its bound.
var ErrHardStop = errors.New("stopped before the work was finished")

const (
	// handedBackDelay keeps a message that is handed back at a stop from
	// bouncing between stages that are all stopping.
	handedBackDelay = 100 * time.Millisecond
	// reopenPause is the pause before a consumer that went away is opened again.
	reopenPause = 500 * time.Millisecond
	// aheadMessages and aheadBytes bound what waits in lanes. Beyond them a flood
	// does delay the others: by what a burst of this size does not hold.
	aheadMessages = 32 << 10
	aheadBytes    = 64 << 20
	// pullAhead is how much is asked for at once to fill lanes.
	pullAhead = 4096
	// recheckEvery is how often owners of lanes that take none are asked again.
	recheckEvery = 500 * time.Millisecond
)

// Handler does the work of one message and says what becomes of it. Its
// context ends only when a stop exceeds its bound; the cause is ErrHardStop.
type Handler func(ctx context.Context, m Message) Settlement

// LoopOptions configure a Loop. All are required unless marked Optional.
type LoopOptions struct {
	JS       jetstream.JetStream
	Stream   string
	Consumer string
	Handle   Handler
	// Concurrency is how many messages are handled at once.
	Concurrency int
	// Lane names the lane in which a message waits until it is handled. With it
	// the loop takes up to aheadMessages more than it handles, so that a flood
	// in one lane delays no other. Optional: messages are handled as they come.
	Lane func(subject string) Lane
	// Open says whether an owner of lanes takes its next message now: if not, it
	// waits in its lane, without a place in the loop. Whoever says no calls
	// Opened once that changes. Optional: always.
	Open func(owner string) bool
	// AckWait MUST be the consumer's ack_wait: messages in hand for half of it
	// are announced as in progress, so that the lease outlasts the work.
	AckWait time.Duration
	// DrainTimeout bounds how long a stop waits for what is in hand.
	DrainTimeout time.Duration
	// SweepEvery is how often a work queue is looked through for what is left over.
	// Optional: a minute.
	SweepEvery time.Duration
	Now        func() time.Time // Optional: this machine's clock. Default time.Now.
	Log        zerolog.Logger
	// Metrics is where the loop makes its metrics known. Optional.
	Metrics prometheus.Registerer
}

// Loop takes messages from one durable consumer, handles them concurrently and
// settles them. It heals itself: a server that restarts and a consumer that is
// removed and made again are opened anew for as long as Run runs.
type Loop struct {
	o           LoopOptions
	slots       chan struct{}
	ahead       *fairQueue[taken] // nil: without lanes
	stopping    atomic.Bool
	running     sync.WaitGroup
	handled     atomic.Uint64
	redelivered atomic.Uint64

	serverAt, serverSeen time.Time // the server's clock at the last sweep, and when that was

	mu   sync.Mutex // guards what follows
	held map[uint64]*held
}

// taken is a message that was taken and is not being handled yet.
type taken struct {
	msg  jetstream.Msg
	meta *jetstream.MsgMetadata
}

// held is a message in hand.
type held struct {
	msg  jetstream.Msg
	beat time.Time // when the server was last told that it is in progress
}

// OpenLoop is NewLoop for a consumer that exists: AckWait is that consumer's.
func OpenLoop(ctx context.Context, o LoopOptions) (l *Loop, err error) {
	if o.AckWait, err = AckWait(ctx, o.JS, o.Stream, o.Consumer); err != nil {
		return nil, err
	}
	return NewLoop(o)
}

// AckWait asks for the ack_wait of a consumer.
func AckWait(ctx context.Context, js jetstream.JetStream, stream, consumer string) (time.Duration, error) {
	c, err := js.Consumer(ctx, stream, consumer)
	if err != nil {
		return 0, fmt.Errorf("consumer %s/%s: %w; mend it with: waybill streams apply", stream, consumer, err)
	}
	return c.CachedInfo().Config.AckWait, nil
}

// NewLoop checks the options.
func NewLoop(o LoopOptions) (*Loop, error) {
	if o.JS == nil || o.Stream == "" || o.Consumer == "" || o.Handle == nil || o.Concurrency < 1 || o.AckWait <= 0 {
		return nil, fmt.Errorf("stage loop %s/%s: an option is missing", o.Stream, o.Consumer)
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = defaultSweepEvery
	}
	l := &Loop{o: o, slots: make(chan struct{}, o.Concurrency), held: map[uint64]*held{}}
	if o.Lane != nil {
		l.ahead = newFairQueue[taken](aheadMessages, aheadBytes, o.Open)
	}
	if o.Metrics != nil {
		if err := l.register(o.Metrics); err != nil {
			return nil, fmt.Errorf("stage loop %s/%s: %w", o.Stream, o.Consumer, err)
		}
	}
	return l, nil
}

// Handled counts the messages whose handler has returned.
func (l *Loop) Handled() uint64 { return l.handled.Load() }

// InHand counts the messages whose handler has not returned.
func (l *Loop) InHand() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}

// Run works until ctx ends, then stops: nothing new is started, what was taken
// and not started is handed back, what is in hand is finished or, after
// DrainTimeout, interrupted and handed back. It returns when nothing is in hand.
func (l *Loop) Run(ctx context.Context) error {
	work, hardStop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer hardStop(nil)
	beats := make(chan struct{})
	go func() { defer close(beats); l.keepAlive(work) }()
	l.running.Go(func() { l.sweep(ctx, work) })
	l.running.Go(func() { l.watchClock(ctx) })
	if l.ahead != nil {
		l.running.Add(1)
		go func() { defer l.running.Done(); l.takeTurns(ctx, work) }()
		go l.recheck(ctx)
	}

	for ctx.Err() == nil {
		if err := l.consume(ctx, work); err != nil && ctx.Err() == nil {
			l.o.Log.Error().Err(err).Str("stream", l.o.Stream).Str("consumer", l.o.Consumer).Msg(logevent.ConsumerLost)
		}
		Pause(ctx, reopenPause)
	}
	finished := make(chan struct{})
	go func() { l.running.Wait(); close(finished) }()
	bound := time.NewTimer(l.o.DrainTimeout)
	defer bound.Stop()
	select {
	case <-finished:
	case <-bound.C:
		l.o.Log.Warn().Int("in_hand", l.InHand()).Dur("bound", l.o.DrainTimeout).Msg(logevent.StopInterrupting)
		hardStop(ErrHardStop)
		<-finished
	}
	hardStop(nil)
	<-beats
	return nil
}

// consume opens the consumer and feeds handlers until ctx ends or the consumer is gone.
func (l *Loop) consume(ctx, work context.Context) error {
	c, err := l.o.JS.Consumer(ctx, l.o.Stream, l.o.Consumer)
	if err != nil {
		return fmt.Errorf("consumer %s/%s: %w", l.o.Stream, l.o.Consumer, err)
	}
	pull := max(l.o.Concurrency, 2)
	if l.ahead != nil {
		pull = max(pull, pullAhead) // a flood must be taken faster than it comes
	}
	failed := make(chan error, 1)
	cc, err := c.Consume(func(m jetstream.Msg) { l.take(ctx, work, m) },
		jetstream.PullMaxMessages(pull),
		jetstream.PullExpiry(30*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) {
				select {
				case failed <- err:
				default:
				}
				return
			}
			l.o.Log.Debug().Err(err).Str("consumer", l.o.Consumer).Msg(logevent.ConsumerError)
		}))
	if err != nil {
		return fmt.Errorf("consumer %s/%s: %w", l.o.Stream, l.o.Consumer, err)
	}
	select {
	case <-ctx.Done():
		// Drain passes what is buffered here to take, which hands it back.
		l.stopping.Store(true)
		cc.Drain()
		<-cc.Closed()
		return nil
	case err := <-failed:
		cc.Stop()
		return err
	case <-cc.Closed():
		return errors.New("the subscription ended")
	}
}

// take starts a handler once a slot is free, or puts the message into its
// lane. It runs on the subscription's goroutine: blocking it is what stops
// further messages from being taken.
func (l *Loop) take(ctx, work context.Context, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		l.o.Log.Error().Err(err).Str("subject", m.Subject()).Msg(logevent.MessageMalformed)
		return
	}
	if !l.hold(meta.Sequence.Stream, m) {
		return // delivered again while in hand: whoever holds it settles it
	}
	t := taken{msg: m, meta: meta}
	if l.ahead != nil {
		if !l.ahead.put(ctx, l.o.Lane(m.Subject()), t, len(m.Data())) {
			l.settle(meta.Sequence.Stream, m, Later(handedBackDelay))
		}
		if ctx.Err() != nil {
			l.handBack() // takeTurns may have ended already
		}
		return
	}
	if !l.slot(ctx) {
		l.settle(meta.Sequence.Stream, m, Later(handedBackDelay))
		return
	}
	l.start(work, t)
}

// takeTurns starts handlers for what waits in lanes until ctx ends, then hands
// back what is left.
func (l *Loop) takeTurns(ctx, work context.Context) {
	for l.slot(ctx) {
		t, ok := l.ahead.next(ctx)
		if !ok {
			<-l.slots
			break
		}
		l.start(work, t)
	}
	l.handBack()
}

// handBack empties the lanes.
func (l *Loop) handBack() {
	for _, t := range l.ahead.empty() {
		l.settle(t.meta.Sequence.Stream, t.msg, Later(handedBackDelay))
	}
}

// Opened says that an owner of lanes may take messages again. See LoopOptions.Open.
func (l *Loop) Opened(owner string) {
	if l.ahead != nil {
		l.ahead.opened(owner)
	}
}

// recheck asks owners again that take none, in case that nobody says so.
func (l *Loop) recheck(ctx context.Context) {
	t := time.NewTicker(recheckEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.ahead.recheck()
		}
	}
}

// start handles a message in a slot that was taken for it.
func (l *Loop) start(work context.Context, t taken) {
	if t.meta.NumDelivered > 1 {
		l.redelivered.Add(1)
	}
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		release := sync.OnceFunc(func() { <-l.slots })
		defer release()
		s := l.o.Handle(work, Message{Subject: t.msg.Subject(), Header: t.msg.Headers(), Data: t.msg.Data(),
			Seq: t.meta.Sequence.Stream, StoredAt: t.meta.Timestamp.UTC(), Deliveries: t.meta.NumDelivered, release: release})
		l.handled.Add(1)
		l.settle(t.meta.Sequence.Stream, t.msg, s)
	}()
}

func (l *Loop) slot(ctx context.Context) bool {
	if l.stopping.Load() || ctx.Err() != nil {
		return false
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *Loop) hold(seq uint64, m jetstream.Msg) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.held[seq]; ok {
		return false
	}
	l.held[seq] = &held{msg: m, beat: time.Now()}
	return true
}

func (l *Loop) settle(seq uint64, m jetstream.Msg, s Settlement) {
	if err := Settle(m, s); err != nil {
		l.o.Log.Warn().Err(err).Str("subject", m.Subject()).Msg(logevent.SettleFailed)
	}
	l.mu.Lock()
	delete(l.held, seq)
	l.mu.Unlock()
}

// keepAlive tells the server that messages in hand are being worked on.
func (l *Loop) keepAlive(ctx context.Context) {
	t := time.NewTicker(l.o.AckWait / 8)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			for _, m := range l.dueBeats(now) {
				if err := m.InProgress(); err != nil {
					l.o.Log.Debug().Err(err).Msg(logevent.InProgressFailed)
				}
			}
		}
	}
}

func (l *Loop) dueBeats(now time.Time) []jetstream.Msg {
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []jetstream.Msg
	for _, h := range l.held {
		if now.Sub(h.beat) >= l.o.AckWait/2 {
			h.beat = now
			due = append(due, h.msg)
		}
	}
	return due
}
