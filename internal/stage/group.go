package stage

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// groupMost and groupBytes bound a batch. The server allows a thousand messages;
// a few hundred spread the cost of an fsync as well, and keep the wait for the
// batch before short. The server holds a batch in memory until it is whole.
const (
	groupMost  = 256
	groupBytes = 4 << 20
)

// groups gathers messages by stream. While one batch of a stream is being
// stored, the next one gathers, so that nothing waits for a timer.
type groups struct {
	p *Publisher

	mu   sync.Mutex
	open map[string]*group // by the first token of the subject: each of our streams has its own
}

// group is the messages of one stream that are not under way yet.
type group struct {
	waiting []*grouped
	busy    bool // a goroutine is storing the stream's batches
}

type grouped struct {
	msg  *nats.Msg
	ack  *jetstream.PubAck
	err  error
	done chan struct{}
}

func newGroups(p *Publisher) *groups { return &groups{p: p, open: map[string]*group{}} }

func (g *groups) tryAll(ctx context.Context, msgs []*nats.Msg, acks []*jetstream.PubAck) error {
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

func (g *groups) add(msgs []*grouped) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range msgs {
		if m == nil {
			continue
		}
		stream, _, _ := strings.Cut(m.msg.Subject, ".")
		o := g.open[stream]
		if o == nil {
			o = &group{}
			g.open[stream] = o
		}
		o.waiting = append(o.waiting, m)
		if !o.busy {
			o.busy = true
			go g.store(o)
		}
	}
}

// store stores batch after batch until nothing waits.
func (g *groups) store(o *group) {
	for {
		g.mu.Lock()
		n := o.next()
		if n == 0 {
			o.busy = false
			g.mu.Unlock()
			return
		}
		batch := o.waiting[:n:n]
		o.waiting = o.waiting[n:]
		g.mu.Unlock()
		g.storeBatch(batch)
		for _, m := range batch {
			close(m.done)
		}
	}
}

// next is how many of the waiting messages make the next batch.
func (o *group) next() int {
	n, size := 0, 0
	for ; n < len(o.waiting) && n < groupMost && (n == 0 || size < groupBytes); n++ {
		size += len(o.waiting[n].msg.Data)
	}
	return n
}

// storeBatch tries the batch as one. A batch is refused whole if one of its ids
// is known, which is how a stage that states something again is answered: then
// each message goes by itself, and gets an answer of its own. The same mends a
// batch whose acknowledgement was lost.
func (g *groups) storeBatch(batch []*grouped) {
	ctx, cancel := context.WithTimeout(context.Background(), publishAckWait)
	defer cancel()
	if len(batch) > 1 {
		msgs := make([]*nats.Msg, len(batch))
		for i, m := range batch {
			// A header of its own: the client writes the batch's into it.
			msgs[i] = &nats.Msg{Subject: m.msg.Subject, Header: maps.Clone(m.msg.Header), Data: m.msg.Data}
		}
		ack, err := jetstreamext.PublishMsgBatch(ctx, g.p.js, msgs, jetstreamext.BatchFlowControl{})
		if err == nil {
			for i, m := range batch {
				m.ack = &jetstream.PubAck{Stream: ack.Stream, Sequence: ack.Sequence - uint64(len(batch)-1-i)}
			}
			return
		}
		g.p.log.Debug().Err(err).Int("messages", len(batch)).Msg("publish.batch_refused")
	}
	msgs, acks := make([]*nats.Msg, len(batch)), make([]*jetstream.PubAck, len(batch))
	for i, m := range batch {
		msgs[i] = m.msg
	}
	err := g.p.tryEach(ctx, msgs, acks)
	for i, m := range batch {
		if m.ack = acks[i]; m.ack == nil {
			m.err = errors.Join(err, errNotStored)
		}
	}
}

var errNotStored = errors.New("the message was not acknowledged")
