package sink_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/test/testkit"
)

// BenchmarkCatchUp measures the sink against a LEDGER that is full of attempts:
// records a second, and the processor time of the sink, the engine and NATS for
// each record, which a busy machine distorts less. Run it with -benchtime=1x.
func BenchmarkCatchUp(b *testing.B) { catchUp(b, false) }

// BenchmarkCatchUpWithTree is the same while the tree grows and checkpoints are
// signed. It ends when all of it is signed and stored, and also says what tiles
// and checkpoints cost on disk.
func BenchmarkCatchUpWithTree(b *testing.B) { catchUp(b, true) }

func catchUp(b *testing.B, withTree bool) {
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
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) {
		o.BatchAge = sink.DefaultBatchAge
		if withTree {
			o.Tree = h.tree(o.NATS)
		}
	})
	r.waitStored(n)
	b.ReportMetric(n/time.Since(began).Seconds(), "records/s")
	if withTree {
		h.checkSigned(n)
		b.ReportMetric(float64(h.diskOfLog())/n, "log-bytes/record")
	}
	for name, pid := range pids {
		b.ReportMetric(float64((cpuTime(b, pid)-before[name]).Microseconds())/n, name+"-cpu-µs/record")
	}
	r.end()
}

func (h *harness) tree(nc *nats.Conn) sink.Tree {
	h.t.Helper()
	keys, err := checkpoint.OpenKeys(h.keyFile())
	if err != nil {
		h.t.Fatal(err)
	}
	tree, err := transparency.New(transparency.Options{Store: h.db(), NATS: nc, Log: zerolog.New(h.log), Keys: keys})
	if err != nil {
		h.t.Fatal(err)
	}
	return tree
}

func (h *harness) checkSigned(n uint64) {
	h.t.Helper()
	db := h.db()
	eventually(h.t, "a checkpoint over every record", func() bool {
		c, err := db.LastCheckpoint(context.Background(), logOrigin)
		return err == nil && c.Size == n
	})
}

// diskOfLog is what the tables of the log take, merged, as bytes on disk.
func (h *harness) diskOfLog() uint64 {
	h.t.Helper()
	var size uint64
	for _, table := range []string{"tiles", "checkpoints", "checkpoint_signatures"} {
		if err := h.conn.Exec(context.Background(), "OPTIMIZE TABLE "+table+" FINAL"); err != nil {
			h.t.Fatal(err)
		}
	}
	row := h.conn.QueryRow(context.Background(), "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND "+
		"database = currentDatabase() AND table IN ('tiles', 'checkpoints', 'checkpoint_signatures')")
	if err := row.Scan(&size); err != nil {
		h.t.Fatal(err)
	}
	return size
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
