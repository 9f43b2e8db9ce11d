package compose

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// patience bounds every wait: it covers a machine that runs much else beside.
const patience = 2 * time.Minute

// process is one service of compose.yaml that runs as a process.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string
	gone chan struct{} // closed when it has ended
}

// start runs a service's command line with its environment, both with the
// addresses and paths of containers replaced by those of this machine. It ends
// with the test, if not before.
func start(t *testing.T, s types.ServiceConfig, replace *strings.Replacer) *process {
	t.Helper()
	p := &process{t: t, name: s.Name, log: filepath.Join(t.TempDir(), s.Name+".log"), gone: make(chan struct{})}
	p.cmd = command(s, replace)
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has it too
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	go func() {
		defer close(p.gone)
		_ = p.cmd.Wait() // its status is in the process state
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of what %s wrote:\n%s", p.name, p.tail())
		}
	})
	return p
}

func command(s types.ServiceConfig, replace *strings.Replacer) *exec.Cmd {
	line := slices.Concat([]string(s.Entrypoint), []string(s.Command))
	if strings.HasPrefix(s.Image, "nats:") {
		line = append([]string{"nats-server"}, line...) // the image's entrypoint
	}
	for i := range line {
		line[i] = replace.Replace(line[i])
	}
	c := exec.Command(filepath.Join(bin, line[0]), line[1:]...)
	c.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range s.Environment {
		if value != nil {
			c.Env = append(c.Env, name+"="+replace.Replace(*value))
		}
	}
	// Nothing stays behind when the test is killed.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.gone
}

// stop ends the process as docker compose stop does, and checks that it ends well.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("%s: %v", p.name, err)
	}
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.t.Fatalf("%s did not stop", p.name)
	}
	if !p.cmd.ProcessState.Success() {
		p.t.Errorf("%s ended with %s\n%s", p.name, p.cmd.ProcessState, p.tail())
	}
}

func (p *process) tail() []byte {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-4000):]
}

// healthy waits until the service's own health check passes.
func (p *process) healthy(s types.ServiceConfig, replace *strings.Replacer) {
	p.t.Helper()
	url := replace.Replace(s.HealthCheck.Test[len(s.HealthCheck.Test)-1])
	eventually(p.t, p.name+" is healthy", func() string {
		select {
		case <-p.gone:
			p.t.Fatalf("%s ended with %s\n%s", p.name, p.cmd.ProcessState, p.tail())
		default:
		}
		status, body := call(p.t, http.MethodGet, url, "", nil)
		if status != http.StatusOK {
			return body
		}
		return ""
	})
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
func call(t *testing.T, method, url, body string, header http.Header) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
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

// addresses are n free ones on loopback.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		out = append(out, loopback.Address(t))
	}
	return out
}
