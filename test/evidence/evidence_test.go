// Package evidence_test writes records through the real stream and the real
// sink, exports the evidence of events with the real command, takes the file
// elsewhere, and verifies it there with the key alone.
package evidence_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/app/cli"
	"github.com/waybill-dev/waybill/internal/app/process"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/checkpoint"
	"github.com/waybill-dev/waybill/internal/ledger/evidence"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/internal/ledger/transparency"
	"github.com/waybill-dev/waybill/test/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience bounds every wait: a test that needs it has failed.
const patience = 90 * time.Second

// quoted is an id that a query must quote, and a driver must not take for a place of an argument.
const quoted = "e'1?"

const endpoint, other = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K", "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6L"

// system is LEDGER, a sink with its tree, and ClickHouse.
type system struct {
	t    *testing.T
	nats *testkit.Server
	js   jetstream.JetStream
	db   *ledger.DB
	dsn  string
	key  checkpoint.Key
	sent int
}

func start(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, nats: testkit.NATS(t), dsn: testkit.ClickHouse(t).DSN}
	s.js = s.nats.JetStream()
	keyFile := filepath.Join(t.TempDir(), "checkpoint.key")
	var err error
	s.key, err = checkpoint.CreateFile(keyFile, "test.example/waybill")
	s.must(err)
	keys, err := checkpoint.OpenKeys(keyFile)
	s.must(err)
	s.db, err = ledger.Open(t.Context(), s.dsn)
	s.must(err)
	t.Cleanup(func() { _ = s.db.Close() })
	tree, err := transparency.New(transparency.Options{Store: s.db, NATS: s.nats.Connect(), Log: zerolog.Nop(), Keys: keys,
		Every: 200 * time.Millisecond})
	s.must(err)
	sink, err := sink.New(sink.Options{NATS: s.nats.Connect(), Ledger: s.db, Tree: tree, BatchAge: 20 * time.Millisecond,
		Log: zerolog.Nop()})
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the sink ended: %v", err)
		}
	})
	return s
}

func (s *system) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// tell publishes a record to LEDGER.
func (s *system) tell(kind record.Kind, event, endpoint string, change func(*record.Record)) {
	s.t.Helper()
	at := time.Now().UTC()
	r := record.Record{ID: fmt.Sprintf("rec-%d", s.sent), Kind: kind, At: at, StartedAt: at, Tenant: "acme",
		EventID: event, EndpointID: endpoint, EventType: "order.paid"}
	if kind != record.Attempt {
		r.StartedAt = time.Time{}
	}
	if event == "" {
		r.EventType = ""
	}
	if change != nil {
		change(&r)
	}
	m, err := r.Message()
	s.must(err)
	_, err = s.js.PublishMsg(s.t.Context(), m)
	s.must(err)
	s.sent++
}

// covered waits until a checkpoint covers everything that was told.
func (s *system) covered() {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if _, err := s.db.CheckpointOver(s.t.Context(), uint64(s.sent)); err == nil {
			return
		}
	}
	s.t.Fatal("no checkpoint covers what was told")
}

// run is the command.
func (s *system) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	code = process.Execute(cli.New(strings.NewReader(""), &out, &errs), args, &errs)
	return code, out.String(), errs.String()
}

// export gives the name of the file.
func (s *system) export(event string, more ...string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "evidence.json")
	args := append([]string{"evidence", "export", event, "--clickhouse", s.dsn, "--nats-url", "nats://127.0.0.1:1",
		"--out", file, "--wait", patience.String(), "--actor", "alice"}, more...)
	if code, out, errs := s.run(args...); code != 0 || !strings.Contains(out, file) {
		s.t.Fatalf("export %s: exit %d, %s%s", event, code, out, errs)
	}
	return file
}

