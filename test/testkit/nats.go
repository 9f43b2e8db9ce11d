package testkit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

const (
	// startTimeout bounds the start of a server on a machine that is busy with other tests.
	startTimeout = 60 * time.Second
	// natsModule is the server that go.mod names: the one that the product embeds.
	natsModule = "github.com/nats-io/nats-server/v2"
)

// Server is a NATS server with JetStream in a process of its own, so that a
// test can kill and freeze it as an operating system would.
type Server struct {
	// URL stays the same across Restart. Dir is its JetStream directory.
	URL string
	Dir string

	t    testing.TB
	addr string     // where it listens, over all its starts
	more []string   // further flags
	mu   sync.Mutex // guards cmd and logs
	cmd  *exec.Cmd
	gone chan struct{} // closed when cmd has ended
	logs []string
}

// NATS starts a server on a free loopback port, with JetStream in a directory
// of the test and the streams of this version applied (one partition). It ends
// with the test.
func NATS(t testing.TB) *Server {
	t.Helper()
	s := BareNATS(t)
	s.Apply(streams.Options{Partitions: 1})
	return s
}

// BareNATS is NATS without any stream.
func BareNATS(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, addr: loopback.Address(t), Dir: filepath.Join(t.TempDir(), "jetstream")}
	t.Cleanup(s.end)
	s.start()
	return s
}

// Apply creates the streams with o.
func (s *Server) Apply(o streams.Options) {
	s.t.Helper()
	nc := s.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if _, err := streams.Apply(ctx, js, o); err != nil {
		s.t.Fatalf("applying the streams: %v", err)
	}
}

// Connect opens a connection that reconnects for as long as the test runs, and
// is closed with it.
func (s *Server) Connect(opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	opts = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, opts...)
	nc, err := nats.Connect(s.URL, opts...)
	if err != nil {
		s.t.Fatalf("connecting to %s: %v", s.URL, err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// JetStream is a client on a connection of its own.
func (s *Server) JetStream() jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.Connect())
	if err != nil {
		s.t.Fatal(err)
	}
	return js
}

// Stop ends the server as SIGTERM does, and waits until it is gone.
func (s *Server) Stop() { s.signalAndWait(syscall.SIGTERM) }

// Kill ends the server as kill -9 does, and waits until it is gone. Its files
// are what it left behind.
func (s *Server) Kill() { s.signalAndWait(syscall.SIGKILL) }

// Freeze stops the server from running, and Thaw lets it go on: a stall. It
// returns once every thread stands still: a signal alone takes effect later,
// and the server would answer in between.
func (s *Server) Freeze() {
	s.t.Helper()
	if err := Freeze(s.Pid()); err != nil {
		s.t.Errorf("freezing nats-server: %v", err)
	}
}

// Freeze stops a process that this one started, and returns once every thread
// of it stands still.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && !status.Stopped():
			return fmt.Errorf("process %d ended: status %#x", pid, uint32(status))
		}
		return err
	}
}

// Thaw ends a Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// Restart starts the server again after Stop or Kill, on the same port and
// directory. The streams are as they were.
func (s *Server) Restart() {
	s.t.Helper()
	s.start()
}

// Pid is the server's process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Logs are what the server wrote, over all its starts.
func (s *Server) Logs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.logs, "\n")
}

func (s *Server) start() {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	program, err := natsProgram()
	if err != nil {
		s.t.Fatalf("building %s: %v", natsModule, err)
	}
	cmd := exec.Command(program, append([]string{"-a", host, "-p", port, "-js", "-sd", s.Dir}, s.more...)...)
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("starting %s: %v", program, err)
	}
	ready, gone := make(chan string, 1), make(chan struct{})
	s.mu.Lock()
	s.cmd, s.gone = cmd, gone
	s.mu.Unlock()
	go func() {
		defer close(gone)
		s.follow(out, ready)
		_ = cmd.Wait() // its exit status is the signal that a test sent
	}()
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case address := <-ready:
		s.URL = "nats://" + address
	case <-gone:
		s.t.Fatalf("nats-server ended at start:\n%s", s.Logs())
	case <-timeout.C:
		s.t.Fatalf("nats-server was not ready after %s:\n%s", startTimeout, s.Logs())
	}
}

var listening = regexp.MustCompile(`Listening for client connections on (\S+)`)

// follow keeps the server's log and reports its address once it is ready.
func (s *Server) follow(out io.Reader, ready chan<- string) {
	lines := bufio.NewScanner(out)
	address := ""
	for lines.Scan() {
		line := lines.Text()
		s.mu.Lock()
		s.logs = append(s.logs, line)
		s.mu.Unlock()
		if m := listening.FindStringSubmatch(line); m != nil {
			address = m[1]
		}
		if strings.HasSuffix(line, "Server is ready") {
			ready <- address
		}
	}
}

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	cmd := s.cmd
	s.mu.Unlock()
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("signal %s to nats-server: %v", sig, err)
	}
}

func (s *Server) signalAndWait(sig os.Signal) {
	s.t.Helper()
	s.signal(sig)
	s.mu.Lock()
	gone := s.gone
	s.mu.Unlock()
	<-gone
}

func (s *Server) end() {
	s.mu.Lock()
	started := s.cmd != nil
	s.mu.Unlock()
	if started {
		s.Kill()
	}
}

// natsProgram is the server's file; a test binary asks go for it once.
var natsProgram = sync.OnceValues(buildNATS)

// buildNATS builds the server once per version and user. Two tests that
// build it at the same time both win: the file is renamed into place.
func buildNATS() (string, error) {
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", natsModule).Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "waybill-testkit", "nats-server-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	temp := fmt.Sprintf("%s.%d", program, os.Getpid())
	if out, err := exec.Command("go", "build", "-o", temp, natsModule).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, os.Rename(temp, program)
}
