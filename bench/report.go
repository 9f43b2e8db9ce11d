package main

import (
	"fmt"
	"strings"
)

func (r *report) add(s scenario, res result) {
	for _, base := range r.Results {
		if base.Scenario == s.Baseline && base.P99 > 0 {
			res.P99Factor = res.P99 / base.P99
		}
	}
	r.Results = append(r.Results, res)
}

// String is one line for the terminal.
func (r result) String() string {
	return fmt.Sprintf("%-16s %6.0f/s  ratio %.2f  cpu/1000 %.3f s (ClickHouse %.3f of it; receiver %.3f)  p50 %.1f "+
		"p99 %.1f ms  missing %d dup %d  post %.1f/%.1f ms  rss %.0f+%.0f pss %.0f MB  %.0f B each, %.0f kept  late p50 "+
		"%.0f p99 %.0f ms (%d), %.0f B each waiting  catch-up %.0f/s healed %.1f s  expand %.0f/%.0f start %.0f/%.0f ms",
		r.Scenario, r.DeliveredPerS, r.Ratio, r.CPUPer1000, r.EngineCPUPer1000, r.ReceiverCPUPer1000, r.P50, r.P99, r.Missing,
		r.Duplicates, r.PostP50, r.PostP99, r.RSS, r.RSSClickHouse, r.PSS,
		r.LedgerBytes, r.Kept, r.LatenessP50, r.LatenessP99, r.Retries, r.BytesPerWaiting, r.CatchUpPerS, r.HealedS,
		r.ExpandP50, r.ExpandP99, r.StartP50, r.StartP99)
}

func (r *report) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "# Benchmark\n\nMade by `make bench` at %s on %d × %s, Linux %s, %s, load before %s.\n\n", m.At,
		m.CPUs, m.Model, m.Kernel, m.Go, m.Load)
	fmt.Fprintf(&b, "Raw ceiling: %.0f requests/s (a tight Go client loop, 1 KB, HMAC, same receiver). Disk: %.0f "+
		"fsyncs/s.\n\n", r.CeilingPerS, r.FsyncPerS)
	b.WriteString("`ratio` is to the ceiling. CPU is of Waybill and its databases; the receiver's is apart. Latency is " +
		"from publish to receipt, ")
	b.WriteString("of the healthy endpoints. Memory is of Waybill + ClickHouse. What each column means is in " +
		"docs/performance.md.\n\n")
	b.WriteString("| Scenario | What | `--sync` | Delivered/s | Ratio | CPU-s/1,000 | p50 ms | p99 ms | × baseline | " +
		"Missing | Duplicates | RSS MB | PSS MB | Ledger B/delivery | Kept B/delivery |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range r.Results {
		factor := ""
		if s.P99Factor > 0 {
			factor = fmt.Sprintf("%.2f", s.P99Factor)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %.2f | %.3f | %.1f | %.1f | %s | %d | %d | %.0f + %.0f | %.0f | %.0f | "+
			"%.0f |\n", s.Scenario, s.What, s.Sync,
			s.DeliveredPerS, s.Ratio, s.CPUPer1000, s.P50, s.P99, factor, s.Missing, s.Duplicates, s.RSS, s.RSSClickHouse, s.PSS,
			s.LedgerBytes, s.Kept)
	}
	b.WriteString("\n")
	for _, s := range r.Results {
		if s.Retries > 0 {
			fmt.Fprintf(&b, "* %s: %d retries, %.0f ms late at p50 and %.0f ms at p99.\n", s.Scenario, s.Retries, s.LatenessP50,
				s.LatenessP99)
		}
		if s.PostP50 > 0 {
			fmt.Fprintf(&b, "* %s: a post is answered in %.1f ms at p50 and %.1f ms at p99.\n", s.Scenario, s.PostP50, s.PostP99)
		}
		if s.BytesPerWaiting > 0 {
			fmt.Fprintf(&b, "* %s: memory grew by %.0f B for each delivery that waits.\n", s.Scenario, s.BytesPerWaiting)
		}
		if s.CatchUpPerS > 0 {
			fmt.Fprintf(&b, "* %s: %.0f records/s once ClickHouse was back.\n", s.Scenario, s.CatchUpPerS)
		}
		if s.HealedS > 0 {
			fmt.Fprintf(&b, "* %s: everything was delivered %.1f s after the kill.\n", s.Scenario, s.HealedS)
		}
	}
	return b.String()
}
