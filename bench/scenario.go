package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
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
	own, engine, rcvCPU, start := w.cpu(), w.engineCPU(), cpuSeconds(rcv.cmd.Process.Pid), time.Now()
	if s.Outage == outageClickHouse {
		if err := w.signalEngine(syscall.SIGSTOP); err != nil {
			return out, err
		}
	}
	beside := s.flood(ctx, w)
	published, err := s.publish(ctx, w)
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
	if s.Pile > 0 {
		if err := w.waiting(ctx, func(n uint64) bool { return n == 0 }); err != nil {
			return out, err
		}
	}
	if s.Outage == outageKill && len(log) > 0 {
		out.HealedS = time.Unix(0, slices.MaxFunc(log, func(a, b entry) int { return cmp.Compare(a.At, b.At) }).At).Sub(killed).Seconds()
	}
	behind := time.Now()
	if s.Outage == outageClickHouse {
		if err := w.signalEngine(syscall.SIGCONT); err != nil {
			return out, err
		}
	}
	if err := w.ledgerCaughtUp(ctx); err != nil {
		return out, fmt.Errorf("the ledger did not catch up: %w", err)
	}
	if s.Outage == outageClickHouse {
		records, err := w.query("SELECT count() FROM records")
		if err != nil {
			return out, err
		}
		out.CatchUpPerS = records / time.Since(behind).Seconds()
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
	if err := stations(w, &out); err != nil {
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

// stations asks the ledger where the time of first attempts went.
func stations(w *waybill, out *result) error {
	const expand = `SELECT if(count() = 0, 0, quantile(%g)(dateDiff('microsecond', stored_at, at)) / 1000) FROM records
		WHERE kind = 'event.accepted' AND event_type = '` + loadType + `'`
	const start = `SELECT if(count() = 0, 0, quantile(%g)(dateDiff('microsecond', owed_at, first_at)) / 1000) FROM (
		SELECT minIf(at, kind = 'delivery.owed') AS owed_at, minIf(started_at, kind = 'attempt') AS first_at FROM records
		WHERE kind IN ('delivery.owed', 'attempt') AND event_type = '` + loadType + `' GROUP BY event_id, endpoint_id HAVING first_at > owed_at)`
	for _, q := range []struct {
		sql  string
		of   float64
		into *float64
	}{{expand, 0.5, &out.ExpandP50}, {expand, 0.99, &out.ExpandP99}, {start, 0.5, &out.StartP50}, {start, 0.99, &out.StartP99}} {
		n, err := w.query(fmt.Sprintf(q.sql, q.of))
		if err != nil {
			return err
		}
		*q.into = n
	}
	return nil
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
	return times, nil
}

// flood publishes what comes beside the load, until the returned function ends it.
func (s scenario) flood(ctx context.Context, w *waybill) (end func() error) {
	loading, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.publishFlood(loading, w) }()
	return func() error { stop(); return <-done }
}

func (s scenario) publishFlood(loading context.Context, w *waybill) error {
	begin := time.Now()
	for i := 0; i < s.Flood || s.FloodRate > 0 && loading.Err() == nil; i++ {
		if s.FloodRate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / s.FloodRate * float64(time.Second)))))
		}
		if _, err := w.js.PublishMsgAsync(event("flood-"+strconv.Itoa(i), floodType), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-w.js.PublishAsyncComplete()
	return nil
}

// pile publishes until as many deliveries wait for a retry.
func (s scenario) pile(ctx context.Context, w *waybill) error {
	receivers := 0
	for _, g := range s.Groups {
		if !g.Watch {
			receivers += g.N
		}
	}
	// One in ten succeeds at once, see the receiver.
	events := s.Pile * 10 / 9 / receivers
	for i := range events {
		if _, err := w.js.PublishMsgAsync(event("pile-"+strconv.Itoa(i), floodType), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	<-w.js.PublishAsyncComplete()
	return w.waiting(ctx, func(n uint64) bool { return n >= uint64(s.Pile)*98/100 })
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
