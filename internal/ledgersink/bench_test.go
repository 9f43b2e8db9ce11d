package ledgersink_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/engine"
	"github.com/waybill-dev/waybill/internal/ledgersink"
	"github.com/waybill-dev/waybill/internal/testkit"
)

// BenchmarkCatchUp measures the sink against a LEDGER that is full of attempts:
// records a second, and the processor time of the sink, the engine and NATS for
// each record, which a busy machine distorts less. Run it with -benchtime=1x.
func BenchmarkCatchUp(b *testing.B) {
	const n = 300_000
	e := testkit.StartClickHouseWith(b, engine.Options{Dir: b.TempDir()})
	h := newHarnessOn(b, e.DSN("", "waybill"))
	for range n / 10_000 {
		h.publish(10_000)
		h.sent = nil
	}
	pids := map[string]int{"sink": os.Getpid(), "engine": e.Pid(), "nats": h.nats.Pid()}
	before := map[string]time.Duration{}
	for name, pid := range pids {
		before[name] = cpuTime(b, pid)
	}
	b.ResetTimer()
	began := time.Now()
	r := h.start(&faulty{Ledger: h.db()}, func(o *ledgersink.Options) { o.BatchAge = ledgersink.DefaultBatchAge })
	r.waitStored(n)
	b.ReportMetric(n/time.Since(began).Seconds(), "records/s")
	for name, pid := range pids {
		b.ReportMetric(float64((cpuTime(b, pid)-before[name]).Microseconds())/n, name+"-cpu-µs/record")
	}
	r.end()
}

// cpuTime is a process's user and system time, in Linux's ticks of 10 ms.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
