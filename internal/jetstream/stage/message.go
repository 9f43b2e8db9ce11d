package stage

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Message is one message taken from a consumer.
type Message struct {
	Subject string
	Header  nats.Header
	Data    []byte
	// Seq is its sequence in its stream; StoredAt is when it was stored there.
	Seq      uint64
	StoredAt time.Time
	// Deliveries counts the times it was delivered, this one included. It can
	// fall back when the server is killed, so it is a hint, never a number to
	// rely on: above 1 means that somebody held it before.
	Deliveries uint64

	release func()
}

// HeldSince is when somebody else can first have held the message. Nothing says
// that nobody has: a server that is killed, or whose place as leader another one
// took, may forget that it handed the message out, and that it was acknowledged,
// and our connection need not have ended.
func (m Message) HeldSince() time.Time { return m.StoredAt }

// Release gives the message's place in the loop to the next one. A handler that
// has nothing left to do but to wait calls it; what it holds it still settles.
func (m Message) Release() {
	if m.release != nil {
		m.release()
	}
}
