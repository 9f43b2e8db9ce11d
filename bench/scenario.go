package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	outageClickHouse = "clickhouse"
	outageKill       = "kill"

	eventPrefix = "bench-"
	loadType    = "bench.load"
	floodType   = "bench.flood"
)

// group is some endpoints of one kind.
type group struct {
	Path  string // the receiver's: ok, fail/20, hang
	N     int
	Watch bool           // its latencies are the scenario's
	Spec  map[string]any // further fields of the endpoints
}

// scenario is one load.
type scenario struct {
	Name   string
	What   string
	Sync   string // "1s" or "always"
	Groups []group
	Events int
	Rate   float64 // events a second; 0: as fast as they are taken
	// Clients is how many producers post over HTTP, each one event at a time, its
	// next once the one before is answered. 0: the events come over NATS.
	Clients int
	// Events of floodType, published flat out beside the others.
	Flood int
	// FloodRate is how many events of floodType a second are published beside the
	// load for as long as it lasts.
	FloodRate float64
	// Pile is how many deliveries wait for a retry before the load begins: events
	// of floodType to endpoints that fail. All of them are made in the end.
	Pile int
	// Outage is what happens in the middle: "clickhouse" is stopped during the
	// load and goes on when all is delivered; "kill" ends everything with kill -9
	// once the last event is stored, and starts it again.
	Outage string
	Wait   time.Duration
	// Baseline names the scenario that this one's p99 is compared with.
	Baseline string
}

// result is what a scenario gave.
type result struct {
	Scenario           string  `json:"scenario"`
	What               string  `json:"what"`
	Sync               string  `json:"sync"`
	Deliveries         int     `json:"deliveries"`
	DeliveredPerS      float64 `json:"delivered_per_s"`
	Ratio              float64 `json:"ratio"`
	CPUPer1000         float64 `json:"cpu_s_per_1000"`
	EngineCPUPer1000   float64 `json:"clickhouse_cpu_s_per_1000"` // its part of the former
	ReceiverCPUPer1000 float64 `json:"receiver_cpu_s_per_1000"`
	P50                float64 `json:"p50_ms"`
	P99                float64 `json:"p99_ms"`
	Missing            int     `json:"missing"`
	Duplicates         int     `json:"duplicates"`
	PostP50            float64 `json:"post_p50_ms,omitempty"` // what producers wait for their answer
	PostP99            float64 `json:"post_p99_ms,omitempty"`
	RSS                float64 `json:"rss_mb"`
	RSSClickHouse      float64 `json:"rss_clickhouse_mb"`
	// PSS is the memory of all processes, what they share counted once.
	PSS float64 `json:"pss_mb"`
	// Kept is what the data directory grew by, when all is delivered and stored.
	Kept                 float64 `json:"kept_bytes_per_delivery"`
	LedgerBytes          float64 `json:"ledger_bytes_per_delivery"`
	LedgerCaughtUpAfterS float64 `json:"ledger_caught_up_after_s"`
	// Of attempts after the first: how long after they were due they started.
	Retries     int     `json:"retries"`
	LatenessP50 float64 `json:"lateness_p50_ms"`
	LatenessP99 float64 `json:"lateness_p99_ms"`
	// Of the load's deliveries: from EVENTS having the event to what it became being
	// stated, and from there to the start of the first attempt.
	ExpandP50, ExpandP99 float64 `json:"-"`
	StartP50, StartP99   float64 `json:"-"`
	// Records a second that the sink stored once ClickHouse was back.
	CatchUpPerS float64 `json:"catch_up_per_s,omitempty"`
	// From kill -9 of everything to the last receipt of what was accepted before.
	HealedS float64 `json:"healed_s,omitempty"`
	// Bytes of Waybill's memory for each delivery of the pile.
	BytesPerWaiting float64 `json:"bytes_per_waiting,omitempty"`
	// P99 over that of the baseline's, in this run.
	P99Factor float64 `json:"p99_factor,omitempty"`
}

