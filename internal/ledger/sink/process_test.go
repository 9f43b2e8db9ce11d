package sink_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit"
)

// process is a sink in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	// said has each line of its log; closed when it ends.
	said chan string
}

func (h *harness) startProcess(t *testing.T) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), sinkProcess+"="+h.nats.URL+" "+h.dsn+" "+h.keyFile())
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, said: make(chan string, 10_000)}
	go func() {
		defer close(p.said)
		for lines := bufio.NewScanner(io.TeeReader(out, h.log)); lines.Scan(); {
			p.said <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && err != os.ErrProcessDone {
		p.t.Error(err)
	}
}

// end stops it in order.
func (p *process) end() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	for range p.said { // until it has ended
	}
}

// waitFor waits until the process says what.
func (p *process) waitFor(what string) {
	p.t.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		select {
		case line, ok := <-p.said:
			if !ok {
				p.t.Fatalf("the sink ended before it said %q", what)
			}
			if strings.Contains(line, what) {
				return
			}
		case <-end.C:
			p.t.Fatalf("the sink did not say %q", what)
		}
	}
}

func (h *harness) waitRows(t *testing.T, n int) {
	t.Helper()
	eventually(t, "all records are in ClickHouse", func() bool {
		var have uint64
		if err := h.conn.QueryRow(context.Background(), "SELECT count() FROM records").Scan(&have); err != nil {
			t.Fatal(err)
		}
		return have >= uint64(n)
	})
}

// watchLease tells how the lease changes hands: it is deleted when it is given
// back, and only put again after it has run out.
func (h *harness) watchLease() <-chan jetstream.KeyValueOp {
	h.t.Helper()
	kv, err := h.js.KeyValue(h.t.Context(), streams.LeasesBucket)
	if err != nil {
		h.t.Fatal(err)
	}
	held, err := kv.Get(h.t.Context(), streams.LedgerSinkLease)
	if err != nil {
		h.t.Fatal(err)
	}
	w, err := kv.Watch(h.t.Context(), streams.LedgerSinkLease, jetstream.UpdatesOnly())
	if err != nil {
		h.t.Fatal(err)
	}
	out := make(chan jetstream.KeyValueOp, 1)
	go func() {
		for e := range w.Updates() {
			if e != nil && (e.Operation() != jetstream.KeyValuePut || string(e.Value()) != string(held.Value())) {
				out <- e.Operation()
				return
			}
		}
	}()
	return out
}

func TestOneSinkWritesAndASecondTakesOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  syscall.Signal
	}{
		{"at once when the first is told to stop", syscall.SIGTERM},
		{"when the lease of a killed one has run out", syscall.SIGKILL},
		{"when the lease of a frozen one has run out, which does no harm when it goes on", syscall.SIGSTOP},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			if err := h.db().Migrate(context.Background()); err != nil {
				t.Fatal(err)
			}
			first := h.startProcess(t)
			first.waitFor("ledger_sink.writing")
			second := h.startProcess(t)
			second.waitFor("ledger_sink.standby")
			h.publish(500)
			gone := h.watchLease()
			// The signal comes while it writes.
			if c.end == syscall.SIGSTOP {
				if err := testkit.Freeze(first.cmd.Process.Pid); err != nil {
					t.Fatal(err)
				}
			} else {
				first.signal(c.end)
			}
			h.publish(300)
			second.waitFor("ledger_sink.writing")
			if released := <-gone == jetstream.KeyValueDelete; released != (c.end == syscall.SIGTERM) {
				t.Errorf("the lease was given back: %t", released)
			}
			h.waitRows(t, 800)
			if c.end == syscall.SIGSTOP {
				h.publish(300)
				first.signal(syscall.SIGCONT)
				h.publish(300)
				first.waitFor("ledger_sink.standby") // whether it misses its lease first, or what it was reading
				h.waitRows(t, 1400)
			}
			h.check(h.sent)
			h.checkLog()
		})
	}
}

func TestSinksThatAreKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if err := h.db().Migrate(context.Background()); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		p := h.startProcess(t)
		p.waitFor("ledger_sink.writing")
		for range 5 {
			h.publish(200)
		}
		h.waitRows(t, round*1000+1+h.rnd.IntN(900))
		p.signal(syscall.SIGKILL)
	}
	h.startProcess(t)
	h.waitRows(t, len(h.sent))
	h.check(h.sent)
	h.checkLog()
}
