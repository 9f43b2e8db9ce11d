package torture_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testkit"
)

// restartPause is how long a supervisor waits before it starts a program again
// that ended by itself.
const restartPause = 500 * time.Millisecond

// program is one of ours in a process of its own, supervised as an operator's
// service manager would: it is started again when it ends unasked.
type program struct {
	t    *testing.T
	name string
	args []string
	log  string // the file that it writes to

	mu      sync.Mutex // guards what follows
	cmd     *exec.Cmd
	gone    chan struct{} // closed when cmd has ended
	wanted  bool          // it is meant to run
	starts  int
	unasked []string // its last words, each time it ended unasked
}

func startProgram(t *testing.T, dir, name, binary string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: name, args: append([]string{filepath.Join(bin, binary)}, args...),
		log: filepath.Join(dir, name+".log")}
	t.Cleanup(p.bury)
	p.start()
	return p
}

// start starts it, unless it runs.
func (p *program) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted {
		return
	}
	p.wanted = true
	p.launch()
}

// launch needs mu.
func (p *program) launch() {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		p.t.Errorf("%s: %v", p.name, err)
		return
	}
	defer log.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// Without a time zone and settings of whoever runs the tests.
	cmd.Env = append(os.Environ(), "TZ=UTC")
	cmd.SysProcAttr = dieWithParent()
	gone, started := make(chan struct{}), make(chan error, 1)
	go func() {
		// The kernel counts the end of this thread as the parent's.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait()
		close(gone)
		p.ended(cmd)
	}()
	if err := <-started; err != nil {
		p.t.Errorf("%s: %v", p.name, err)
		return
	}
	p.starts++
	p.cmd, p.gone = cmd, gone
}

// dieWithParent leaves nothing behind when the tests are killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func (p *program) ended(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.wanted || p.cmd != cmd {
		return
	}
	p.unasked = append(p.unasked, fmt.Sprintf("%s: %s", cmd.ProcessState, p.lastWords()))
	time.AfterFunc(restartPause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted && p.cmd == cmd {
			p.launch()
		}
	})
}

func (p *program) lastWords() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// crashed says whether it ever ended by a fault of its own.
func (p *program) crashed() (string, bool) {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error(), !errors.Is(err, os.ErrNotExist)
	}
	for _, mark := range []string{"panic: ", "fatal error: ", "WARNING: DATA RACE"} {
		if i := bytes.Index(b, []byte(mark)); i >= 0 {
			return string(b[i:min(len(b), i+2000)]), true
		}
	}
	return "", false
}

func (p *program) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(sig) // it may be gone
	}
}

// end sends a signal that ends it, waits until it is gone, and does not start it again.
func (p *program) end(sig syscall.Signal) {
	p.mu.Lock()
	p.wanted = false
	cmd, gone := p.cmd, p.gone
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(sig)
	if sig == syscall.SIGTERM {
		select {
		case <-gone:
			return
		case <-time.After(stopBound):
			p.t.Errorf("%s did not stop within %s of SIGTERM", p.name, stopBound)
			_ = cmd.Process.Kill()
		}
	}
	<-gone
}

// stopBound is how long an orderly stop may take: the drain, and each part's bound after it.
const stopBound = 60 * time.Second

// bury kills it with its children, and waits until all are gone: what they write
// must not outlive the test's directory.
func (p *program) bury() {
	children := p.children()
	p.kill()
	for _, pid := range children {
		signalPID(pid, syscall.SIGKILL)
		for deadline := time.Now().Add(stopBound); syscall.Kill(pid, 0) == nil; {
			if time.Now().After(deadline) {
				p.t.Errorf("process %d of %s does not end", pid, p.name)
				break
			}
			pause := time.NewTimer(10 * time.Millisecond)
			<-pause.C
		}
	}
}

func (p *program) kill() { p.end(syscall.SIGKILL) }
func (p *program) stop() { p.end(syscall.SIGTERM) }
func (p *program) thaw() { p.signal(syscall.SIGCONT) }

// freeze returns once it stands still, if it runs.
func (p *program) freeze() {
	if pid := p.pid(); pid != 0 {
		_ = testkit.Freeze(pid) // unless it is gone
	}
}

func (p *program) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// children are the processes that it started.
func (p *program) children() []int {
	var pids []int
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid()))
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", p.pid(), task.Name()))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			var pid int
			if _, err := fmt.Sscan(f, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
