package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

const (
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
	// Events of floodType, published flat out beside the others.
	Flood int
	Wait  time.Duration
	// Baseline names the scenario that this one's p99 is compared with.
	Baseline string
}

// result is what a scenario gave.
type result struct {
	Scenario             string  `json:"scenario"`
	What                 string  `json:"what"`
	Sync                 string  `json:"sync"`
	Deliveries           int     `json:"deliveries"`
	DeliveredPerS        float64 `json:"delivered_per_s"`
	Ratio                float64 `json:"ratio"`
	CPUPer1000           float64 `json:"cpu_s_per_1000"`
	EngineCPUPer1000     float64 `json:"clickhouse_cpu_s_per_1000"` // its part of the former
	ReceiverCPUPer1000   float64 `json:"receiver_cpu_s_per_1000"`
	P50                  float64 `json:"p50_ms"`
	P99                  float64 `json:"p99_ms"`
	Missing              int     `json:"missing"`
	Duplicates           int     `json:"duplicates"`
	RSS                  float64 `json:"rss_mb"`
	RSSClickHouse        float64 `json:"rss_clickhouse_mb"`
	LedgerBytes          float64 `json:"ledger_bytes_per_delivery"`
	LedgerCaughtUpAfterS float64 `json:"ledger_caught_up_after_s"`
	// Of attempts after the first: how long after they were due they started.
	Retries     int     `json:"retries"`
	LatenessP50 float64 `json:"lateness_p50_ms"`
	LatenessP99 float64 `json:"lateness_p99_ms"`
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
	own, engine, rcvCPU, start := w.cpu(), w.engineCPU(), cpuSeconds(rcv.cmd.Process.Pid), time.Now()
	published, err := s.publish(ctx, w)
	if err != nil {
		return out, err
	}
	want := s.Events * len(watched)
	log, err := collect(ctx, rcv.first, watched, want, s.Wait)
	if err != nil {
		return out, err
	}
	s.measure(&out, log, published, start, ceilingPerS)
	out.RSS = rssMB(w.cmd.Process.Pid)
	for _, p := range children(w.cmd.Process.Pid) {
		out.RSSClickHouse += rssMB(p)
	}
	behind := time.Now()
	if err := w.ledgerCaughtUp(ctx); err != nil {
		return out, fmt.Errorf("the ledger did not catch up: %w", err)
	}
	out.LedgerCaughtUpAfterS = time.Since(behind).Seconds()
	made, err := w.query("SELECT count() FROM attempts")
	if err != nil {
		return out, err
	}
	out.EngineCPUPer1000 = (w.engineCPU() - engine) / made * 1000
	out.CPUPer1000 = (w.cpu()-own)/made*1000 + out.EngineCPUPer1000
	out.ReceiverCPUPer1000 = (cpuSeconds(rcv.cmd.Process.Pid) - rcvCPU) / made * 1000
	if err := lateness(w, &out); err != nil {
		return out, err
	}
	if _, err := w.query("OPTIMIZE TABLE records FINAL"); err != nil && !strings.Contains(err.Error(), "EOF") {
		return out, err
	}
	bytes, err := w.query("SELECT sum(bytes_on_disk) FROM system.parts WHERE database = 'waybill' AND table = 'records' AND active")
	out.LedgerBytes = bytes / made
	return out, err
}

// lateness asks the ledger how late retries started.
func lateness(w *waybill, out *result) error {
	const late = `SELECT %s FROM (SELECT dateDiff('microsecond', due, started_at) / 1000 AS late FROM (
		SELECT attempt, started_at, lagInFrame(next_attempt_at) OVER (PARTITION BY event_id, endpoint_id ORDER BY attempt) AS due
		FROM attempts) WHERE attempt > 1 AND due IS NOT NULL)`
	for expression, into := range map[string]*float64{"quantile(0.5)(late)": &out.LatenessP50, "quantile(0.99)(late)": &out.LatenessP99} {
		n, err := w.query(fmt.Sprintf(late, "if(count() = 0, 0, "+expression+")"))
		if err != nil {
			return err
		}
		*into = n
	}
	n, err := w.query(fmt.Sprintf(late, "count()"))
	out.Retries = int(n)
	return err
}

// endpoints creates the endpoints and returns the numbers of those watched.
func (s scenario) endpoints(w *waybill, receiver string) (map[uint32]bool, error) {
	watched, n := map[uint32]bool{}, 0
	for _, g := range s.Groups {
		for range g.N {
			n++
			url := fmt.Sprintf("http://%s/%s/%d", receiver, g.Path, n)
			if g.Path == "down" {
				url = fmt.Sprintf("http://127.0.0.1:1/%d", n)
			}
			spec := map[string]any{"tenant": "default", "url": url, "types": []string{loadType}}
			for k, v := range g.Spec {
				spec[k] = v
			}
			if err := w.endpoint(spec); err != nil {
				return nil, err
			}
			if g.Watch {
				watched[uint32(n)] = true
			}
		}
	}
	return watched, nil
}

// warmUp sends a few events, so that connections and code are warm, and forgets them.
func warmUp(ctx context.Context, w *waybill, receiver string, watched map[uint32]bool) error {
	const n = 20
	for i := range n {
		if _, err := w.js.PublishMsg(ctx, event("warm-"+strconv.Itoa(i), loadType)); err != nil {
			return err
		}
	}
	_, err := collect(ctx, receiver, watched, n*len(watched), 30*time.Second)
	return err
}

func event(id, eventType string) *nats.Msg {
	pad := strings.Repeat("x", payloadBytes-130)
	return &nats.Msg{Subject: streams.EventSubject("default", eventType), Header: nats.Header{nats.MsgIdHdr: {id}},
		Data: fmt.Appendf(nil, `{"id":%q,"type":%q,"timestamp":"2026-08-19T15:10:00.000Z","data":{"pad":"%s"}}`, id, eventType, pad)}
}

// publish publishes the events and returns when each was handed to the client.
func (s scenario) publish(ctx context.Context, w *waybill) ([]int64, error) {
	times := make([]int64, s.Events)
	var flood chan error
	if s.Flood > 0 {
		flood = make(chan error, 1)
		go func() { flood <- s.publishFlood(w) }()
	}
	futures := make([]jetstream.PubAckFuture, 0, s.Events)
	begin := time.Now()
	for i := range s.Events {
		if s.Rate > 0 {
			due := begin.Add(time.Duration(float64(i) / s.Rate * float64(time.Second)))
			if d := time.Until(due); d > 0 {
				time.Sleep(d)
			}
		}
		times[i] = time.Now().UnixNano()
		f, err := w.js.PublishMsgAsync(event(eventPrefix+strconv.Itoa(i), loadType), jetstream.WithStallWait(time.Minute))
		if err != nil {
			return nil, err
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if flood != nil {
		return times, <-flood
	}
	return times, nil
}

func (s scenario) publishFlood(w *waybill) error {
	for i := range s.Flood {
		if _, err := w.js.PublishMsgAsync(event("flood-"+strconv.Itoa(i), floodType), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-w.js.PublishAsyncComplete()
	return nil
}

// collect waits until the watched endpoints have accepted n requests, and
// returns the log of them.
func collect(ctx context.Context, receiver string, watched map[uint32]bool, n int, patience time.Duration) ([]entry, error) {
	var out []entry
	deadline := time.Now().Add(patience)
	for {
		b, err := get("http://" + receiver + "/log")
		if err != nil {
			return nil, err
		}
		for _, e := range parseLog(b) {
			if watched[e.Endpoint] {
				out = append(out, e)
			}
		}
		if len(out) >= n || time.Now().After(deadline) {
			return out, ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
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
