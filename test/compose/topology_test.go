package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/ledger/engine"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// The topology of compose.yaml as processes: the same configuration files,
// command lines and environment, with the addresses of this machine. The ledger
// engine stands in for the ClickHouse server, with the very users file.
type topology struct {
	t        *testing.T
	services types.Services
	engine   *engine.Engine
	replace  map[string]*strings.Replacer // by service
	running  map[string]*process
	ingest   string // address
	// checkpointKey is the file that stands for the secret.
	checkpointKey string
}

func newTopology(t *testing.T) *topology {
	key, err := sealed.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	project := load(t, "WAYBILL_EGRESS_ALLOW=127.0.0.0/8", "WAYBILL_SECRETS_KEY="+key)
	top := &topology{t: t, services: project.Services, replace: map[string]*strings.Replacer{},
		running: map[string]*process{}}
	top.startEngine()
	// As deploy/env.example says.
	top.checkpointKey = filepath.Join(t.TempDir(), "checkpoint.key")
	if out, err := exec.Command(filepath.Join(bin, "waybill"), "ledger", "key", "generate", "--origin",
		"compose.example/ledger", "--out", top.checkpointKey).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	nodes := []string{"nats-1", "nats-2", "nats-3"}
	free := addresses(t, 3*len(nodes)+6)
	var shared []string // what every service knows others by
	for i, node := range nodes {
		shared = append(shared, node+":4222", free[3*i], node+":6222", free[3*i+1])
	}
	shared = append(shared, "clickhouse:9000", top.engine.NativeAddr())
	for i, node := range nodes {
		own := []string{"0.0.0.0:4222", free[3*i], "0.0.0.0:6222", free[3*i+1], "0.0.0.0:8222", free[3*i+2], "127.0.0.1:8222",
			free[3*i+2]}
		for _, v := range top.services[node].Volumes {
			source := v.Source
			if v.Type == types.VolumeTypeVolume {
				source = t.TempDir()
			}
			own = append(own, v.Target, source)
		}
		top.replace[node] = strings.NewReplacer(append(own, shared...)...)
	}
	for i, stage := range commands[:6] {
		address := free[3*len(nodes)+i]
		own := []string{"0.0.0.0:8080", address, "127.0.0.1:8080", address}
		for _, s := range top.services[stage].Secrets {
			own = append(own, "/run/secrets/"+s.Source, top.checkpointKey)
		}
		top.replace[stage] = strings.NewReplacer(append(own, shared...)...)
		if stage == "ingest" {
			top.ingest = address
		}
	}
	for _, once := range []string{"streams", "schema", "waybill"} {
		top.replace[once] = strings.NewReplacer(shared...)
	}
	return top
}