// proven takes the file to another directory and verifies it there.
func (s *system) proven(file string, more ...string) *evidence.Report {
	s.t.Helper()
	b, err := os.ReadFile(file)
	s.must(err)
	dir := s.t.TempDir()
	s.must(os.Rename(file, filepath.Join(dir, "taken.json")))
	s.t.Chdir(dir)
	code, out, errs := s.run(append([]string{"evidence", "verify", "taken.json", "--key", s.key.Verifier}, more...)...)
	if code != 0 || !strings.Contains(out, "PROVEN") || errs != "" {
		s.t.Fatalf("verify: exit %d\n%s%s", code, out, errs)
	}
	key, err := evidence.ParseKey(s.key.Verifier)
	s.must(err)
	return evidence.Verify(b, evidence.Options{Keys: []evidence.Key{key}})
}

func digest(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

// stories tells everything that can happen to an event, and waits until it is
// covered.
func (s *system) stories() {
	s.tell(record.EventTypeChanged, "", "", func(r *record.Record) {
		r.EventTypes, r.Actor, r.Detail = []string{"order.*"}, "carol", "deliver_within 1h0m0s"
	})
	s.tell(record.EventTypeChanged, "", "", func(r *record.Record) {
		r.EventTypes, r.Tenant = []string{"order.*"},
			"rival"
	})
	s.tell(record.EndpointChanged, "", endpoint,
		func(r *record.Record) { r.EndpointRevision, r.Action, r.Actor = 1, "create", "carol" })
	s.tell(record.EndpointChanged, "", endpoint,
		func(r *record.Record) { r.EndpointRevision, r.Action, r.Actor = 2, "update", "carol" })
	s.tell(record.OperatorAction, "", "", func(r *record.Record) {
		r.ID, r.Tenant, r.Action, r.EscalationPolicy, r.Revision = record.RevisionID("escalation_policies", "night", 1),
			"all", "escalation_policy.create", "night", 1
	})
	accepted := func(event string, ids ...string) {
		s.tell(record.EventAccepted, event, "", func(r *record.Record) {
			r.Endpoints, r.EndpointIDs, r.DataDigest, r.DataBytes = len(ids), ids, digest("data"), 4
		})
		for _, id := range ids {
			s.tell(record.DeliveryOwed, event, id, func(r *record.Record) { r.EndpointRevision = 2 })
		}
	}
	attempt := func(event, id string, n int, outcome string) {
		s.tell(record.Attempt, event, id, func(r *record.Record) {
			r.Attempt, r.Outcome, r.EndpointRevision, r.PayloadDigest, r.Status = n, outcome, 2, digest(fmt.Sprint("body ", n)),
				502
			r.Class, r.Decision, r.ResponseExcerpt = "retryable", "retry", "it's \\ 'quoted' \u2028 </script>"
			if outcome == "delivered" {
				r.Class, r.Decision, r.Status = "delivered", "delivered", 200
			}
		})
	}
	accepted(quoted, endpoint, other)
	attempt(quoted, endpoint, 1, "status_retryable")
	attempt(quoted, endpoint, 2, "delivered")
	s.tell(record.DeliveryDeadLetter, quoted, other, func(r *record.Record) { r.Reason = "endpoint_disabled" })
	s.tell(record.Escalation, quoted, other, func(r *record.Record) {
		r.Outcome, r.EscalationPolicy, r.Channel, r.Step = "delivered", "night", "pager", 1
	})
	s.tell(record.EscalationAcked, quoted, other, func(r *record.Record) { r.Actor = "bob" })
	s.tell(record.ReplayRequested, quoted, other, func(r *record.Record) {
		r.ReplayID, r.Actor, r.Reason = "rpl_1",
			"alice", "enabled again"
	})
	s.tell(record.EventUnmatched, "unmatched", "", func(r *record.Record) { r.Reason = "no_subscription" })
	s.tell(record.EventRejected, "rejected", "", func(r *record.Record) { r.Reason = "invalid_event" })
	accepted("waiting", endpoint)
	s.tell(record.DeliveryOwed, "waiting", endpoint, func(r *record.Record) { r.Tenant = "rival" })
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("ep_%026d", i)
	}
	accepted("many", many...)
	for _, id := range many {
		attempt("many", id, 1, "delivered")
	}
	s.covered()
}

