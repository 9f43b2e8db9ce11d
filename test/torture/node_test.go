package torture_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/streams"
)

// nodeReceiver is test/interop/node/receiver.mjs: what a receiver's author
// writes with the standardwebhooks library.
type nodeReceiver struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  *json.Decoder
	secret string
	port   int
}

// nodeReport is one line that it writes.
type nodeReport struct {
	Port     int    `json:"port"`
	Verdict  string `json:"verdict"`
	ID       string `json:"id"`
	Attempt  int    `json:"deliveryAttempt"`
	SHA256   string `json:"sha256"`
	Reason   string `json:"reason"`
	Accepted int    `json:"accepted"`
}

func startNode(t *testing.T, secret string) *nodeReceiver {
	t.Helper()
	dir := filepath.Join(root, "test", "interop", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "standardwebhooks", "package.json")); err != nil {
		t.Fatalf("%v; run: cd test/interop/node && npm ci --ignore-scripts", err)
	}
	cmd := exec.Command("node", "receiver.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "WAYBILL_SECRET="+secret)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := &nodeReceiver{t: t, cmd: cmd, lines: json.NewDecoder(bufio.NewReader(out)), secret: secret}
	r.port = r.next().Port
	return r
}

func (r *nodeReceiver) next() (line nodeReport) {
	r.t.Helper()
	if err := r.lines.Decode(&line); err != nil {
		r.t.Fatalf("the receiver's next line: %v", err)
	}
	return line
}

// loseFirstAnswer stands before a receiver and cuts the first connection when
// the answer comes: the receiver has done its work, and the sender cannot know.
func loseFirstAnswer(t *testing.T, target string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var lost atomic.Bool
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client) }()
				first := make([]byte, 1)
				if _, err := io.ReadFull(server, first); err != nil || lost.CompareAndSwap(false, true) {
					return
				}
				_, _ = client.Write(first)
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return l.Addr().String()
}

func TestAReceiverWrittenInNodeTakesAnEventOnceAlthoughItComesThreeTimes(t *testing.T) {
	t.Parallel()
	s := allInOne(t, "1s")
	secret := "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	node := startNode(t, secret)
	url := "http://" + loseFirstAnswer(t, fmt.Sprintf("127.0.0.1:%d", node.port)) + "/hooks"
	made, err := s.control.CreateEndpoint(t.Context(), control.EndpointSpec{URL: url, Types: []string{">"}, Secret: secret,
		Timeout: control.Duration(10 * time.Second), Policy: quick()}, "torture")
	must(t, err)
	_, err = s.js.Publish(t.Context(), streams.EventSubject(tenant, "pay.captured"),
		envelopeOf("evt-1", "pay.captured", 1), jetstream.WithMsgID("evt-1"))
	must(t, err)

	var digests []string
	expect := func(verdict string, attempt int) {
		t.Helper()
		got := node.next()
		if got.Verdict != verdict || got.ID != "evt-1" || got.Attempt != attempt {
			t.Errorf("the receiver says %+v; want %s of attempt %d", got, verdict, attempt)
		}
		digests = append(digests, got.SHA256)
	}
	expect("accepted", 1)
	expect("duplicate", 2)
	s.rest()
	replay := exec.Command(filepath.Join(bin, "waybill"), "replay", "event", "evt-1", "--reason", "ticket 4711", "--data",
		filepath.Join(s.dir, "data"))
	if out, err := replay.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect("duplicate", 3)
	s.rest()
	must(t, node.cmd.Process.Signal(syscall.SIGTERM))
	if last := node.next(); last.Verdict != "stopped" || last.Accepted != 1 {
		t.Errorf("at the end: %+v; want one accepted", last)
	}

	rows, err := s.rows(t.Context())
	must(t, err)
	var outcomes, recorded []string
	for _, row := range rows {
		if r := row.Record; r.Kind == record.Attempt && r.EndpointID == made.Endpoint.ID {
			outcomes, recorded = append(outcomes, r.Outcome), append(recorded, r.PayloadDigest)
		}
	}
	if fmt.Sprint(outcomes) != "[connection_reset delivered delivered]" || fmt.Sprint(recorded) != fmt.Sprint(digests) {
		t.Errorf("on record: %v with %v; the receiver got %v", outcomes, recorded, digests)
	}
}
