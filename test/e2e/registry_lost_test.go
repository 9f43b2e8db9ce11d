package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// The registry loses an endpoint, as with a NATS server that is made anew: doctor
// says so. Of a deleted endpoint it says nothing.
func TestARegistryThatIsPoorerThanTheLedgerIsNamed(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	var lost, deleted endpoint
	d.do("", &lost, "endpoint", "create", "--tenant", "acme", "--url", "http://127.0.0.1:9/a", "--types", "order.*")
	d.do("", &deleted, "endpoint", "create", "--tenant", "acme", "--url", "http://127.0.0.1:9/b", "--types", "order.*")
	var gone any
	d.do("", &gone, "endpoint", "delete", deleted.ID, "--reason", "test", "--yes")
	changes := "SELECT countIf(action = 'deleted') = 1 AND count() >= 3 FROM records WHERE kind = '" +
		string(record.EndpointChanged) + "'"
	await(t, "the changes on record", func() bool { return d.query(changes) == "1" })
	doctor := func() string {
		_, out, errs := waybill(t, "", "doctor", "--data", d.dir)
		return out + errs
	}
	if out := doctor(); !strings.Contains(out, "every endpoint that is on record is in the registry") {
		t.Errorf("nothing is lost:\n%s", out)
	}
	nc, err := nats.Connect("nats://" + d.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(context.Background(), streams.EndpointsBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(context.Background(), lost.ID); err != nil {
		t.Fatal(err)
	}
	code, out, errs := waybill(t, "", "doctor", "--data", d.dir)
	for _, want := range []string{"registry_lost", "lacks 1 endpoint that the ledger has on record, such as " + lost.ID} {
		if text := strings.Join(strings.Fields(out+errs), " "); code != 1 || !strings.Contains(text, want) {
			t.Errorf("exit %d; it does not say %q:\n%s%s", code, want, out, errs)
		}
	}

	// The cure that docs/operations.md names: what matched nobody meanwhile is sent by a replay.
	var published, replayed any
	d.do("", &published, "event", "publish", "--id", "nobody-1", "--tenant", "acme", "--type", "order.paid", "--data",
		"{}")
	d.onRecord("nobody-1", record.EventUnmatched)
	address, got := receiver(t, ok)
	var again endpoint
	d.do("", &again, "endpoint", "create", "--tenant", "acme", "--url", address, "--types", "order.*")
	d.do("", &replayed, "replay", "event", "nobody-1", "--tenant", "acme", "--endpoint", again.ID,
		"--reason", "registry was lost")
	if id := next(t, got).header.Get("Webhook-Id"); id != "nobody-1" {
		t.Errorf("the replay sent %q", id)
	}
}
