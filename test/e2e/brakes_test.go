package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/streams"
)

// An endpoint is disabled in the middle of its retries: how many deliveries that
// would end is said first, and what it misses meanwhile is on a list.
func TestABrakeSaysWhatItEndsAndWhatWasMissed(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	var mended atomic.Bool
	address, got := receiver(t, func() int {
		if mended.Load() {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	var e endpoint
	d.do("", &e, "endpoint", "create", "--url", address, "--types", "order.*", "--policy", `{"delays":["1h"]}`)
	var published ack
	for i := range 3 {
		d.do("", &published, "event", "publish", "--type", "order.paid", "--id", fmt.Sprint("waits-", i), "--data", "{}")
		next(t, got)
	}
	await(t, "three deliveries that wait", func() bool {
		return d.query("SELECT count() FROM deliveries WHERE state = 'pending' AND attempt_count = 1") == "3"
	})
	disable := []string{"endpoint", "disable", e.ID, "--reason", "their maintenance", "--data", d.dir}
	code, out, errs := waybill(t, "", disable...)
	if code != 1 || out != "" || !strings.Contains(errs, "3 deliveries wait") || !strings.Contains(errs, "--yes") {
		t.Errorf("disable: exit %d, %s%s; want it to say what it would end", code, out, errs)
	}
	if code, _, errs := waybill(t, "", append(disable, "--yes")...); code != 0 {
		t.Fatalf("disable --yes: exit %d, %s", code, errs)
	}
	d.do("", &published, "event", "publish", "--type", "order.paid", "--id", "missed-1", "--data", "{}")
	d.do("", &published, "event", "publish", "--type", "other.kind", "--id", "not-its-type", "--data", "{}")
	await(t, "the missed events on record", func() bool {
		return d.query("SELECT count() FROM events WHERE event_id IN ('missed-1', 'not-its-type')") == "2"
	})
	mended.Store(true)
	if code, _, errs := waybill(t, "", "endpoint", "enable", e.ID, "--data", d.dir); code != 0 {
		t.Fatalf("enable: exit %d, %s", code, errs)
	}
	var missed struct {
		Events []struct{ ID, Type string }
	}
	list := []string{"endpoint", "missed", e.ID, "--since", "1h"}
	d.do("", &missed, list...)
	if len(missed.Events) != 1 || missed.Events[0].ID != "missed-1" {
		t.Errorf("missed: %+v", missed)
	}
	if code, out, errs := waybill(t, "", append(list, "--data", d.dir)...); code != 0 ||
		!strings.Contains(out, "missed-1") || !strings.Contains(errs, "waybill replay event") {
		t.Errorf("missed: exit %d, %s%s", code, out, errs)
	}
	if code, _, errs := waybill(t, "", "replay", "event", "missed-1", "--endpoint", e.ID, "--reason",
		"missed while disabled", "--data", d.dir); code != 0 {
		t.Fatalf("replay: exit %d, %s", code, errs)
	}
	if r := next(t, got); r.header.Get("webhook-id") != "missed-1" {
		t.Errorf("the receiver got %s", r.header.Get("webhook-id"))
	}
	await(t, "the replayed event to leave the list", func() bool {
		d.do("", &missed, list...)
		return len(missed.Events) == 0
	})
}

// maxBytes of LEDGER, as the server has it.
func (d *deployment) maxBytes(change int64) int64 {
	d.t.Helper()
	nc, err := nats.Connect("nats://" + d.NATS)
	if err != nil {
		d.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := js.Stream(d.t.Context(), streams.Ledger)
	if err != nil {
		d.t.Fatal(err)
	}
	config := s.CachedInfo().Config
	if change == 0 {
		return config.MaxBytes
	}
	config.MaxBytes = change
	if _, err := js.UpdateStream(d.t.Context(), config); err != nil {
		d.t.Fatal(err)
	}
	return change
}

// The cures that docs/operations.md and docs/backup.md give for a full LEDGER, for
// keys that a newcomer looks for, and for a directory that was copied, each on a
// data directory that lives on.
func TestACureSurvivesTheNextStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	d := start(t, dir)
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := waybill(t, "", append(args, "--data", dir)...)
		if code != want {
			t.Fatalf("waybill %s: exit %d, %s%s", strings.Join(args, " "), code, out, errs)
		}
		return out
	}
	run(0, "streams", "limit", "LEDGER", "--max-bytes", "17GiB")
	if got := d.maxBytes(0); got != 17<<30 {
		t.Fatalf("LEDGER has max_bytes %d", got)
	}
	d.maxBytes(18 << 30) // what `nats stream edit` does
	if out := run(0, "streams", "check"); !strings.Contains(out, "18 GiB, set here; 16 GiB by default") {
		t.Errorf("check: %s", out)
	}
	sound := func() {
		t.Helper()
		// It exits with 1: no escalation policy names anybody yet.
		if out := run(1, "doctor"); strings.Contains(out, "streams_drifted") ||
			strings.Contains(out, "waybill streams apply") {
			t.Errorf("doctor: %s", out)
		}
	}
	sound()
	run(0, "streams", "apply")
	code, pub, errs := waybill(t, "", "ledger", "key", "show", "--addresses", d.file)
	if code != 0 || pub != run(0, "ledger", "key", "show") || !strings.Contains(pub, "+") {
		t.Errorf("ledger key show by the addresses: exit %d, %s%s", code, pub, errs)
	}
	d.end(syscall.SIGTERM)

	copied := filepath.Join(t.TempDir(), "copied")
	if out, err := exec.Command("cp", "-a", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Remove(filepath.Join(copied, "lock")); err != nil {
		t.Fatal(err)
	}
	dir = copied
	d = start(t, copied)
	if got := d.maxBytes(0); got != 18<<30 {
		t.Errorf("after a start LEDGER has max_bytes %d, want the operator's", got)
	}
	sound()
	if again := run(0, "ledger", "key", "show"); again != pub {
		t.Errorf("the copy has other keys: %s, not %s", again, pub)
	}
	run(0, "streams", "limit", "LEDGER", "--max-bytes", "default")
	if got := d.maxBytes(0); got != 16<<30 {
		t.Errorf("back to the default LEDGER has max_bytes %d", got)
	}
}
