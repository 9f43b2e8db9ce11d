package stage

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Settlement is what becomes of a message after its handler returned.
type Settlement struct {
	kind   settlementKind
	delay  time.Duration
	reason string
}

type settlementKind int

const (
	kindLater settlementKind = iota // the zero value: losing work is never the default
	kindDone
	kindDrop
	kindLeave
)

// Done says that everything the message asked for is stored elsewhere, or over:
// it is removed from its queue.
func Done() Settlement { return Settlement{kind: kindDone} }

// Later hands the message back, to be delivered again after delay at the earliest.
func Later(delay time.Duration) Settlement { return Settlement{kind: kindLater, delay: delay} }

// Drop removes a message that can never be handled. What it was MUST be on
// record before.
func Drop(reason string) Settlement { return Settlement{kind: kindDrop, reason: reason} }

// Leave says that the message has gone to somebody else, who settles it: neither
// removing it nor handing it back is ours. If nobody does, it is delivered again
// after the consumer's ack_wait.
func Leave() Settlement { return Settlement{kind: kindLeave} }

// Settle is the only place where a message is acknowledged, handed back or
// dropped. If it fails, or the process dies before it, JetStream delivers the
// message again after the consumer's ack_wait: whatever the handler stored
// carries deterministic ids, so that doing it again changes nothing.
func Settle(m jetstream.Msg, s Settlement) error {
	switch s.kind {
	case kindDone:
		return m.Ack()
	case kindDrop:
		return m.TermWithReason(s.reason)
	case kindLater:
		return m.NakWithDelay(max(s.delay, 0))
	case kindLeave:
		return nil
	}
	panic("stage: unknown settlement")
}
