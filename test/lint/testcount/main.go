// Command testcount runs every test of one or more modules, shows what matters
// while it runs, and ends with the line "N passed, N failed". A skipped test
// counts as failed: it would be believed to pass.
//
// The first module's packages run as the flags say, those of -first before the
// others: a long one that starts last would run alone. The other modules go
// beside it, one package at a time.
//
//	testcount [-dir DIR]... [-first PACKAGE]... -- GO-TEST-FLAGS
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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	var dirs, first list
	flag.Var(&dirs, "dir", "directory of a module whose tests run; repeatable (default: the present one)")
	flag.Var(&first, "first", "package of the first module that runs before those that are not named; repeatable")
	slowest := flag.Int("slowest", 10, "how many of the slowest tests to show")
	flag.Parse()
	if len(dirs) == 0 {
		dirs = list{"."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, dirs, first, flag.Args(), *slowest, os.Stdout))
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// run returns the exit status: 0 only if at least one test ran, none failed or
// was skipped, and every go test said so too.
func run(ctx context.Context, dirs, first, flags []string, slowest int, out io.Writer) int {
	r := &report{out: out}
	start := time.Now()
	var broken atomic.Bool
	test := func(dir string, args ...string) {
		if err := goTest(ctx, dir, slices.Concat(flags, args, []string{"./..."}), r); err != nil && ctx.Err() == nil {
			var exit *exec.ExitError
			// Status 1 with a failure on record is the tests' own; anything
			// else (a module that does not resolve, a crash) has no event.
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || r.failures() == 0 {
				broken.Store(true)
				r.say("go test in %s: %v\n", dir, err)
			}
		}
	}
	var modules sync.WaitGroup
	modules.Go(func() { test(dirs[0], first...) })
	modules.Go(func() {
		for _, dir := range dirs[1:] {
			if ctx.Err() == nil {
				test(dir, "-p", "1")
			}
		}
	})
	modules.Wait()
	if ctx.Err() != nil {
		fmt.Fprintln(out, "interrupted")
		return 130
	}
	r.finish(slowest, time.Since(start))
	if broken.Load() || r.failures() > 0 || r.passed == 0 {
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
	m := module{report: r, pending: map[test][]string{}}
	return errors.Join(m.read(events), c.Wait())
}
