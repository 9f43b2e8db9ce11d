package stage

import (
	"slices"
	"time"
)

// An atomic batch costs a server about as much as ten messages by themselves,
// whatever its size, if it syncs every write and has one replica: 18 files
// opened, 3 folders made, 4 fsyncs. There it pays from 16 messages on, measured
// in processor time; with three replicas, where a batch gathers in memory, from
// two or three; where writes are not synced, hardly ever. Which of it a server
// is, nobody tells its clients: so the publisher measures, for each stream.
const (
	// flyingMost is how many messages go each by itself, without waiting for one
	// another. More means that the server is behind: they gather.
	flyingMost = 16
	// measuredFrom is the smallest round whose time says what one message costs,
	// rather than how long the way to the server and back is.
	measuredFrom = 8
	// costSamples are kept of each kind. The best of them counts: whatever else a
	// machine is busy with only ever adds to a time.
	costSamples = 16
	// costKnown rounds tell what a message costs, and after measureAgain batches it
	// is measured again.
	costKnown    = 3
	measureAgain = 64
	// batchMargin is by how much a batch must be faster before it is taken: a
	// batch costs more processor time than its time says.
	batchMargin = 2
	// batchAssumed is what a batch takes before one was measured.
	batchAssumed = 2 * time.Millisecond
)

// costs is what storing has lately taken. The zero value knows nothing.
type costs struct {
	message samples // each message of rounds that went message by message
	whole   samples // batches
	rounds  int     // batches since a message was last measured
}

func (c *costs) each(n int, took time.Duration) {
	if n >= measuredFrom {
		c.message.add(took / time.Duration(n))
		c.rounds = 0
	}
}

func (c *costs) batch(took time.Duration) {
	c.whole.add(took)
	c.rounds++
}

// batchPays says whether n messages are better stored as one batch.
func (c *costs) batchPays(n int) bool {
	if n < 2 || c.message.next < costKnown || c.rounds >= measureAgain {
		return false
	}
	whole := c.whole.best()
	if c.whole.next < costSamples {
		whole = batchAssumed // one stall must not rule batches out
	}
	return time.Duration(n)*c.message.best() > batchMargin*whole
}

// samples are the last few of a measure.
type samples struct {
	of   [costSamples]time.Duration
	next int
}

func (s *samples) add(d time.Duration) {
	s.of[s.next%costSamples] = max(d, 1)
	s.next++
}

// best is the smallest; 0: none.
func (s *samples) best() time.Duration {
	if s.next == 0 {
		return 0
	}
	return slices.Min(s.of[:min(s.next, costSamples)])
}