func TestTheEvidenceOfEachKindOfEventIsProvenElsewhere(t *testing.T) {
	s := start(t)
	s.stories()
	for _, c := range []struct {
		event   string
		flags   []string
		records int
		claim   string
	}{
		{quoted, nil, 12, "bob took it on"},
		{quoted, []string{"--endpoint", endpoint}, 6, "answered 200"},
		{"unmatched", nil, 2, "no endpoint subscribed to it"},
		{"rejected", nil, 2, "The event was rejected"},
		{"waiting", []string{"--tenant", "acme"}, 4, "came to be owed at"},
		{"waiting", []string{"--tenant", "rival"}, 2, "came to be owed at"},
		{"many", nil, 602, "Attempt 1 was made"},
	} {
		t.Run(strings.Join(append([]string{c.event}, c.flags...), " "), func(t *testing.T) {
			s := *s
			s.t = t
			r := s.proven(s.export(c.event, c.flags...))
			text := ""
			for _, claim := range r.Claims {
				text += claim.Text + "\n"
			}
			if len(r.Facts) != c.records || !strings.Contains(text, c.claim) {
				t.Errorf("%d records, want %d, and the claim %q\n%s", len(r.Facts), c.records, c.claim, text)
			}
		})
	}
	code, _, errs := s.run("evidence", "export", "waiting", "--clickhouse", s.dsn)
	if code != 2 || !strings.Contains(errs, "tenants acme and rival; name one") {
		t.Errorf("an id of two tenants: exit %d, %s", code, errs)
	}
	code, _, errs = s.run("evidence", "export", "unmatched", "--endpoint", endpoint, "--clickhouse", s.dsn)
	if code != 1 || !strings.Contains(errs, "is not in the ledger") {
		t.Errorf("a delivery that is not there: exit %d, %s", code, errs)
	}
}

