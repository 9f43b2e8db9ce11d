package process_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/app/process"
)

func TestProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:6060", "example.com:6060", "6060"} {
		if err := process.ServeDebug(addr, &process.Cleanup{}, zerolog.Nop()); err == nil ||
			!strings.Contains(err.Error(), "--debug-http") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", ":0", "localhost:0", "[::1]:0"} {
		var log bytes.Buffer
		var cleanup process.Cleanup
		if err := process.ServeDebug(addr, &cleanup, zerolog.New(&log)); err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		var line struct{ Addr string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get("http://" + line.Addr + "/debug/pprof/heap?debug=1")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte("heap profile")) {
			t.Errorf("%s: %s, %v", addr, resp.Status, err)
		}
		if err := cleanup.Run(zerolog.Nop()); err != nil {
			t.Error(err)
		}
		if _, err := http.Get("http://" + line.Addr + "/debug/pprof/"); err == nil {
			t.Errorf("%s is served after the stop", addr)
		}
	}
	if err := process.ServeDebug("", &process.Cleanup{}, zerolog.Nop()); err != nil {
		t.Errorf("off: %v", err)
	}
}
