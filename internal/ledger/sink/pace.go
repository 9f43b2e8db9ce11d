package sink

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// An insert costs ClickHouse as much for one record as for some hundred: a part
// of 28 files, and a merge later. So a steady trickle is stored once in an age;
// what comes after a pause, and what somebody waits for, soon.
const (
	// soonOf an age is how long the first record after a pause waits for those
	// that come with it: what became of one event is some records within
	// milliseconds.
	soonOf = 20
	// askedAfter is how long a batch stays open for what is under way when
	// somebody asks: it was stored before the question, and is read after it.
	askedAfter = 5 * time.Millisecond
	// askedEvery bounds what many questions cost.
	askedEvery = 100 * time.Millisecond
	// askersMost are answered when the batch is stored. Further ones are not, and
	// go by what they find.
	askersMost = 1024
)

// pace says when a batch ends.
type pace struct {
	age time.Duration

	mu     sync.Mutex // guards what follows
	handed time.Time  // when the last batch ended
	finish context.CancelFunc
	askers []*nats.Msg
}

// begin of a batch, which finish ends.
func (p *pace) begin(finish context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish = finish
	if len(p.askers) > 0 {
		p.hurry()
	}
}

// first is told of the batch's first record: the batch ends at due at the latest.
func (p *pace) first(at time.Time, finish context.CancelFunc) {
	p.mu.Lock()
	wait := due(at, p.handed, p.age).Sub(at)
	p.mu.Unlock()
	time.AfterFunc(wait, finish)
}

// due is when a batch ends that got its first record at a time, and the one
// before it ended at another. A record waits an age at most.
func due(first, handed time.Time, age time.Duration) time.Time {
	at := first.Add(age / soonOf)
	if next := handed.Add(age); next.After(at) {
		at = next
	}
	if most := first.Add(age); at.After(most) {
		at = most
	}
	return at
}

// end of a batch: who is to be told once it is stored.
func (p *pace) end(records bool) []*nats.Msg {
	p.mu.Lock()
	defer p.mu.Unlock()
	if records {
		p.handed = time.Now()
	}
	askers := p.askers
	p.askers, p.finish = nil, nil
	return askers
}

// ask is called when somebody wants to read what LEDGER has.
func (p *pace) ask(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.askers) < askersMost {
		p.askers = append(p.askers, m)
	}
	if p.finish != nil {
		p.hurry()
	}
}

// hurry ends the present batch as soon as that may be. p.mu is held.
func (p *pace) hurry() {
	time.AfterFunc(max(askedAfter, time.Until(p.handed.Add(askedEvery))), p.finish)
}

// stored tells those who asked that they find what they asked for.
func (b batch) stored() {
	for _, m := range b.askers {
		_ = m.Respond(nil) // whoever asks waits for a moment, not for ever
	}
}
