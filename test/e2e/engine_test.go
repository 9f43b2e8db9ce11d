package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// engine waits for the process of the ledger's engine, other than those before.
func (d *deployment) engine(before ...int) int {
	d.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(startBound); ; {
		for _, pid := range children(d.cmd.Process.Pid) {
			// Go's runtime makes children of its own for a moment.
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(line), "waybill-clickhouse") && !slices.Contains(before, pid) {
				return pid
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			d.t.Fatalf("waybill up has no engine:\n%s", d.log)
		}
	}
}

func children(parent int) (pids []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	for _, task := range tasks {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, task.Name()))
		for _, f := range strings.Fields(string(b)) {
			var pid int
			if _, err := fmt.Sscan(f, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// The engine is killed twice before it serves, and once when it does and the
// rest still starts: waybill up comes up all the same, and delivers.
func TestUpComesUpThoughItsEngineIsKilledWhileItStarts(t *testing.T) {
	t.Parallel()
	d := launch(t, t.TempDir(), "--log-format", "json")
	first := d.engine()
	kill(t, first)
	d.log.await(t, "died while it was starting")
	second := d.engine(first)
	kill(t, second)
	d.log.await(t, "ClickHouse engine is ready")
	kill(t, d.engine(first, second))
	d.log.await(t, "ClickHouse engine is back")
	d.awaitReady()
	if n := strings.Count(d.log.String(), "died while it was starting"); n < 1 || n > 2 {
		t.Errorf("said %d times:\n%s", n, d.log)
	}
	if got := d.query("SELECT count() FROM events"); got != "0" {
		t.Errorf("the ledger answers %q", got)
	}
}

// An engine that cannot start is given up after a few tries, with its last words.
func TestUpGivesUpOnAnEngineThatNeverStarts(t *testing.T) {
	script := t.TempDir() + "/clickhouse"
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho the disk is on fire >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WAYBILL_ENGINE_BINARY", script)
	t.Setenv("WAYBILL_LIBCHDB", "")
	d := launch(t, t.TempDir())
	select {
	case err := <-d.done:
		d.done <- err
	case <-time.After(startBound):
		t.Fatalf("it has not ended:\n%s", d.log)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(d.log.String(), "the disk is on fire") ||
		!strings.Contains(d.log.String(), "started 4 times") {
		t.Errorf("exit %d:\n%s", code, d.log)
	}
}