func TestWhoVerifiesIsToldWhatIsWrongWithTheFileTheKeyOrThePayload(t *testing.T) {
	s := start(t)
	s.stories()
	file := s.export(quoted)
	b, err := os.ReadFile(file)
	s.must(err)
	_, foreign, err := checkpoint.Generate("test.example/waybill")
	s.must(err)
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		s.must(os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	key := write("ledger.pub", "# of the ledger\n"+s.key.Verifier+"\n")
	at := bytes.LastIndex(b, []byte(`"body":"`)) + 50
	changed := bytes.Clone(b)
	changed[at] ^= 1
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"proven": {[]string{file, "--key", key}, 0, "PROVEN"},
		"the event's data": {[]string{file, "--key", key, "--payload", write("data", "data")}, 0,
			"The bytes given are the event's data"},
		"a request's body": {[]string{file, "--key", key, "--payload", write("body", "body 2")}, 0,
			"signed and sent in attempt 2"},
		"another payload": {[]string{file, "--key", key, "--payload", write("none", "none")}, 1,
			"PROVEN: the file is as it was signed; the PAYLOAD given is NOT what was sent"},
		"another payload in JSON": {[]string{file, "--key", key, "-o", "json", "--payload", write("none", "none")}, 1,
			`"payload": "differs"`},
		"another key": {[]string{file, "--key", foreign}, 1, "is not signed by the key"},
		"a bit was changed": {[]string{write("changed.json", string(changed)), "--key", key}, 1,
			"was changed since it was written"},
		"no key":             {[]string{file}, 2, "--key is missing"},
		"no key in the file": {[]string{file, "--key", file}, 2, "--key"},
		"no file":            {[]string{"/nowhere", "--key", key}, 2, "name a file that can be read"},
		"no witness": {[]string{file, "--key", key, "--witness-key", s.key.Verifier}, 1,
			"has not signed this checkpoint"},
		"no such output":      {[]string{file, "--key", key, "-o", "yaml"}, 2, "--output"},
		"no payload to read":  {[]string{file, "--key", key, "--payload", "/nowhere"}, 2, "name a file that can be read"},
		"as JSON, not proven": {[]string{file, "--key", foreign, "-o", "json"}, 1, `"proven": false`},
	} {
		code, out, errs := s.run(append([]string{"evidence", "verify"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) || strings.Count(errs, "\n") > 1 {
			t.Errorf("%s: exit %d, want %d and %q\n%s\n%s", name, code, c.code, c.want, out, errs)
		}
	}
}

func TestAFileIsShown(t *testing.T) {
	s := start(t)
	s.stories()
	file := s.export(quoted)
	code, out, errs := s.run("evidence", "show", file)
	if code != 0 || !strings.Contains(out, "NOT VERIFIED") || !strings.Contains(out, "dead letter: endpoint_disabled") ||
		strings.ContainsRune(out, '\u2028') {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, _ = s.run("evidence", "show", file, "--key", s.key.Verifier, "-o", "json")
	var shown struct {
		Report  struct{ Proven bool }
		Records []struct {
			Idx    uint64
			Record record.Record
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); code != 0 || err != nil || !shown.Report.Proven ||
		len(shown.Records) != 12 {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	if code, out, errs = s.run("evidence", "show", file, "--html", page, "--key", s.key.Verifier); code != 0 ||
		!strings.Contains(out, "PROVEN") {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	b, err := os.ReadFile(page)
	s.must(err)
	if !bytes.Contains(b, []byte("<strong>Verified</strong>")) || bytes.Contains(b, []byte("<script")) {
		t.Errorf("%s", b)
	}
	// Evidence names events, endpoints and people: who else reads it is for its owner to decide.
	for _, written := range []string{file, page} {
		if info, err := os.Stat(written); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want it for its owner alone", written, info.Mode(), err)
		}
	}
}

func TestADashPrintsTheEvidence(t *testing.T) {
	s := start(t)
	s.stories()
	t.Chdir(t.TempDir())
	code, out, errs := s.run("evidence", "export", quoted, "--clickhouse", s.dsn, "--out", "-", "--wait",
		patience.String())
	if _, err := evidence.Decode([]byte(out)); code != 0 || err != nil {
		t.Errorf("exit %d, %v\n%.300s\n%s", code, err, out, errs)
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file named - was written")
	}
}

func TestRecordsThatNoCheckpointCoversAreNamed(t *testing.T) {
	s := start(t)
	s.stories()
	// A ledger whose tree fell behind its records, by two.
	last, err := s.db.Last(t.Context())
	s.must(err)
	var rows []ledger.Row
	for i := range uint64(2) {
		r := record.Record{ID: fmt.Sprint("late-", i), Kind: record.Attempt, At: time.Now().UTC(), Tenant: "acme",
			EventID: "unmatched", EndpointID: endpoint, Attempt: 1 + int(i)}
		body, err := r.Encode()
		s.must(err)
		rows = append(rows, ledger.Row{Idx: last.Next + i, StreamSeq: last.StreamSeq + 1 + i, StreamEpoch: last.StreamEpoch,
			Body: body, Record: r})
	}
	s.must(s.db.Append(t.Context(), rows))
	file := filepath.Join(t.TempDir(), "f")
	code, out, errs := s.run("evidence", "export", "unmatched", "--clickhouse", s.dsn, "--out", file, "--wait", "0s")
	if code != 0 || !strings.Contains(errs, "no checkpoint covers 2 of the 4 records yet") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	r := s.proven(file)
	if got := strings.Join(r.NotProven, "\n"); !strings.Contains(got, "What 2 records say that were found besides") {
		t.Errorf("%s", got)
	}
}
