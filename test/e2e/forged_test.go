package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
)

// onRecord is the first record of a kind about an event.
func (d *deployment) onRecord(event string, kind record.Kind) record.Record {
	d.t.Helper()
	var body string
	await(d.t, fmt.Sprintf("%s of %s on record", kind, event), func() bool {
		body = d.query(fmt.Sprintf("SELECT body FROM records WHERE event_id = '%s' AND kind = '%s' ORDER BY idx LIMIT 1 "+
			"FORMAT TSVRaw", event, kind))
		return body != ""
	})
	r, err := record.Decode([]byte(body))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// owner runs a statement as the user of ClickHouse who may do everything.
func (d *deployment) owner(statement string) {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, "keys", "clickhouse.json"))
	if err != nil {
		d.t.Fatal(err)
	}
	var passwords map[string]string
	if err := json.Unmarshal(b, &passwords); err != nil {
		d.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, "http://"+d.ClickHouseHTTP+"/?database=waybill",
		strings.NewReader(statement))
	if err != nil {
		d.t.Fatal(err)
	}
	req.SetBasicAuth("owner", passwords["owner"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %s %s %v", statement, resp.Status, said, err)
	}
}

// state publishes records to LEDGER, as whoever reaches NATS can, and waits until
// ClickHouse has them.
func (d *deployment) state(js jetstream.JetStream, records ...record.Record) {
	d.t.Helper()
	for _, r := range records {
		m, err := r.Message()
		if err != nil {
			d.t.Fatal(err)
		}
		if _, err := js.PublishMsg(context.Background(), m); err != nil {
			d.t.Fatal(err)
		}
		await(d.t, r.ID+" in ClickHouse", func() bool {
			return d.query("SELECT count() FROM records WHERE id = '"+r.ID+
				"'") == "1"
		})
	}
}

// signed waits until a checkpoint covers every record: before that verify says, as it
// must, that nothing proves them.
func (d *deployment) signed() {
	d.t.Helper()
	await(d.t, "a checkpoint over every record", func() bool {
		return d.query("SELECT (SELECT max(size) FROM checkpoints) > (SELECT max(idx) FROM records)") == "1"
	})
}

