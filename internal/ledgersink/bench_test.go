package ledgersink_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledgersink"
)

// BenchmarkCatchUp measures the sink against a LEDGER that is full of attempts.
// Run it with -benchtime=1x.
func BenchmarkCatchUp(b *testing.B) {
	const n = 300_000
	h := newHarness(b)
	for range n / 10_000 {
		h.publish(10_000)
	}
	h.sent = nil
	b.ResetTimer()
	began := time.Now()
	r := h.start(&faulty{Ledger: h.db()}, func(o *ledgersink.Options) { o.BatchAge = ledgersink.DefaultBatchAge })
	r.waitStored(n)
	b.ReportMetric(n/time.Since(began).Seconds(), "records/s")
}
