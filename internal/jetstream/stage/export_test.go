package stage

import (
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// NewEachPublisher never stores messages together.
func NewEachPublisher(nc *nats.Conn, log zerolog.Logger) (*Publisher, error) {
	return withPays(nc, log, flyingMost, func(*costs, int) bool { return false })
}

// NewBatchPublisher stores together whatever can be.
func NewBatchPublisher(nc *nats.Conn, log zerolog.Logger) (*Publisher, error) {
	return withPays(nc, log, 0, func(_ *costs, n int) bool { return n > 1 })
}

func withPays(nc *nats.Conn, log zerolog.Logger, alone int, pays func(*costs, int) bool) (*Publisher, error) {
	p, err := NewPublisher(nc, log)
	if err == nil {
		p.groups.alone, p.groups.pays = alone, pays
	}
	return p, err
}
