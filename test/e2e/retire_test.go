package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// oldDelivery states what is on record of one event of 2015 that was delivered.
func oldDelivery(js jetstream.JetStream, event string, at time.Time) error {
	base := record.Record{At: at, Tenant: "acme", EventID: event, EventType: "order.paid"}
	accepted, owed, attempt := base, base, base
	accepted.Kind, accepted.ID, accepted.Endpoints = record.EventAccepted, "event.accepted/"+event, 1
	owed.Kind, owed.ID, owed.EndpointID = record.DeliveryOwed, "delivery.owed/"+event, "ep_old"
	attempt.Kind, attempt.ID, attempt.EndpointID, attempt.Attempt = record.Attempt, "att_"+event, "ep_old", 1
	attempt.StartedAt, attempt.Status, attempt.Outcome, attempt.Class, attempt.Decision = at, 200, "response", "delivered",
		"delivered"
	for _, r := range []record.Record{accepted, owed, attempt} {
		m, err := r.Message()
		if err != nil {
			return err
		}
		if _, err := js.PublishMsg(context.Background(), m); err != nil {
			return err
		}
	}
	return nil
}

// A retirement from the command line, on a deployment as people run it: the real
// sink, tiles and checkpoints, and the custodian's own rights.
//
//lint:long one story, told in order
func TestOldMonthsAreRetiredByCommand(t *testing.T) {
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
	january, march := time.Date(2015, 1, 10, 12, 0, 0, 0, time.UTC), time.Date(2015, 3, 10, 12, 0, 0, 0, time.UTC)
	publish := func(prefix string, n int, at time.Time) {
		t.Helper()
		for i := range n {
			if err := oldDelivery(js, fmt.Sprintf("%s-%d", prefix, i), at.Add(time.Duration(i)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("jan", 50, january)
	publish("mar", 50, march)
	publish("new", 100, time.Now().Add(-time.Hour)) // so that full tiles cover what is old
	months := func() string {
		return d.query("SELECT arrayStringConcat(groupArray(m), ' ') FROM (SELECT DISTINCT toString(toYYYYMM(at)) AS m " +
			"FROM records WHERE at < '2020-01-01' ORDER BY m)")
	}
	await(t, "everything is in ClickHouse and signed", func() bool {
		return d.query("SELECT count() >= 600 AND (SELECT max(size) FROM checkpoints) >= 600 AND (SELECT count() FROM "+
			"tiles WHERE level = 0) >= 2 FROM records") == "1"
	})
	run := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := waybill(t, "", append(args, "--data", d.dir)...)
		if code != want {
			t.Errorf("waybill %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, errs)
		}
		return out + errs
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("lacks %q:\n%s", w, out)
			}
		}
	}
	confirm := []string{"ledger", "retire", "--confirm", "--actor", "ann@example.com", "--reason", "yearly retirement"}

	says(run(0, "ledger", "retire"), "2015-01", "2015-03", "would go", "nothing was dropped")
	if got := months(); got != "201501 201503" {
		t.Errorf("a dry run left %q", got)
	}
	var hold struct{ ID string }
	if err := json.Unmarshal([]byte(run(0, "hold", "add", "--event", "jan-3", "--actor", "bob@example.com", "--reason",
		"case 7", "-o", "json")), &hold); err != nil {
		t.Fatal(err)
	}
	says(run(0, confirm...), "stays", hold.ID, "retired")
	if got := months(); got != "201501" {
		t.Errorf("a hold over January left %q", got)
	}
	run(0, "hold", "release", hold.ID, "--actor", "bob@example.com", "--reason", "case closed")
	says(run(0, confirm...), "2015-01", "retired")
	if got := months(); got != "" {
		t.Errorf("left: %q", got)
	}

	_, key, _ := waybill(t, "", "ledger", "key", "show", "--data", d.dir, "-o", "json")
	var keys struct{ Keys []struct{ Verifier string } }
	if err := json.Unmarshal([]byte(key), &keys); err != nil || len(keys.Keys) == 0 {
		t.Fatal(err, key)
	}
	await(t, "a checkpoint covers the retirement", func() bool {
		return d.query("SELECT (SELECT max(size) FROM checkpoints) > max(idx) FROM records WHERE action = 'ledger.retired'") == "1"
	})
	says(run(0, "ledger", "verify", "--key", keys.Keys[0].Verifier), "GOOD: ",
		"retired      records 0 to 149, by ann@example.com on ", "retired      records 150 to 299, by ann@example.com on ")
	// These records were stated by this test, of events that EVENTS never had: what is
	// asked is what ClickHouse alone says.
	says(run(0, "audit", "completeness", "--clickhouse", "clickhouse://default@"+d.ClickHouseNative+"/waybill"),
		"Balanced: nothing is unaccounted for.", "300 records of 2015-01 and 2015-03 were retired by ann@example.com")
	says(run(1, "evidence", "export", "jan-3"), "event jan-3 is not in the ledger",
		"300 records of 2015-01 and 2015-03 were retired by ann@example.com")
	says(run(1, "audit", "attempts", "jan-3"), "nothing is on record of event jan-3",
		"300 records of 2015-01 and 2015-03 were retired by ann@example.com")
	file := filepath.Join(t.TempDir(), "new.json")
	run(0, "evidence", "export", "new-3", "--out", file)
	if code, out, errs := waybill(t, "", "evidence", "verify", file, "--key", keys.Keys[0].Verifier); code != 0 {
		t.Errorf("what was not retired is not proven any more: %s%s", out, errs)
	}
}

// await asks until it is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(100*time.Millisecond), time.NewTimer(startBound)
	defer tick.Stop()
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not within %s", what, startBound)
		}
	}
}