// Whoever reaches NATS states deliveries that never were, and whoever reaches
// ClickHouse puts a row into it: both are named, with exit status 1.
//
//lint:long one story, told in order
func TestWhatNobodyVouchesForIsNamed(t *testing.T) {
	t.Parallel()
	d := start(t, filepath.Join(t.TempDir(), "data"))
	nc, err := nats.Connect("nats://" + d.NATS)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	taking, got := receiver(t, ok)
	refusing, refused := receiver(t, func() int { return http.StatusUnprocessableEntity })
	var good, bad endpoint
	d.do("", &good, "endpoint", "create", "--tenant", "acme", "--url", taking, "--types", "order.*")
	d.do("", &bad, "endpoint", "create", "--tenant", "acme", "--url", refusing, "--types", "order.*")
	var a ack
	d.do("", &a, "event", "publish", "--tenant", "acme", "--type", "order.paid", "--id", "order-1", "--data", `{"n":1}`)
	next(t, got)
	next(t, refused)
	var ended struct{ Deliveries []struct{ State string } }
	d.do("", &ended, "delivery", "wait", "order-1")
	ask := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := waybill(t, "", append(args, "--data", d.dir)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
		}
		return out + errs
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("it does not say %q:\n%s", w, out)
			}
		}
	}
	dead := d.onRecord("order-1", record.DeliveryDeadLetter)
	says(ask(0, "audit", "completeness"), "Balanced: nothing is unaccounted for.",
		"EVENTS has 1 event as the ledger says; CLAIMS has the claims of 2 attempts.")
	d.signed()
	ask(0, "ledger", "verify")

	// An event that never was, owed and delivered; and a dead letter that was delivered after all.
	accepted, attempt := d.onRecord("order-1", record.EventAccepted), d.onRecord("order-1", record.Attempt)
	accepted.EventID, accepted.EventSeq, accepted.Endpoints, accepted.EndpointIDs = "forged-1", 999, 1, []string{good.ID}
	accepted.At, accepted.StoredAt = time.Now(), time.Now()
	accepted.ID = record.EventRecordID(999, accepted.StoredAt)
	owed := record.Record{ID: record.OwedID("forged-1", good.ID, ""), Kind: record.DeliveryOwed, At: time.Now(),
		Tenant: "acme", EventID: "forged-1",
		EndpointID: good.ID, EventType: "order.paid", StoredAt: accepted.StoredAt}
	attempt.At, attempt.StartedAt, attempt.Outcome, attempt.Class, attempt.Decision, attempt.Status = time.Now(),
		time.Now(), "response", "delivered", "delivered", 200
	made := attempt
	made.ID, made.EventID, made.EndpointID, made.Attempt = "att_01JQ8Z6T5V3N9W2X4Y7R8S1M6A", "forged-1", good.ID, 1
	undone := attempt
	undone.ID, undone.EventID, undone.EndpointID, undone.Attempt = "att_01JQ8Z6T5V3N9W2X4Y7R8S1M6B", dead.EventID,
		dead.EndpointID, 2
	d.state(js, accepted, owed, made, undone)
	out := ask(1, "audit", "completeness")
	says(out, "event_unknown", "EVENTS ends at 1, it says message 999", "forged-1", "attempt_not_claimed", made.ID,
		undone.ID)

	// Its evidence is on record and signed for, and says that nobody took the event in.
	d.signed()
	key := filepath.Join(t.TempDir(), "ledger.pub")
	_, public, _ := waybill(t, "", "ledger", "key", "show", "--data", d.dir)
	if err := os.WriteFile(key, []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "forged.json")
	says(ask(1, "evidence", "export", "forged-1", "--out", file),
		"EVENTS does not vouch for event forged-1: event_unknown")
	verify := func(want int, file string) string {
		t.Helper()
		code, out, errs := waybill(t, "", "evidence", "verify", file, "--key", key)
		if code != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", file, code, want, out, errs)
		}
		return strings.Join(strings.Fields(out+errs), " ")
	}
	says(verify(1, file), "PROVEN to be on record, and EVENTS does NOT VOUCH for it",
		"EVENTS ends at 1, it says message 999")
	honest := filepath.Join(t.TempDir(), "honest.json")
	ask(0, "evidence", "export", "order-1", "--out", honest)
	says(verify(0, honest), "EVENTS, the stream that takes events in, held the event as it is on record")

	// A row in ClickHouse that LEDGER never had.
	columns := d.query("SELECT arrayStringConcat(groupArray(name), ', ') FROM (SELECT name FROM system.columns WHERE " +
		"database = 'waybill' AND table = 'records' AND default_kind = '' ORDER BY position)")
	idx, err := strconv.Atoi(d.query("SELECT max(idx) FROM records"))
	if err != nil {
		t.Fatal(err)
	}
	d.owner(fmt.Sprintf("INSERT INTO records (%s) SELECT * REPLACE (%d AS idx, stream_seq + 1 AS stream_seq, "+
		"'att_inserted' AS id, replace(body, id, 'att_inserted') AS body) FROM (SELECT %s FROM records WHERE idx = %d)",
		columns, idx+1, columns, idx))
	d.do("", &a, "event", "publish", "--tenant", "acme", "--type", "order.paid", "--id", "order-2", "--data", `{"n":2}`)
	d.do("", &ended, "delivery", "wait", "order-2")
	await(t, "a checkpoint over the row", func() bool {
		return d.query("SELECT max(size) > "+strconv.Itoa(idx+1)+
			" FROM checkpoints") == "1"
	})
	says(ask(1, "ledger", "verify"), "NOT GOOD", "att_inserted", "LEDGER holds other bytes at sequence",
		"somebody else than the sink put the row into the table")

	// The stream that keeps the checkpoints.
	if err := js.DeleteStream(t.Context(), streams.Checkpoints); err != nil {
		t.Fatal(err)
	}
	says(ask(1, "ledger", "verify"), "the stream CHECKPOINTS is not there", "waybill streams apply", "--checkpoint FILE")
}
