package stage

import (
	"testing"
	"time"
)

// What a message and a batch took decides how many messages make a batch; the
// figures are those of servers that were measured.
func TestABatchIsTakenFromWhereItPays(t *testing.T) {
	for name, c := range map[string]struct {
		message, batch time.Duration
		from           int // 0: never
	}{
		"each write synced, one replica":    {230 * time.Microsecond, 2 * time.Millisecond, 18},
		"each write synced, three replicas": {400 * time.Microsecond, 600 * time.Microsecond, 4},
		"a slow disk":                       {8 * time.Millisecond, 40 * time.Millisecond, 11},
		"writes not synced":                 {17 * time.Microsecond, 3 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var k costs
			for range costSamples {
				k.each(groupMost, groupMost*c.message)
				k.batch(c.batch)
			}
			k.each(groupMost, groupMost*c.message)
			from := 0
			for n := 1; n <= groupMost; n++ {
				if k.batchPays(n) {
					from = n
					break
				}
			}
			if from != c.from {
				t.Errorf("batches from %d messages on, want %d", from, c.from)
			}
		})
	}
}

func TestWithoutMeasuresNothingIsBatched(t *testing.T) {
	var c costs
	for range costKnown {
		if c.batchPays(groupMost) {
			t.Error("a batch before it was known what a message costs")
		}
		c.each(measuredFrom-1, time.Hour) // the way to the server, rather than a message's cost
		c.each(measuredFrom, time.Second)
	}
	if !c.batchPays(2) {
		t.Error("no batch where a message takes 125 ms")
	}
}

// A server, or a machine, that stalled is not held to it.
func TestOneStallDecidesNothing(t *testing.T) {
	var c costs
	for range costKnown {
		c.each(100, 20*time.Millisecond)
	}
	c.batch(10 * time.Second)
	if !c.batchPays(64) {
		t.Error("one slow batch ruled out batches")
	}
	for range costSamples {
		c.each(100, 10*time.Second)
	}
	for range measureAgain {
		if !c.batchPays(64) {
			t.Fatal("no batch where a message takes 100 ms")
		}
		c.batch(2 * time.Millisecond)
	}
	if c.batchPays(64) {
		t.Fatal("what a message costs is not measured again")
	}
	for range costSamples {
		c.each(64, 64*17*time.Microsecond)
	}
	if c.batchPays(64) {
		t.Error("batches where they do not pay any more")
	}
}
