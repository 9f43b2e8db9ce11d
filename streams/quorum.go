package streams

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoQuorum says that a stream or consumer of a cluster can do nothing.
var ErrNoQuorum = errors.New("it has no leader, or its leader is alone")

// notAvailable is the server's code for "JetStream system temporarily unavailable".
const notAvailable jetstream.ErrorCode = 10008

// Unheard is for how long a leader may hear nothing of a replica, which answers
// every heartbeat, once a second.
const Unheard = 15 * time.Second

// Gone says that a replica could not take over, as its leader sees it.
func Gone(p *jetstream.PeerInfo) bool { return p.Offline || p.Active >= Unheard }

// Quorum says what keeps a stream or consumer from working, given what a server
// answered: also one that nobody leads answers, and a leader that was left alone
// does for a while. nil stands for a server without a cluster.
func Quorum(c *jetstream.ClusterInfo) error {
	if c == nil {
		return nil
	}
	if c.Leader == "" {
		return fmt.Errorf("nobody leads it: %w", ErrNoQuorum)
	}
	gone := 0
	for _, p := range c.Replicas {
		if Gone(p) {
			gone++
		}
	}
	if all := len(c.Replicas) + 1; 2*(all-gone) <= all {
		return fmt.Errorf("%d of the %d servers that hold it are gone: %w", gone, all, ErrNoQuorum)
	}
	return nil
}

// Leaderless says that an error means that JetStream, a stream or a consumer can
// do nothing for now.
func Leaderless(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, ErrNoQuorum) || errors.As(err, &api) && api.ErrorCode == notAvailable
}