// startEngine starts the engine in the place of the ClickHouse server.
func (top *topology) startEngine() {
	t := top.t
	t.Helper()
	for name, value := range top.services["clickhouse"].Environment {
		t.Setenv(name, *value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := engine.Start(ctx, engine.Options{
		Dir: t.TempDir(), UsersXML: read(t, "deploy/clickhouse/users.xml"),
		User: "owner", Password: "of this test only", Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatalf("this test needs a ClickHouse engine (make engine installs one): %v", err)
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel() // its data goes with the test
		_ = e.Stop(now)
	})
	top.engine = e
}

func (top *topology) start(names ...string) {
	top.t.Helper()
	for _, name := range names {
		top.running[name] = start(top.t, top.services[name], top.replace[name])
	}
	for _, name := range names {
		top.running[name].healthy(top.services[name], top.replace[name])
	}
}

// run runs a service that ends, with more arguments, and returns what it wrote.
func (top *topology) run(name string, args ...string) string {
	top.t.Helper()
	c := command(top.services[name], top.replace[name])
	c.Args = append(c.Args, args...)
	out, err := c.CombinedOutput()
	if err != nil {
		top.t.Fatalf("%q: %v\n%s", c.Args, err, out)
	}
	return string(out)
}

// publish posts events first to last, each until it is taken: a node that is
// killed may cost a producer some refusals, and never an event.
func (top *topology) publish(first, last int) {
	top.t.Helper()
	for i := first; i <= last; i++ {
		body := fmt.Sprintf(`{"id":"order-%d","type":"order.paid","data":{"number":%d}}`, i, i)
		eventually(top.t, fmt.Sprintf("event %d is taken", i), func() string {
			status, answer := call(top.t, http.MethodPost, "http://"+top.ingest+"/v1/events", body,
				http.Header{"Content-Type": {"application/json"}})
			if status/100 == 2 {
				return ""
			}
			return fmt.Sprintf("%d %s", status, answer)
		})
	}
}

// query asks ClickHouse over HTTP as one of the users of deploy/clickhouse/users.xml.
func (top *topology) query(user, statement string) (int, string) {
	top.t.Helper()
	password := *top.services["clickhouse"].Environment["CLICKHOUSE_"+strings.ToUpper(user)+"_PASSWORD"]
	return call(top.t, http.MethodPost, "http://"+top.engine.HTTPAddr()+"/?"+url.Values{"database": {"waybill"}}.Encode(),
		statement,
		http.Header{"X-ClickHouse-User": {user}, "X-ClickHouse-Key": {password}})
}

func (top *topology) eventuallyInLedger(statement, want string) {
	top.t.Helper()
	eventually(top.t, statement+" is "+want, func() string {
		if _, got := top.query("analyst", statement); got != want {
			return got
		}
		return ""
	})
}

func TestTheTopologyDeliversAndGoesOnWithoutOneNode(t *testing.T) {
	var mu sync.Mutex
	received := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct{ ID string }
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			t.Errorf("a request without an event: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		received[event.ID]++
	}))
	defer receiver.Close()

	top := newTopology(t)
	top.start("nats-1", "nats-2", "nats-3")
	first := top.run("streams")
	if again := top.run("streams"); strings.Contains(again, "created") || !strings.Contains(first, "created") {
		t.Errorf("streams apply is not idempotent: first\n%s\nthen\n%s", first, again)
	}
	if out := top.run("schema"); !strings.Contains(out, "schema of database waybill") {
		t.Errorf("schema: %s", out)
	}
	top.run("schema")
	top.start("ingest", "fanout", "dispatcher", "escalator", "ledger-sink", "watchdog")
	top.run("waybill", "endpoint", "create", "--url", receiver.URL+"/hooks", "--types", "order.*")

	const delivered = "SELECT uniqExact(event_id) FROM deliveries WHERE state = 'delivered'"
	top.publish(1, 50)
	top.eventuallyInLedger(delivered, "50")

	top.running["nats-1"].kill()
	top.publish(51, 100)
	top.eventuallyInLedger(delivered, "100")
	top.eventuallyInLedger("SELECT max(size) >= 300 AND min(startsWith(note, 'compose.example/ledger\n')) FROM checkpoints", "1")
	top.start("nats-1")

	mu.Lock()
	if len(received) != 100 {
		t.Errorf("the receiver got %d events, want 100", len(received))
	}
	mu.Unlock()
	if out := top.run("waybill", "delivery", "list", "--limit", "1000", "-o", "json"); strings.Count(out,
		`"delivered"`) < 100 {
		t.Errorf("delivery list shows fewer than 100 deliveries:\n%s", out)
	}
	for _, stage := range commands[:6] {
		top.running[stage].stop()
	}
	top.testTheLedgersUsers()
}

// The ledger is only as immutable as its users make it.
func (top *topology) testTheLedgersUsers() {
	t := top.t
	for _, c := range []struct{ user, statement string }{
		{"sink", "ALTER TABLE records DELETE WHERE 1"},
		{"sink", "ALTER TABLE records UPDATE tenant = 'x' WHERE 1"},
		{"sink", "DELETE FROM records WHERE 1"},
		{"sink", "TRUNCATE TABLE records"},
		{"sink", "DROP TABLE records"},
		{"sink", "DROP DATABASE waybill"},
		{"sink", "CREATE OR REPLACE TABLE records (x Int8) ENGINE = MergeTree ORDER BY x"},
		{"sink", "CREATE OR REPLACE VIEW records AS SELECT 1"},
		{"sink", "RENAME TABLE records TO _tmp_replace_records"},
		{"sink", "EXCHANGE TABLES records AND schema_versions"},
		{"sink", "DETACH TABLE records"},
		{"sink", "ALTER TABLE records DROP PARTITION tuple()"},
		{"sink", "CREATE USER other"},
		{"sink", "CREATE TABLE other (x Int8) ENGINE = MergeTree ORDER BY x"},
		{"sink", "CREATE OR REPLACE VIEW events AS SELECT 1"},
		{"sink", "DROP VIEW events"},
		{"migrator", "INSERT INTO records (id) VALUES ('x')"},
		{"migrator", "ALTER TABLE records DELETE WHERE 1"},
		{"migrator", "DROP TABLE records"},
		{"auditor", "INSERT INTO records (id) VALUES ('x')"},
		{"auditor", "ALTER TABLE records DELETE WHERE 1"},
		{"custodian", "INSERT INTO records (id) VALUES ('x')"},
		{"custodian", "TRUNCATE TABLE records"},
		{"backup", "ALTER TABLE records DELETE WHERE 1"},
		{"analyst", "INSERT INTO records (id) VALUES ('x')"},
		{"analyst", "ALTER TABLE records DELETE WHERE 1"},
		{"analyst", "CREATE TABLE other (x Int8) ENGINE = Memory"},
		{"analyst", "SELECT * FROM url('http://127.0.0.1:1/', CSV, 'x String')"},
	} {
		if status, answer := top.query(c.user, c.statement); status == http.StatusOK ||
			!strings.Contains(answer, "ACCESS_DENIED") {
			t.Errorf("%s may %s: %d %s", c.user, c.statement, status, answer)
		}
	}
}
