package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// stderrKeep bounds what earlier runs left in stderr.log.
	stderrKeep = 1 << 20
	// stderrTail is how much of it an error quotes.
	stderrTail = 600
)

// child is one engine process.
type child struct {
	process  *os.Process
	lifetime *os.File      // while open, the engine runs; the kernel closes it if we die
	exited   chan struct{} // closed when the process is gone
	exitErr  error         // why; read after exited

	output string // the file it prints to
	from   int64  // where its own output begins there
}

// launch starts a process for the engine. lock is inherited, not used.
func launch(o Options, l layout, lock *os.File) (*child, error) {
	stderr, from, err := openStderr(l)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	lifetimeR, lifetimeW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("lifetime pipe: %w", err)
	}
	defer lifetimeR.Close()

	cmd := exec.Command(o.Location.Binary, arguments(o.Location, l)...)
	cmd.Dir = l.dir
	cmd.Env = environment(os.Environ())
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.ExtraFiles = []*os.File{lifetimeR, lock} // descriptors 3 and 4
	cmd.SysProcAttr = childAttributes()

	c := &child{lifetime: lifetimeW, exited: make(chan struct{}), output: l.stderr(), from: from}
	started := make(chan error, 1)
	go func() {
		// See childAttributes: the thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		c.process = cmd.Process
		started <- nil
		c.exitErr = cmd.Wait()
		close(c.exited)
	}()
	if err := <-started; err != nil {
		_ = lifetimeW.Close()
		return nil, fmt.Errorf("start %s: %w", o.Location, err)
	}
	return c, nil
}

// environment leaves out Waybill's own variables: they hold keys and passwords,
// and whoever may read the process's files may read its environment.
func environment(ours []string) []string {
	out := slices.DeleteFunc(slices.Clone(ours), func(v string) bool { return strings.HasPrefix(v, "WAYBILL_") })
	return append(out, "TZ=UTC", "CLICKHOUSE_WATCHDOG_ENABLE=0")
}

// lifetimeFD is what ExtraFiles[0] becomes in the child.
const lifetimeFD = "3"

func arguments(at Location, l layout) []string {
	if at.Library == "" {
		return []string{"server", "--config-file=" + l.config()}
	}
	return []string{"--libchdb=" + at.Library, "--config-file=" + l.config(), "--lifetime-fd=" + lifetimeFD}
}

// stop asks the engine to end and kills it when ctx does. It returns when the
// process is gone, with an error only if it had to be killed.
func (c *child) stop(ctx context.Context) error {
	_ = c.lifetime.Close()
	_ = c.process.Signal(syscall.SIGTERM) // clickhouse server does not watch the pipe
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("the ClickHouse engine did not stop in time and was killed; acknowledged data is safe: %w",
			context.Cause(ctx))
	}
}

// kill ends the whole process group and waits.
func (c *child) kill() {
	_ = c.lifetime.Close()
	if err := syscall.Kill(-c.process.Pid, syscall.SIGKILL); err != nil {
		_ = c.process.Kill()
	}
	<-c.exited
}

// started waits until the engine answers, or explains why it does not.
func (c *child) started(ctx context.Context, o Options, l layout, a addresses) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(o.StartLimit, func() { cancel(fmt.Errorf("not ready within %v", o.StartLimit)) })
	defer limit.Stop()
	go func() {
		select {
		case <-c.exited:
			cancel(errExited)
		case <-ctx.Done():
		}
	}()
	err := await(ctx, a, o)
	if err == nil {
		return nil
	}
	if errors.Is(err, errExited) {
		err = fmt.Errorf("%w (%v)", errExited, c.exitErr)
	}
	tail := c.lastOutput()
	if strings.Contains(tail, "Code: 76.") {
		return fmt.Errorf("%w: a ClickHouse process that Waybill did not start runs in %s; stop it", ErrInUse, l.data())
	}
	return fmt.Errorf("the ClickHouse engine (%s) did not start: %w; its log is %s; its last words: %s", o.Location, err,
		l.log(), tail)
}

var errExited = errors.New("the engine process ended")

// openStderr opens what the engine prints apart from its log, mostly aborts. It
// also returns where the next output will begin.
func openStderr(l layout) (*os.File, int64, error) {
	from := int64(0)
	if info, err := os.Stat(l.stderr()); err == nil {
		from = info.Size()
	}
	if from > stderrKeep {
		if err := os.Rename(l.stderr(), l.stderr()+".1"); err != nil {
			return nil, 0, fmt.Errorf("rotate the engine's output: %w", err)
		}
		from = 0
	}
	file, err := os.OpenFile(l.stderr(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("the engine's output: %w", err)
	}
	return file, from, nil
}

// lastOutput is the end of what this process printed, on one line.
func (c *child) lastOutput() string {
	data, err := os.ReadFile(c.output)
	if err != nil {
		return err.Error()
	}
	data = data[min(int(c.from), len(data)):]
	if len(data) > stderrTail {
		data = data[len(data)-stderrTail:]
	}
	return strings.Join(strings.Fields(string(data)), " ")
}
