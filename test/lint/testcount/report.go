package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is what go test -json writes, one a line (see go doc test2json).
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	ImportPath  string // of build events
	FailedBuild string
}

type test struct{ pkg, name string }

type timed struct {
	test
	seconds float64
}

// report counts tests as they end. A test with subtests counts as one more.
type report struct {
	mu     sync.Mutex // guards what follows: modules run beside each other
	out    io.Writer
	passed int
	failed []test // those that were skipped, too
	builds []string
	took   []timed
}

func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failed) + len(r.builds)
}

func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// module is one go test.
type module struct {
	*report
	pending map[test][]string // output of tests, and of packages, that have not ended
}

// read takes the events of one go test until its end.
func (r *module) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20) // a test may print its whole input
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.say("%s\n", lines.Text()) // go itself speaks
			continue
		}
		r.take(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A package whose process was killed leaves its tests without an end.
	for t := range r.pending {
		if t.name != "" {
			r.fail(t, "did not end")
		}
	}
	return lines.Err()
}

func (r *module) take(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := test{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.pending[t] = nil
	case "output":
		r.pending[t] = append(r.pending[t], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.builds = append(r.builds, e.ImportPath)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
			return
		}
		r.took = append(r.took, timed{t, e.Elapsed})
		switch e.Action {
		case "pass":
			r.passed++
			delete(r.pending, t)
		case "skip":
			r.fail(t, "was skipped: a test must run, or not be there")
		default:
			r.fail(t, "failed")
		}
	}
}

// fail shows a test that did not pass, with what it printed.
func (r *module) fail(t test, why string) {
	fmt.Fprintf(r.out, "\n--- %s %s %s\n%s", short(t.pkg), t.name, why, strings.Join(r.pending[t], ""))
	r.failed = append(r.failed, t)
	delete(r.pending, t)
}

func (r *module) endPackage(e event) {
	t := test{pkg: e.Package}
	if e.Action == "fail" {
		// Its own output tells of a panic, a race or a failed TestMain.
		fmt.Fprintf(r.out, "%s", strings.Join(r.pending[t], ""))
		for other := range r.pending {
			if other.pkg == e.Package && other.name != "" {
				r.fail(other, "did not end")
			}
		}
		if e.FailedBuild == "" && !slices.ContainsFunc(r.failed, func(f test) bool { return f.pkg == e.Package }) {
			r.failed = append(r.failed, test{e.Package, "(the package itself)"})
		}
	}
	if e.Action != "skip" { // a package without tests
		fmt.Fprintf(r.out, "%-4s %-40s %7.2fs\n", e.Action, short(e.Package), e.Elapsed)
	}
	delete(r.pending, t)
}

func (r *report) finish(slowest int, took time.Duration) {
	top := slices.DeleteFunc(r.took, func(t timed) bool { return strings.Contains(t.name, "/") })
	slices.SortFunc(top, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(r.out, "\nslowest tests:")
	for _, t := range top[:min(slowest, len(top))] {
		fmt.Fprintf(r.out, "%8.2fs  %s %s\n", t.seconds, short(t.pkg), t.name)
	}
	for _, t := range r.failed {
		fmt.Fprintf(r.out, "failed: %s %s\n", short(t.pkg), t.name)
	}
	for _, b := range r.builds {
		fmt.Fprintf(r.out, "failed: %s does not build\n", b)
	}
	fmt.Fprintf(r.out, "took %s\n%d passed, %d failed\n", took.Round(100*time.Millisecond), r.passed,
		len(r.failed)+len(r.builds))
}

// short drops what all packages have in common.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/waybill-dev/waybill/")
}
