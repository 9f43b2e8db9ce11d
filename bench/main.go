// Command bench measures Waybill as a user runs it, beside the raw ceiling of
// the machine in the same run. See docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "receiver" {
		if err := runReceiver(); err != nil {
			fmt.Fprintln(os.Stderr, "receiver:", err)
			os.Exit(1)
		}
		return
	}
	bin := flag.String("bin", "bin", "folder of the programs")
	only := flag.String("only", "*", "patterns of the scenarios to run, separated by commas")
	scale := flag.Float64("scale", 1, "multiplies the numbers of events")
	out := flag.String("out", "bench", "folder of report.md and report.json; empty: print only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bin, *only, *out, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// report is the whole run.
type report struct {
	Machine     machine  `json:"machine"`
	CeilingPerS float64  `json:"ceiling_per_s"`
	FsyncPerS   float64  `json:"fsync_per_s"`
	Results     []result `json:"scenarios"`
}

type machine struct {
	CPUs   int    `json:"cpus"`
	Model  string `json:"model"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Load   string `json:"load_before"`
	At     string `json:"at"`
}

func describe() machine {
	m := machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), At: time.Now().UTC().Format(time.RFC3339)}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.Model = strings.TrimSpace(value)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	return m
}

func run(ctx context.Context, bin, only, out string, scale float64) error {
	if err := os.MkdirAll(tempDir(), 0o755); err != nil {
		return err
	}
	r := report{Machine: describe()}
	rcv, err := startReceiver()
	if err != nil {
		return err
	}
	r.CeilingPerS, err = ceiling(rcv.first)
	rcv.kill()
	if err != nil {
		return err
	}
	if r.FsyncPerS, err = fsyncRate(tempDir()); err != nil {
		return err
	}
	fmt.Printf("ceiling %.0f requests/s, %.0f fsyncs/s\n", r.CeilingPerS, r.FsyncPerS)
	for _, s := range scenarios(scale) {
		if !slices.ContainsFunc(strings.Split(only, ","), func(p string) bool { ok, _ := path.Match(p, s.Name); return ok }) {
			continue
		}
		res, err := s.run(ctx, bin, r.CeilingPerS)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		r.add(s, res)
		fmt.Println(r.Results[len(r.Results)-1])
	}
	if out == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path.Join(out, "report.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path.Join(out, "report.md"), []byte(r.markdown()), 0o644)
}
