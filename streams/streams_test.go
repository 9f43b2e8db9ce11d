package streams_test

import (
	"fmt"
	"testing"

	"github.com/waybill-dev/waybill/streams"
)

func TestAPartitionIsStableWhenPartitionsAreAdded(t *testing.T) {
	const n = 10_000
	moved, counts := 0, make([]int, 5)
	for i := range n {
		ep := fmt.Sprintf("ep_%026d", i)
		a, b := streams.Partition(ep, 4), streams.Partition(ep, 5)
		counts[b]++
		if a != b {
			moved++
			if b != 4 {
				t.Fatalf("%s moved from %d to %d, which is not the partition that was added", ep, a, b)
			}
		}
	}
	for p, c := range counts {
		if c < n/5*8/10 || c > n/5*12/10 {
			t.Errorf("partition %d has %d of %d endpoints", p, c, n)
		}
	}
	t.Logf("%d of %d moved", moved, n)
}
