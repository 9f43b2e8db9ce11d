package operations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// patience bounds every wait: it covers a machine that runs much else beside.
const patience = 2 * time.Minute

// program is a process of ours that ends with the test.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *logs
	gone chan struct{} // closed when it has ended
	http string        // its address
}

// logs keeps what a process says.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, name, http string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, log: &logs{}, gone: make(chan struct{}), http: http}
	p.cmd = exec.Command(filepath.Join(programs, name), args...)
	p.cmd.Stderr = p.log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // its status is in the process state
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the end of what %s said:\n%s", name, tail(p.log.String()))
		}
	})
	return p
}

func tail(s string) string { return s[max(0, len(s)-1500):] }

// stop ends the process in order.
func (p *program) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.gone:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		p.t.Errorf("%s did not stop", p.cmd.Path)
	}
}

// ready waits until /readyz says so.
func (p *program) ready() *program {
	p.t.Helper()
	eventually(p.t, p.cmd.Path+" is ready", func() string {
		select {
		case <-p.gone:
			p.t.Fatalf("%s ended: %s\n%s", p.cmd.Path, p.cmd.ProcessState, tail(p.log.String()))
		default:
		}
		status, body := call(p.t, http.MethodGet, "http://"+p.http+"/readyz", "")
		if status == http.StatusOK {
			return ""
		}
		return fmt.Sprint(status, " ", body)
	})
	return p
}

// addresses of an up.
type addresses struct {
	HTTP             string `json:"http"`
	NATS             string `json:"nats"`
	ClickHouseNative string `json:"clickhouse_native"`
	data             string // the data directory
}

// up starts everything and waits until it works.
func up(t *testing.T, env []string, args ...string) (*program, addresses) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "addresses.json")
	address := loopback.Address(t)
	p := start(t, "waybill", address, env, append([]string{"up", "--data", filepath.Join(dir, "data"), "--egress-allow",
		"127.0.0.1",
		"--addresses", file, "--http", address, "--nats", "127.0.0.1:0", "--clickhouse-native", "127.0.0.1:0",
		"--clickhouse-http", "127.0.0.1:0"}, args...)...)
	p.ready()
	a := addresses{data: filepath.Join(dir, "data")}
	eventually(t, "the addresses are written", func() string {
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &a)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return p, a
}

// eventually asks again and again until what returns "", which says that it is
// so; otherwise what says how it is instead.
func eventually(t *testing.T, what string, how func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		is := how()
		if is == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %s it is not so that %s; last: %s", patience, what, is)
		}
	}
}

// call makes one request. Status 0 means that there was no answer; the body
// then says why.
func call(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(bytes.TrimSpace(b))
}

// endpoint creates one through the API.
func endpoint(t *testing.T, api, body string) {
	t.Helper()
	if status, answer := call(t, http.MethodPost, "http://"+api+"/v1/endpoints", body); status/100 != 2 {
		t.Fatalf("creating an endpoint: %d %s", status, answer)
	}
}
