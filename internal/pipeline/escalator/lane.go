package escalator

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// laneWidth is how many messages are under way on one channel at once: a
// channel that hangs delays no other, and its own only from the fifth on.
const laneWidth = 4

// job is one try of one message on one channel.
type job struct {
	a       *actor
	channel string
	number  int // of the message
	try     int
	step    int
	to      uint64
	members []member
	tellBy  time.Time
	policy  string
	action  channel.Action
	first   bool // no channel has told of all of them yet
	again   bool // a reminder
	message channel.Message
	tried   time.Time
}

// tried is what came of a job.
type tried struct {
	job    *job
	result channel.Result
}

// lanes are the queues of the channels, each in order of deadline.
type lanes struct {
	s  *session
	mu sync.Mutex // guards what follows
	by map[string]*lane
	wg sync.WaitGroup
}

type lane struct {
	queue byDeadline
	busy  int
}

// submit queues a job; it never blocks.
func (l *lanes) submit(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.by[j.channel]
	if q == nil {
		q = &lane{}
		l.by[j.channel] = q
	}
	heap.Push(&q.queue, j)
	if q.busy < laneWidth {
		q.busy++
		l.wg.Go(func() { l.work(q) })
	}
}

// work runs jobs of one lane until there is none.
func (l *lanes) work(q *lane) {
	for {
		l.mu.Lock()
		if q.queue.Len() == 0 {
			q.busy--
			l.mu.Unlock()
			return
		}
		j := heap.Pop(&q.queue).(*job)
		l.mu.Unlock()
		l.s.tell(j)
	}
}

// drain waits for what is under way, at most so long; what waits is dropped:
// whoever comes next takes it up from the bucket.
func (l *lanes) drain(bound time.Duration) {
	l.mu.Lock()
	for _, q := range l.by {
		q.queue = nil
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		l.s.log.Warn().Dur("bound", bound).Msg(logevent.StopInterrupting)
	}
}

type byDeadline []*job

func (q byDeadline) Len() int           { return len(q) }
func (q byDeadline) Less(i, j int) bool { return q[i].tellBy.Before(q[j].tellBy) }
func (q byDeadline) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byDeadline) Push(x any)        { *q = append(*q, x.(*job)) }
func (q *byDeadline) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1], *q = nil, old[:len(old)-1]
	return x
}

// tell makes the try, reports it to the incident, and puts it on record.
func (s *session) tell(j *job) {
	if !s.lease.Valid() {
		return // another escalator has the incident by now
	}
	r := s.send(j)
	select {
	case j.a.results <- tried{j, r}:
	case <-j.a.gone: // over meanwhile: the try is on record all the same
	}
	// Beside the lane: while LEDGER is full or away, people are still told.
	s.lanes.wg.Go(func() {
		s.record(s.records, j, r)
		select {
		case j.a.stored <- struct{}{}:
		case <-j.a.gone:
		}
	})
}

// send makes the try on the channel as it is configured now.
func (s *session) send(j *job) channel.Result {
	j.tried = time.Now()
	if j.channel == escalation.Nobody {
		return s.alert(j)
	}
	c, ok := s.channels.Get(j.channel)
	if !ok {
		return channel.Result{Class: outcome.ClassTerminal, Outcome: outcome.Misconfigured, StartedAt: j.tried.UTC(),
			Error: "there is no channel " + j.channel + "; make it with: waybill channel create"}
	}
	c, err := c.Open(s.o.Keys)
	if err != nil {
		return channel.Result{Class: outcome.ClassTerminal, Outcome: outcome.Misconfigured, StartedAt: j.tried.UTC(),
			Error: err.Error()}
	}
	ctx := context.Background()
	if left := time.Until(j.tellBy); left > 0 && j.first {
		// A try that hangs leaves time for another one.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(left/2, minTry))
		defer cancel()
	}
	return s.o.Sender.Send(ctx, c, j.message)
}

// minTry is what a try gets however near the deadline is.
const minTry = 2 * time.Second