func (s scenario) run(ctx context.Context, bin string, ceilingPerS float64) (result, error) {
	out := result{Scenario: s.Name, What: s.What, Sync: s.Sync}
	dir, err := os.MkdirTemp(tempDir(), "waybill-bench-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	rcv, err := startReceiver()
	if err != nil {
		return out, err
	}
	defer rcv.kill()
	w, err := startWaybill(bin, dir, s.Sync)
	if err != nil {
		return out, err
	}
	defer w.stop()
	watched, err := s.endpoints(w, rcv.first)
	if err != nil {
		return out, err
	}
	if err := warmUp(ctx, w, rcv.first, watched); err != nil {
		return out, err
	}
	if s.Pile > 0 {
		before := rssMB(w.cmd.Process.Pid)
		if err := s.pile(ctx, w); err != nil {
			return out, err
		}
		out.BytesPerWaiting = (rssMB(w.cmd.Process.Pid) - before) * 1024 * 1024 / float64(s.Pile)
	}
	if s.Outage == outageClickHouse {
		if err := w.signalEngine(syscall.SIGSTOP); err != nil {
			return out, err
		}
	}
	disk := diskBytes(dir)
	own, engine, rcvCPU, start := w.cpu(), w.engineCPU(), cpuSeconds(rcv.cmd.Process.Pid), time.Now()
	beside := s.flood(ctx, w)
	published, err := s.load(ctx, w, &out)
	if err != nil {
		return out, err
	}
	killed := time.Now()
	if s.Outage == outageKill {
		if err := w.killAndRestart(); err != nil {
			return out, err
		}
		own, engine = 0, 0
	}
	want := s.Events * len(watched)
	log, err := collect(ctx, rcv.first, watched, want, s.Wait)
	if err := errors.Join(err, beside()); err != nil {
		return out, err
	}
	s.measure(&out, log, published, start, ceilingPerS)
	out.RSS = rssMB(w.cmd.Process.Pid)
	for _, p := range children(w.cmd.Process.Pid) {
		out.RSSClickHouse += rssMB(p)
	}
	out.PSS = w.pssMB()
	if s.Pile > 0 {
		if err := w.waiting(ctx, func(n uint64) bool { return n == 0 }); err != nil {
			return out, err
		}
	}
	if s.Outage == outageKill && len(log) > 0 {
		out.HealedS = time.Unix(0, slices.MaxFunc(log,
			func(a, b entry) int { return cmp.Compare(a.At, b.At) }).At).Sub(killed).Seconds()
	}
	if err := s.catchUp(ctx, w, &out); err != nil {
		return out, err
	}
	made, err := w.query("SELECT count() FROM attempts")
	if err != nil {
		return out, err
	}
	out.Kept = float64(diskBytes(dir)-disk) / made
	out.EngineCPUPer1000 = (w.engineCPU() - engine) / made * 1000
	out.CPUPer1000 = (w.cpu()-own)/made*1000 + out.EngineCPUPer1000
	out.ReceiverCPUPer1000 = (cpuSeconds(rcv.cmd.Process.Pid) - rcvCPU) / made * 1000
	return out, errors.Join(lateness(w, &out), stations(w, &out), size(w, &out, made))
}

func (s scenario) measure(out *result, log []entry, published []int64, start time.Time, ceilingPerS float64) {
	out.Deliveries = len(log)
	seen := map[[2]uint64]int{}
	var latencies []float64
	var last int64
	for _, e := range log {
		seen[[2]uint64{e.Event, uint64(e.Endpoint)}]++
		latencies = append(latencies, float64(e.At-published[e.Event])/1e6)
		last = max(last, e.At)
	}
	want := 0
	for _, g := range s.Groups {
		if g.Watch {
			want += g.N * s.Events
		}
	}
	out.Missing, out.Duplicates = want-len(seen), len(log)-len(seen)
	if len(log) == 0 {
		return
	}
	slices.Sort(latencies)
	out.P50, out.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	out.DeliveredPerS = float64(len(seen)) / time.Duration(last-start.UnixNano()).Seconds()
	out.Ratio = out.DeliveredPerS / ceilingPerS
}

// tempDir is on a disk: /tmp may be memory.
func tempDir() string {
	if d := os.Getenv("WAYBILL_BENCH_DIR"); d != "" {
		return d
	}
	return "bench/tmp"
}
