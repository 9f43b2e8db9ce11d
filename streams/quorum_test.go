package streams

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestAStreamWorksWhileMostOfThoseThatHoldItAreThere(t *testing.T) {
	well := func() *jetstream.PeerInfo { return &jetstream.PeerInfo{Current: true} }
	off := func() *jetstream.PeerInfo { return &jetstream.PeerInfo{Offline: true} }
	mute := func() *jetstream.PeerInfo { return &jetstream.PeerInfo{Active: time.Minute} }
	peers := func(p ...*jetstream.PeerInfo) []*jetstream.PeerInfo { return p }
	for name, c := range map[string]struct {
		info *jetstream.ClusterInfo
		ok   bool
	}{
		"no cluster":        {nil, true},
		"one replica":       {&jetstream.ClusterInfo{Leader: "n1"}, true},
		"nobody leads":      {&jetstream.ClusterInfo{Replicas: peers(well(), well())}, false},
		"all there":         {&jetstream.ClusterInfo{Leader: "n1", Replicas: peers(well(), well())}, true},
		"one of three gone": {&jetstream.ClusterInfo{Leader: "n1", Replicas: peers(well(), off())}, true},
		"two of three gone": {&jetstream.ClusterInfo{Leader: "n1", Replicas: peers(mute(), off())}, false},
		"two of five gone": {&jetstream.ClusterInfo{Leader: "n1", Replicas: peers(mute(), off(), well(), well())},
			true},
		"one is behind, and here": {&jetstream.ClusterInfo{Leader: "n1",
			Replicas: peers(&jetstream.PeerInfo{Lag: 1e9}, off())}, true},
	} {
		if err := Quorum(c.info); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrNoQuorum) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !Leaderless(&jetstream.APIError{Code: 503, ErrorCode: 10008}) || Leaderless(errors.New("other")) ||
		Leaderless(nil) {
		t.Error("Leaderless")
	}
}
