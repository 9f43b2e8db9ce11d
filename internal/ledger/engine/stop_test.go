package engine_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
)

func TestStopIsBoundedWithClientsConnected(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{StopLimit: 30 * time.Second})
	conn := open(t, e.DSN("", "default"))
	mustExec(t, conn, "CREATE DATABASE ledger")
	busy := make(chan error, 1)
	go func() {
		busy <- conn.Exec(context.Background(), "SELECT sleepEachRow(1) FROM numbers(600) SETTINGS max_block_size = 1, "+
			"function_sleep_max_microseconds_per_block = 0")
	}()
	idle := open(t, e.DSN("", "default"))
	if err := idle.Ping(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stopped := e.Stop(context.Background())
	took := time.Since(began)
	t.Logf("stopped in %v: %v", took, stopped)
	if took > 31*time.Second {
		t.Errorf("stop took %v, beyond its limit of 30 s", took)
	}
	if stopped != nil {
		t.Errorf("stop: %v", stopped)
	}
	<-busy
}

func TestStopKillsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Options{})
	conn := open(t, e.DSN("", "default"))
	if err := conn.Ping(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	first := e.Stop(now)
	if first == nil || !strings.Contains(first.Error(), "killed") {
		t.Errorf("got %v, want to be told that the engine was killed", first)
	}
	if again := e.Stop(context.Background()); again == nil || again.Error() != first.Error() {
		t.Errorf("a second Stop answered %v, the first %v", again, first)
	}
	<-e.Done()
}

func TestStopEndsAWaitForARestart(t *testing.T) {
	t.Parallel()
	exits := make(chan error, 8)
	e := start(t, engine.Options{OnExit: func(err error) { exits <- err }})
	if err := syscall.Kill(e.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-exits
	if err := e.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := e.Ready(within(t, time.Second)); err == nil {
		t.Error("a stopped engine says it is ready")
	}
}
