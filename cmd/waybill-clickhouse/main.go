//go:build linux

// Command waybill-clickhouse is a ClickHouse engine in a process of its own,
// around libchdb.so. waybill starts and supervises it; it is not for people.
//
// It is the only Waybill program that is linked dynamically, and the only one
// that loads the library: a fault in the engine ends this process and no other.
// It runs until the engine fails, SIGTERM, SIGINT, or the end of
// its lifetime pipe, which the kernel closes when the parent dies in any way.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopLimit is how long the engine may take to end once told to: its own wait
// for clients takes 5 s. It protects the data directory's lock, for which the
// next engine waits 20 s: one that hangs would keep it out.
const stopLimit = 15 * time.Second

func main() {
	var s settings
	flag.StringVar(&s.library, "libchdb", "", "`path` of libchdb.so")
	flag.StringVar(&s.config, "config-file", "",
		"`path` of the ClickHouse server configuration, with data path, ports and users")
	flag.StringVar(&s.logLevel, "log-level", "warning", "ClickHouse log `level`")
	flag.IntVar(&s.lifetime, "lifetime-fd", -1,
		"inherited descriptor `number`; the engine ends when it reads end of file there")
	flag.Parse()
	if s.library == "" || s.config == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "waybill-clickhouse: --libchdb and --config-file are needed; waybill up passes them")
		os.Exit(2)
	}
	// The engine's main function expects to stay on the thread it began on.
	runtime.LockOSThread()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-clickhouse:", err)
		os.Exit(1)
	}
}

type settings struct {
	library, config, logLevel string
	lifetime                  int
}

func run(s settings) error {
	// Before the library is there: its threads come from this one, and are confined with it.
	if err := confine(filepath.Dir(s.config), s.library); err != nil {
		fmt.Fprintln(os.Stderr, "waybill-clickhouse: whoever may SELECT can read every file that this user can:", err)
	}
	lib, err := load(s.library)
	if err != nil {
		return err
	}
	// clickhouse-local installs an error handler that aborts the process when
	// any connection's handler throws (wrong password, bad packet, reset),
	// unless it is interactive, which takes a terminal on standard input:
	// ClickHouse issue 115666. The prompt that follows the script waits on that
	// terminal, and so serves as what keeps the engine running: closing the
	// other end is its end of file, and it shuts down in order.
	master, err := terminalOnStdin()
	if err != nil {
		return err
	}
	go stopWhenTold(s.lifetime, func() { _ = unix.Close(master) })
	// The script runs as user default without a password; opening the ports is
	// all it does, and all that user may be allowed to do.
	return lib.runLocal([]string{
		"--config-file=" + s.config,
		"--log-level=" + s.logLevel, // left out, it is trace
		"--progress=off", "--progress-table=off", "--disable_suggestion", "--highlight=off",
		"--history_file=/dev/null",
		"--interactive",
		"--query=SYSTEM START LISTEN TCP; SYSTEM START LISTEN HTTP",
	})
}

// stopWhenTold calls release at the first stop signal or when the parent is gone, and ends the
// process the hard way if the engine then hangs.
func stopWhenTold(lifetime int, release func()) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	parentGone := make(chan struct{})
	if lifetime >= 0 {
		go func() {
			waitForEnd(os.NewFile(uintptr(lifetime), "lifetime"))
			close(parentGone)
		}()
	}
	select {
	case <-stop:
	case <-parentGone:
	}
	release()
	<-time.After(stopLimit)
	fmt.Fprintln(os.Stderr, "waybill-clickhouse: the engine did not end in", stopLimit, "- killed")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// waitForEnd returns when f ends, fails or has a byte.
func waitForEnd(f *os.File) {
	var one [1]byte
	_, _ = f.Read(one[:])
}
