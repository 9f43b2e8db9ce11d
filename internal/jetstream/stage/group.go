package stage

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// groupMost and groupBytes bound a batch. The server allows a thousand messages;
// a few hundred spread the cost of an fsync as well, and keep the wait for the
// batch before short. The server holds a batch in memory until it is whole.
const (
	groupMost  = 256
	groupBytes = 4 << 20
)

// groups publishes by stream: message by message for as long as the server keeps
// up, and otherwise in atomic batches if they are cheaper there, see costs. While
// one batch of a stream is being stored, the next one gathers, so that nothing
// waits for a timer.
type groups struct {
	p     *Publisher
	alone int                            // how many messages go each by itself, see flyingMost
	pays  func(c *costs, batch int) bool // see costs.batchPays

	mu   sync.Mutex
	open map[string]*group // by the first token of the subject: each of our streams has its own
}

// group is what is under way to one stream.
type group struct {
	costs   costs
	flying  int           // messages under way each by itself, outside of busy's rounds
	landed  chan struct{} // gets a token when flying falls to 0 while busy; capacity 1
	waiting []*grouped
	busy    bool // a goroutine is storing what waits
}

type grouped struct {
	msg  *nats.Msg
	ack  *jetstream.PubAck
	err  error
	done chan struct{}
}

func newGroups(p *Publisher) *groups {
	return &groups{p: p, alone: flyingMost, pays: (*costs).batchPays, open: map[string]*group{}}
}

// tryAll publishes those messages that have no acknowledgement yet, and waits for them.
func (g *groups) tryAll(ctx context.Context, msgs []*nats.Msg, acks []*jetstream.PubAck) error {
	if o := g.board(msgs); o != nil {
		began := time.Now()
		err := g.p.tryEach(ctx, msgs, acks)
		g.land(o, len(msgs), time.Since(began), err)
		return err
	}
	mine := make([]*grouped, len(msgs))
	for i, m := range msgs {
		if acks[i] == nil {
			mine[i] = &grouped{msg: m, done: make(chan struct{})}
		}
	}
	g.add(mine)
	var failed error
	for i, m := range mine {
		if m == nil {
			continue
		}
		select {
		case <-m.done:
			acks[i], failed = m.ack, errors.Join(failed, m.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return failed
}

// board finds the stream of messages that are few enough to go each by itself,
// and at once. nil: they are for several streams, or the server is behind.
func (g *groups) board(msgs []*nats.Msg) *group {
	stream := streamOf(msgs[0])
	for _, m := range msgs[1:] {
		if streamOf(m) != stream {
			return nil
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.of(stream)
	if o.busy || o.flying+len(msgs) > g.alone {
		return nil
	}
	o.flying += len(msgs)
	return o
}

// land is told of n messages that have been under way for as long as took.
func (g *groups) land(o *group, n int, took time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && n == o.flying {
		o.costs.each(n, took) // nothing else was in their way
	}
	if o.flying -= n; o.flying == 0 && o.busy {
		select {
		case o.landed <- struct{}{}:
		default:
		}
	}
}

// streamOf names the stream by the first token of its subjects.
func streamOf(m *nats.Msg) string {
	stream, _, _ := strings.Cut(m.Subject, ".")
	return stream
}

// of is what is under way to a stream. g.mu is held.
func (g *groups) of(stream string) *group {
	o := g.open[stream]
	if o == nil {
		o = &group{landed: make(chan struct{}, 1)}
		g.open[stream] = o
	}
	return o
}

func (g *groups) add(msgs []*grouped) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range msgs {
		if m == nil {
			continue
		}
		o := g.of(streamOf(m.msg))
		o.waiting = append(o.waiting, m)
		if !o.busy {
			o.busy = true
			go g.store(o)
		}
	}
}

// store stores what waits, round after round, until nothing does.
func (g *groups) store(o *group) {
	for {
		g.awaitLanding(o)
		g.mu.Lock()
		n := o.next()
		if n == 0 {
			o.busy = false
			g.mu.Unlock()
			return
		}
		round := o.waiting[:n:n]
		o.waiting = o.waiting[n:]
		batch := g.pays(&o.costs, n)
		g.mu.Unlock()

		began := time.Now()
		asBatch, stored := g.storeRound(round, batch)
		took := time.Since(began)
		for _, m := range round {
			close(m.done)
		}
		g.mu.Lock()
		switch {
		case asBatch:
			o.costs.batch(took)
		case stored && !batch:
			o.costs.each(n, took)
		}
		g.mu.Unlock()
	}
}

// awaitLanding waits until nothing is under way beside the rounds, so that what
// a round takes is its own time. Meanwhile the round gathers.
func (g *groups) awaitLanding(o *group) {
	for {
		g.mu.Lock()
		flying := o.flying
		g.mu.Unlock()
		if flying == 0 {
			return
		}
		<-o.landed
	}
}

// next is how many of the waiting messages make the next round.
func (o *group) next() int {
	n, size := 0, 0
	for ; n < len(o.waiting) && n < groupMost && (n == 0 || size < groupBytes); n++ {
		size += len(o.waiting[n].msg.Data)
	}
	return n
}

// storeRound stores messages, as a batch if that is asked for. A batch is refused
// whole if one of its ids is known, which is how a stage that states something
// again is answered: then each message goes by itself, and gets an answer of its
// own. The same mends a batch whose acknowledgement was lost.
func (g *groups) storeRound(round []*grouped, batch bool) (asBatch, stored bool) {
	ctx, cancel := context.WithTimeout(context.Background(), publishAckWait)
	defer cancel()
	if batch {
		msgs := make([]*nats.Msg, len(round))
		for i, m := range round {
			// A header of its own: the client writes the batch's into it.
			msgs[i] = &nats.Msg{Subject: m.msg.Subject, Header: maps.Clone(m.msg.Header), Data: m.msg.Data}
		}
		ack, err := jetstreamext.PublishMsgBatch(ctx, g.p.js, msgs, jetstreamext.BatchFlowControl{})
		if err == nil {
			for i, m := range round {
				m.ack = &jetstream.PubAck{Stream: ack.Stream, Sequence: ack.Sequence - uint64(len(round)-1-i)}
			}
			return true, true
		}
		g.p.log.Debug().Err(err).Int("messages", len(round)).Msg(logevent.PublishBatchRefused)
	}
	msgs, acks := make([]*nats.Msg, len(round)), make([]*jetstream.PubAck, len(round))
	for i, m := range round {
		msgs[i] = m.msg
	}
	err := g.p.tryEach(ctx, msgs, acks)
	for i, m := range round {
		if m.ack = acks[i]; m.ack == nil {
			m.err = errors.Join(err, errNotStored)
		}
	}
	return false, err == nil
}

var errNotStored = errors.New("the message was not acknowledged")
