package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/pkg/envelope"
)

// endpoint is one with its secret, as it is made.
type endpoint struct{ ID, Secret string }

func (e *endpoint) UnmarshalJSON(b []byte) error {
	var made struct {
		Endpoint struct{ ID string }
		Secret   string
	}
	err := json.Unmarshal(b, &made)
	e.ID, e.Secret = made.Endpoint.ID, made.Secret
	return err
}

// deliveries is a list of them.
type deliveries struct{ Deliveries []struct{ State string } }

type ack struct {
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

//lint:long one story, told in order
func TestAnEventIsDeliveredSignedAndOnRecord(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	address, got := receiver(t, ok)
	var e endpoint
	d.do("", &e, "endpoint", "create", "--tenant", "acme", "--url", address, "--types", "order.*")

	const data = `{"amount": 10.00,"id":12345678901234567890}`
	file := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(file, []byte(data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second ack
	publish := []string{"event", "publish", "--tenant", "acme", "--type", "order.paid", "--id", "order-17", "--data",
		"@" + file}
	d.do("", &first, publish...)
	d.do("", &second, publish...)
	if first != (ack{"order-17", false}) || second != (ack{"order-17", true}) {
		t.Errorf("published %+v, then %+v", first, second)
	}

	r := next(t, got)
	v, err := envelope.NewVerifier(e.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(r.header, r.body); err != nil {
		t.Errorf("signature: %v", err)
	}
	if !strings.HasSuffix(string(r.body), `"data":`+data+`}`) {
		t.Errorf("the receiver got %s", r.body)
	}
	var ended deliveries
	d.do("", &ended, "delivery", "wait", "order-17")
	if len(ended.Deliveries) != 1 || ended.Deliveries[0].State != "delivered" {
		t.Errorf("ended as %+v", ended)
	}
	if digest := d.query("SELECT payload_digest FROM attempts WHERE event_id = 'order-17'"); digest != envelope.DigestHex(r.body) {
		t.Errorf("digest on record %s, of the bytes received %s", digest, envelope.DigestHex(r.body))
	}
	var shown struct {
		Deliveries []struct {
			Attempts []struct{ Status int }
		}
	}
	d.do("", &shown, "delivery", "show", "order-17")
	if len(shown.Deliveries) != 1 || len(shown.Deliveries[0].Attempts) != 1 ||
		shown.Deliveries[0].Attempts[0].Status != http.StatusOK {
		t.Errorf("shown: %+v", shown)
	}
	if code, out, errs := waybill(t, "", "delivery", "show", "order-17", "--data", d.dir); code != 0 ||
		!strings.Contains(out, "delivered at") {
		t.Errorf("exit %d, %s %s", code, out, errs)
	}

	t.Run("over HTTP too", func(t *testing.T) {
		body := `{"id":"order-18","type":"order.paid","timestamp":"2026-08-19T14:32:07Z","data":1}`
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+d.HTTP+"/v1/events", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Waybill-Tenant", "acme")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			t.Fatalf("POST /v1/events: %s", resp.Status)
		}
		if r := next(t, got); r.header.Get("webhook-id") != "order-18" {
			t.Errorf("the receiver got %s", r.header.Get("webhook-id"))
		}
		get(t, "http://"+d.HTTP+"/readyz", http.StatusOK)
		get(t, "http://"+d.HTTP+"/metrics", http.StatusOK)
	})
	t.Run("a replay is on record with who and why", func(t *testing.T) {
		var r struct{ Targets []string }
		d.do("", &r, "replay", "event", "order-17", "--reason", "receiver lost it", "--actor", "jo@example.com")
		if len(r.Targets) != 1 || r.Targets[0] != e.ID {
			t.Errorf("replayed to %v", r.Targets)
		}
		if again := next(t, got); again.header.Get("webhook-id") != "order-17" ||
			!strings.Contains(string(again.body), `"deliveryAttempt":2`) {
			t.Errorf("the receiver got %s", again.body)
		}
	})
	t.Run("a second up on the same data is refused", func(t *testing.T) {
		code, out, errs := waybill(t, "", append([]string{"up", "--data", d.dir}, everyPort()...)...)
		pid := strconv.Itoa(d.cmd.Process.Pid)
		if code != 1 || out != "" || !strings.Contains(errs, "in use by waybill process "+pid+" at http://"+d.HTTP) {
			t.Errorf("exit %d, %s %s", code, out, errs)
		}
		get(t, "http://"+d.HTTP+"/readyz", http.StatusOK)
	})
	t.Run("everything in the data directory is closed to others", func(t *testing.T) {
		err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // the servers remove files meanwhile
			}
			info, err := e.Info()
			if err == nil && filepath.Dir(path) == d.dir && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %s", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestASecondCtrlCEndsAtOnce(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"), "--drain-timeout", "1m")
	release := make(chan bool)
	address, got := receiver(t, func() int { <-release; return http.StatusOK })
	defer close(release)
	var e endpoint
	d.do("", &e, "endpoint", "create", "--url", address, "--types", ">", "--timeout", "30s")
	var published ack
	d.do("", &published, "event", "publish", "--type", "a", "--data", "1")
	next(t, got) // the attempt in hand would hold the stop up for 30 s
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.log.await(t, "up.stopping")
	if code := d.end(syscall.SIGINT); code != 1 ||
		!strings.Contains(d.log.String(), "stopped at once by a second interrupt") {
		t.Errorf("exit %d:\n%s", code, d.log)
	}
	start(t, d.dir) // waits for the engine, which ends by itself, to leave the directory
}

func TestWhatRunsElsewhereCanBeUsed(t *testing.T) {
	t.Parallel()
	// One deployment has one set of secrets keys, whoever signs.
	home := filepath.Join(t.TempDir(), "a")
	a := start(t, home)
	b := start(t, filepath.Join(t.TempDir(), "b"), "--nats-url", "nats://"+a.NATS, "--secrets-key-file",
		filepath.Join(home, "keys", "secrets.key"),
		"--clickhouse", "clickhouse://default@"+a.ClickHouseNative+"/waybill", "--partitions", "3")
	address, got := receiver(t, ok)
	var e endpoint
	b.do("", &e, "endpoint", "create", "--url", address, "--types", ">")
	var published ack
	b.do(`{"x":1}`, &published, "event", "publish", "--type", "a.b", "--data", "-")
	if r := next(t, got); r.header.Get("webhook-id") != published.ID {
		t.Errorf("the receiver got %s", r.header.Get("webhook-id"))
	}
	var ended deliveries
	a.do("", &ended, "delivery", "wait", published.ID)
	if len(ended.Deliveries) != 1 || ended.Deliveries[0].State != "delivered" {
		t.Errorf("ended as %+v", ended)
	}
	code, _, errs := waybill(t, "", "streams", "apply", "--nats-url", "nats://"+a.NATS, "--partitions", "2")
	if code != 1 || !strings.Contains(errs, "there are 3 partitions") {
		t.Errorf("fewer partitions: exit %d, %s", code, errs)
	}
	if code := b.end(syscall.SIGINT); code != 0 {
		t.Errorf("exit %d:\n%s", code, b.log)
	}
	get(t, "http://"+a.HTTP+"/readyz", http.StatusOK)
}

func TestATakenPortIsNamedWithItsFlag(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, flag := range []string{"--http", "--nats", "--clickhouse-native", "--clickhouse-http"} {
		t.Run(flag, func(t *testing.T) {
			code, out, errs := waybill(t, "", append(append([]string{"up", "--data", filepath.Join(t.TempDir(), "d")},
				everyPort()...), flag, l.Addr().String())...)
			last := lastLine(errs)
			if code != 1 || out != "" || !strings.Contains(last, l.Addr().String()) || !strings.Contains(last, "with "+flag) {
				t.Errorf("exit %d, %q", code, last)
			}
		})
	}
}

func TestADataDirectoryThatCannotBeOneIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ data, want string }{
		{file, "a file is in the way"},
		{filepath.Join(file, "below"), "a file is in the way"},
		{dir, "holds other files (file) and is no Waybill data directory"},
	} {
		code, _, errs := waybill(t, "", append([]string{"up", "--data", tt.data}, everyPort()...)...)
		if code != 1 || !strings.Contains(errs, tt.want) || !strings.Contains(errs, "with --data") {
			t.Errorf("%s: exit %d, %s", tt.data, code, errs)
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// events are so many lines of NDJSON.
func events(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"e-%d","type":"a.b","timestamp":"2026-08-19T14:32:07Z","data":{"n":%d}}`+"\n", i, i)
	}
	return b.String()
}

func TestNothingIsLostByCtrlCOrKill(t *testing.T) {
	t.Parallel()
	const n = 15
	for _, how := range []struct {
		name string
		end  func(*testing.T, *deployment)
	}{
		{"Ctrl-C", func(t *testing.T, d *deployment) {
			if code := d.end(syscall.SIGINT); code != 0 {
				t.Errorf("exit %d:\n%s", code, d.log)
			}
			if _, err := os.Stat(filepath.Join(d.dir, "addresses.json")); !os.IsNotExist(err) {
				t.Errorf("the addresses are still there: %v", err)
			}
		}},
		{"kill -9", func(_ *testing.T, d *deployment) { d.end(syscall.SIGKILL) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			d := start(t, dir)
			var healthy atomic.Bool
			address, got := receiver(t, func() int {
				if healthy.Load() {
					return http.StatusOK
				}
				return http.StatusServiceUnavailable
			})
			var e endpoint
			d.do("", &e, "endpoint", "create", "--url", address, "--types", "a.*", "--policy",
				`{"delays":["500ms","1s","1s","1s","1s","1s"]}`)
			var acks struct{ Results []ack }
			d.do(events(n), &acks, "event", "publish", "--ndjson", "--data", "-")
			if len(acks.Results) != n {
				t.Fatalf("%d acks", len(acks.Results))
			}
			next(t, got) // work is in hand
			how.end(t, d)
			if code, _, errs := waybill(t, "", "endpoint", "list", "--data", dir); code != 1 ||
				!strings.Contains(errs, "nothing runs on data directory "+dir) {
				t.Errorf("exit %d, %s", code, errs)
			}

			healthy.Store(true)
			began := time.Now()
			d = start(t, dir)
			t.Logf("started again in %s", time.Since(began).Round(time.Millisecond))
			for i := range n {
				var ended deliveries
				d.do("", &ended, "delivery", "wait", fmt.Sprintf("e-%d", i))
				if len(ended.Deliveries) != 1 || ended.Deliveries[0].State != "delivered" {
					t.Errorf("e-%d ended as %+v", i, ended)
				}
			}
			if got := d.query("SELECT count(), uniqExact(event_id, endpoint_id) FROM deliveries WHERE state = 'delivered'"); got != fmt.Sprintf("%d\t%d", n, n) {
				t.Errorf("delivered on record: %s", got)
			}
		})
	}
}
