//go:build disk

package operations_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/test/testkit"
	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// smallDisk is a file system of its own. Only root may mount one, which is why
// this test has a build tag: make test-disk.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("waybill-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mounting a small disk: %v; run this test as root", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on a disk, and returns what makes room again.
func fill(t *testing.T, dir string) (makeRoom func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	if !strings.Contains(err.Error(), "no space left") {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// When the disk is full, producers are told; up ends and says why; and once
// there is room and it is started again, everything acknowledged is delivered.
func TestOnAFullDiskNothingAcknowledgedIsLost(t *testing.T) {
	clickhouse := testkit.ClickHouse(t)
	var mu sync.Mutex
	received := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received[r.Header.Get("webhook-id")] = true
	}))
	defer receiver.Close()

	disk, address := smallDisk(t, "48m"), loopback.Address(t)
	run := func() *program {
		return start(t, "waybill", address, nil, "up", "--data", filepath.Join(disk, "data"), "--egress-allow", "127.0.0.1",
			"--http", address, "--nats", "127.0.0.1:0", "--clickhouse", clickhouse.DSN, "--log-format", "json")
	}
	p := run().ready()
	endpoint(t, address, fmt.Sprintf(`{"url":%q,"types":["order.*"]}`, receiver.URL))

	var acknowledged []string
	refused := map[string]int{}
	data := `"` + strings.Repeat("x", 4000) + `"`
	publish := func(id string) int {
		status, answer := call(t, http.MethodPost, "http://"+address+"/v1/events",
			fmt.Sprintf(`{"id":%q,"type":"order.paid","data":%s}`, id, data))
		switch status {
		case http.StatusAccepted, http.StatusOK:
			acknowledged = append(acknowledged, id)
		default:
			refused[fmt.Sprint(status, " ", answer[:min(len(answer), 120)])]++
		}
		return status
	}
	for i := range 50 {
		if status := publish(fmt.Sprintf("before-%d", i)); status != http.StatusAccepted {
			t.Fatalf("event %d: %d before the disk is full", i, status)
		}
	}
	makeRoom := fill(t, disk)
	limit := time.After(patience)
	for i := 0; ; i++ {
		publish(fmt.Sprintf("full-%d", i))
		select {
		case <-p.gone:
		case <-limit:
			t.Fatalf("up runs on a full disk; acknowledged %d, refused %v", len(acknowledged), refused)
		default:
			continue
		}
		break
	}
	t.Logf("acknowledged %d, refused %v, exit %d", len(acknowledged), refused, p.cmd.ProcessState.ExitCode())
	if p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.log.String(), "is the disk full") {
		t.Errorf("it ended with %s", p.cmd.ProcessState)
	}
	for answer := range refused {
		if !strings.HasPrefix(answer, "503 ") && !strings.HasPrefix(answer, "0 ") { // 0: it was ending
			t.Errorf("a producer was answered %s", answer)
		}
	}
	makeRoom()
	run().ready()
	if status := publish("after"); status != http.StatusAccepted {
		t.Errorf("with room again an event is answered %d", status)
	}
	eventually(t, "everything acknowledged is delivered", func() string {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range acknowledged {
			if !received[id] {
				return fmt.Sprintf("%s is missing, of %d", id, len(acknowledged))
			}
		}
		return ""
	})
}

func TestOnAReadOnlyDiskItDoesNotStartAndSaysSo(t *testing.T) {
	disk := smallDisk(t, "1m")
	if err := syscall.Mount("waybill-test", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	p := start(t, "waybill", loopback.Address(t), nil, "up", "--data", filepath.Join(disk, "data"))
	<-p.gone
	if p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.log.String(), "read-only file system") {
		t.Errorf("%s: %s", p.cmd.ProcessState, p.log)
	}
}
