package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// report is one line that node/receiver.mjs writes.
type report struct {
	Port            int    `json:"port"`
	Verdict         string `json:"verdict"`
	Status          int    `json:"status"`
	ID              string `json:"id"`
	Type            string `json:"type"`
	DeliveryAttempt int    `json:"deliveryAttempt"`
	Bytes           int    `json:"bytes"`
	SHA256          string `json:"sha256"`
	Reason          string `json:"reason"`
	Accepted        int    `json:"accepted"`
	Applied         int    `json:"applied"`
	Stale           int    `json:"stale"`
}

type receiver struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *json.Decoder
	url   string
	key   envelope.Key
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	cmd := exec.Command(node(t), "receiver.mjs")
	cmd.Dir, cmd.Stderr = "node", os.Stderr
	cmd.Env = append(os.Environ(), "WAYBILL_SECRET="+newSecret+","+oldSecret)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test failed before stop
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	r := &receiver{t: t, cmd: cmd, lines: json.NewDecoder(bufio.NewReader(out)), key: hmacSecrets.key(t, oldSecret)}
	r.url = fmt.Sprintf("http://127.0.0.1:%d/hooks", r.next().Port)
	return r
}

func (r *receiver) next() report {
	r.t.Helper()
	var line report
	if err := r.lines.Decode(&line); err != nil {
		r.t.Fatalf("the receiver's next line: %v", err)
	}
	return line
}

func (r *receiver) deliver(e envelope.Event, attempt int, spoil func(*http.Request)) int {
	r.t.Helper()
	status, err := r.send(e, attempt, spoil)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

// send makes one attempt, as the dispatcher would, and returns the status.
func (r *receiver) send(e envelope.Event, attempt int, spoil func(*http.Request)) (int, error) {
	body := e.AppendBody(nil, attempt)
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if err := envelope.SetHeaders(req.Header, []envelope.Key{r.key}, "", e.ID, time.Now(), body); err != nil {
		return 0, err
	}
	if spoil != nil {
		spoil(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// stop ends the receiver and returns its last line.
func (r *receiver) stop() report {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	last := r.next()
	if err := r.cmd.Wait(); err != nil {
		r.t.Errorf("the receiver did not exit cleanly: %v", err)
	}
	return last
}

func parse(t *testing.T, raw []byte) envelope.Event {
	t.Helper()
	e, err := envelope.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestReceiverTakesEachEventOnceWhateverTheAttempts(t *testing.T) {
	r := startReceiver(t)
	events := corpus(t)
	for name, raw := range events {
		e := parse(t, raw)
		for attempt, want := range []string{1: "accepted", 2: "duplicate", 3: "duplicate"} {
			if attempt == 0 {
				continue
			}
			if status := r.deliver(e, attempt, nil); status != http.StatusNoContent {
				t.Errorf("%s, attempt %d: status %d", name, attempt, status)
			}
			body := e.AppendBody(nil, attempt)
			got := r.next()
			if got.Verdict != want || got.ID != e.ID || got.Type != e.Type || got.DeliveryAttempt != attempt ||
				got.Bytes != len(body) || got.SHA256 != envelope.DigestHex(body) {
				t.Errorf("%s, attempt %d: the receiver says %+v; want %s", name, attempt, got, want)
			}
		}
	}
	if last := r.stop(); last.Verdict != "stopped" || last.Accepted != len(events) {
		t.Errorf("at the end: %+v; want %d accepted", last, len(events))
	}
}

// The same withdrawal three times over is three facts, and the oldest, arriving
// last, must not win.
func TestReceiverOrdersByTimestampNotByArrival(t *testing.T) {
	r := startReceiver(t)
	events := corpus(t)
	for _, name := range []string{"consent_3_withdrawn_again", "consent_1_withdrawn", "consent_2_granted"} {
		r.deliver(parse(t, events[name]), 1, nil)
		if got := r.next(); got.Verdict != "accepted" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if last := r.stop(); last.Accepted != 3 || last.Applied != 1 || last.Stale != 2 {
		t.Errorf("at the end: %+v; want 3 accepted, 1 applied, 2 stale", last)
	}
}

func TestConcurrentRetriesAreClaimedOnce(t *testing.T) {
	r := startReceiver(t)
	e := parse(t, corpus(t)["payment_captured_large"])
	const attempts = 16
	var group sync.WaitGroup
	for attempt := range attempts {
		group.Go(func() {
			if status, err := r.send(e, attempt+1, nil); err != nil || status != http.StatusNoContent {
				t.Errorf("attempt %d: status %d, %v", attempt+1, status, err)
			}
		})
	}
	group.Wait()
	verdicts := map[string]int{}
	for range attempts {
		verdicts[r.next().Verdict]++
	}
	if verdicts["accepted"] != 1 || verdicts["duplicate"] != attempts-1 {
		t.Errorf("verdicts %v; want one accepted, the rest duplicates", verdicts)
	}
	r.stop()
}

func TestReceiverRejectsWhatWasNotSigned(t *testing.T) {
	r := startReceiver(t)
	e := parse(t, corpus(t)["payment_captured"])
	for _, c := range []struct {
		name   string
		spoil  func(*http.Request)
		status int
		reason string
	}{
		{"no signature", func(req *http.Request) { req.Header.Del("webhook-signature") }, 400, "Missing required headers"},
		{"another id", func(req *http.Request) { req.Header.Set("webhook-id", "evt_other") }, 400, "No matching signature"},
		{"an old timestamp", func(req *http.Request) { req.Header.Set("webhook-timestamp", "1700000000") }, 400, "too old"},
		{"another body", func(req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		}, 400, "No matching signature"},
		{"a body over the limit", func(req *http.Request) {
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, 1<<20+1))), 1<<20+1
		}, 413, "at most 1048576"},
		{"a GET", func(req *http.Request) { req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0 }, 405,
			"method GET"},
	} {
		if status := r.deliver(e, 1, c.spoil); status != c.status {
			t.Errorf("%s: status %d; want %d", c.name, status, c.status)
		}
		if got := r.next(); got.Verdict != "rejected" || got.Status != c.status || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %+v; want rejected with …%s…", c.name, got, c.reason)
		}
	}
	if last := r.stop(); last.Accepted != 0 {
		t.Errorf("at the end: %+v; want nothing accepted", last)
	}
}
