package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startBound and stopBound hold on a machine that is busy with other tests.
	startBound = 60 * time.Second
	stopBound  = 60 * time.Second
)

// everyPort takes free ports.
func everyPort() []string {
	return []string{"--http", "127.0.0.1:0", "--nats", "127.0.0.1:0",
		"--clickhouse-native", "127.0.0.1:0", "--clickhouse-http", "127.0.0.1:0"}
}

// deployment is a running waybill up.
type deployment struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	done chan error // the process's end
	log  *logs

	ready chan bool // it is; closed when it ended
	file  string    // of its addresses
	addresses
}

type addresses struct {
	HTTP             string `json:"http"`
	NATS             string `json:"nats"`
	ClickHouseNative string `json:"clickhouse_native"`
	ClickHouseHTTP   string `json:"clickhouse_http"`
}

// logs keeps what a process says, for a failed test.
type logs struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{} // closed and replaced by each write
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.wrote)
	l.wrote = make(chan struct{})
	return l.b.Write(b)
}

// await returns once the process has said something.
func (l *logs) await(t *testing.T, what string) {
	t.Helper()
	limit := time.After(stopBound)
	for {
		l.mu.Lock()
		said, wrote := strings.Contains(l.b.String(), what), l.wrote
		l.mu.Unlock()
		if said {
			return
		}
		select {
		case <-wrote:
		case <-limit:
			t.Fatalf("the process did not say %q:\n%s", what, l)
		}
	}
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs waybill up on dir until the test ends, and returns once it is ready.
func start(t *testing.T, dir string, args ...string) *deployment {
	t.Helper()
	d := launch(t, dir, args...)
	d.awaitReady()
	return d
}

// launch runs waybill up on dir until the test ends.
func launch(t *testing.T, dir string, args ...string) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: dir, done: make(chan error, 1), ready: make(chan bool, 1),
		log:  &logs{wrote: make(chan struct{})},
		file: filepath.Join(t.TempDir(), "addresses.json")}
	all := append([]string{"up", "--data", dir, "--egress-allow", "127.0.0.1", "--addresses", d.file},
		append(everyPort(), args...)...)
	d.cmd = exec.Command(filepath.Join(programs, "waybill"), all...)
	d.cmd.Stderr = d.log
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			if scanner.Text() == "waybill: ready" {
				d.ready <- true
			}
		}
		close(d.ready)
		d.done <- d.cmd.Wait()
	}()
	// Ended in order, so that the engine has left the directory before it is removed.
	t.Cleanup(func() { d.end(syscall.SIGTERM) })
	return d
}

// awaitReady returns once it is ready, and its addresses are known.
func (d *deployment) awaitReady() {
	t := d.t
	t.Helper()
	select {
	case ok := <-d.ready:
		if !ok {
			t.Fatalf("waybill up ended before it was ready:\n%s", d.log)
		}
	case <-time.After(startBound):
		t.Fatalf("waybill up is not ready after %s:\n%s", startBound, d.log)
	}
	b, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &d.addresses); err != nil {
		t.Fatal(err)
	}
}

// end sends a signal, unless the process is gone, and returns its exit status.
func (d *deployment) end(signals ...syscall.Signal) int {
	d.t.Helper()
	for _, s := range signals {
		_ = d.cmd.Process.Signal(s) // fails when it is gone
	}
	select {
	case err := <-d.done:
		d.done <- err
	case <-time.After(stopBound):
		d.t.Fatalf("waybill up has not stopped after %s:\n%s", stopBound, d.log)
	}
	return d.cmd.ProcessState.ExitCode()
}

// waybill runs a command and returns its exit status.
func waybill(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return waybillWithin(t, startBound, stdin, args...)
}

// waybillWithin is waybill for a command that may take longer than others.
func waybillWithin(t *testing.T, bound time.Duration, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(programs, "waybill"), args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// do runs a command against d, which must succeed, and decodes its JSON.
func (d *deployment) do(stdin string, into any, args ...string) {
	d.t.Helper()
	code, out, errs := waybill(d.t, stdin, append(args, "--data-dir", d.dir, "-o", "json")...)
	if code != 0 {
		d.t.Fatalf("waybill %s: exit %d, %s\n%s", strings.Join(args, " "), code, errs, d.log)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		d.t.Fatalf("waybill %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

// query asks the ledger as curl would.
func (d *deployment) query(sql string) string {
	d.t.Helper()
	return get(d.t, "http://"+d.ClickHouseHTTP+"/?database=waybill&query="+url.QueryEscape(sql), http.StatusOK)
}

func get(t *testing.T, address string, want int) string {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %s %v\n%s", address, resp.Status, err, b)
	}
	return strings.TrimSpace(string(b))
}

// request is what a receiver got.
type request struct {
	header http.Header
	body   []byte
}

// receiver answers with the status and passes on what it gets.
func receiver(t *testing.T, status func() int) (address string, got <-chan request) {
	t.Helper()
	requests := make(chan request, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		requests <- request{r.Header, b}
		w.WriteHeader(status())
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

func ok() int { return http.StatusOK }

// next waits for a request.
func next(t *testing.T, got <-chan request) request {
	t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(startBound):
		t.Fatal("the receiver got nothing")
		return request{}
	}
}
