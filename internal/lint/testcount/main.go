// Command testcount runs go test in one or more modules, shows what matters
// while it runs, and ends with the line "N passed, N failed". A skipped test
// counts as failed: it would be believed to pass.
//
//	testcount [-dir DIR]... -- GO-TEST-ARGUMENTS
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	var dirs list
	flag.Var(&dirs, "dir", "directory of a module whose tests run; repeatable (default: the present one)")
	slowest := flag.Int("slowest", 10, "how many of the slowest tests to show")
	flag.Parse()
	if len(dirs) == 0 {
		dirs = list{"."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, dirs, flag.Args(), *slowest, os.Stdout))
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// run returns the exit status: 0 only if at least one test ran, none failed or
// was skipped, and every go test said so too.
func run(ctx context.Context, dirs, args []string, slowest int, out io.Writer) int {
	r := &report{out: out}
	broken := false
	start := time.Now()
	for _, dir := range dirs {
		if err := goTest(ctx, dir, args, r); err != nil && ctx.Err() == nil {
			var exit *exec.ExitError
			// Status 1 with a failure on record is the tests' own; anything
			// else (a module that does not resolve, a crash) has no event.
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || r.failures() == 0 {
				broken = true
				fmt.Fprintf(out, "go test in %s: %v\n", dir, err)
			}
		}
		if ctx.Err() != nil {
			fmt.Fprintln(out, "interrupted")
			return 130
		}
	}
	r.finish(slowest, time.Since(start))
	if broken || r.failures() > 0 || r.passed == 0 {
		return 1
	}
	return 0
}

func goTest(ctx context.Context, dir string, args []string, r *report) error {
	c := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	c.Dir, c.Stderr = dir, os.Stderr
	// go test passes the interrupt on to the tests, which then clean up.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 20 * time.Second
	events, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	return errors.Join(r.read(events), c.Wait())
}
