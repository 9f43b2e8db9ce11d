package custody_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/custody"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/test/testkit"
)

const patience = 2 * time.Minute

// world is a LEDGER, a ClickHouse and the real sink between them.
type world struct {
	t    *testing.T
	db   *ledger.DB
	js   jetstream.JetStream
	k    *custody.Keeper
	sink *sink.Sink
	http string
	sent int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n, c := testkit.NATS(t), testkit.ClickHouse(t)
	db, err := ledger.New(c.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	sink, err := sink.New(sink.Options{NATS: n.Connect(), Ledger: db, BatchAge: 10 * time.Millisecond, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sink.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the sink ended: %v", err)
		}
	})
	js := n.JetStream()
	w := &world{t: t, db: db, js: js, sink: sink, http: "http://" + c.HTTPAddr + "/?database=" + c.Name}
	w.k = &custody.Keeper{DB: db, JS: js, Log: zerolog.Nop(), Now: time.Now}
	return w
}

// say publishes a record dated at.
func (w *world) say(at string, r record.Record) {
	w.t.Helper()
	var err error
	if r.At, err = time.Parse("2006-01-02", at); err != nil {
		w.t.Fatal(err)
	}
	if r.Kind == "" {
		r.Kind = record.Attempt
	}
	if r.Tenant == "" {
		r.Tenant = "default"
	}
	r.ID = ids.New(ids.Attempt, time.Now())
	m, err := r.Message()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.js.PublishMsg(w.ctx(), m); err != nil {
		w.t.Fatal(err)
	}
	w.sent++
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) await(n int) {
	w.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for limit := time.After(patience); ; {
		if p, err := w.db.Last(w.ctx()); err == nil && p.Next >= uint64(n) {
			return
		}
		select {
		case <-poll.C:
		case <-limit:
			w.t.Fatalf("%d records are not there", n)
		}
	}
}

// do runs a statement as the owner.
func (w *world) do(statement string) string {
	w.t.Helper()
	resp, err := http.Post(w.http, "text/plain", strings.NewReader(statement))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %s %v", statement, b, err)
	}
	return strings.TrimSpace(string(b))
}

// prove stands in for the tree: a checkpoint over everything, and full tiles.
func (w *world) prove() {
	w.do("INSERT INTO checkpoints (size, at, origin, key, root, note) VALUES (100000, now(), 'o', 'k', 'r', 'n')")
	w.do("INSERT INTO tiles (level, tile, hashes) SELECT 0, number, repeat('x', 8192) FROM numbers(8)")
}

// old makes three months of 2015, and one of now.
func (w *world) old() {
	w.say("2015-01-10", record.Record{Kind: record.EventAccepted, EventID: "e1", SubjectType: "order", SubjectID: "A-1"})
	w.say("2015-01-11", record.Record{EventID: "e1", EndpointID: "ep_1"})
	w.say("2015-02-10", record.Record{EventID: "e2", EndpointID: "ep_2", Tenant: "acme"})
	w.say("2015-01-12", record.Record{EventID: "e1", EndpointID: "ep_1"}) // months interleave
	w.say("2015-03-10", record.Record{EventID: "e1", EndpointID: "ep_1"})
	w.say(time.Now().Format("2006-01-02"), record.Record{EventID: "e3", EndpointID: "ep_1"})
	w.await(w.sent)
}

func (w *world) cutoff() time.Time { return time.Now().AddDate(-7, 0, 0) }

func (w *world) retire() []custody.Candidate {
	w.t.Helper()
	plan, err := w.k.Retire(w.ctx(), w.cutoff(), "ann", "yearly")
	if err != nil {
		w.t.Fatal(err)
	}
	return plan
}

func (w *world) months() string {
	return w.do("SELECT arrayStringConcat(groupArray(toString(m)), ' ') FROM (SELECT DISTINCT toYYYYMM(at) AS m FROM " +
		"records WHERE m < 202000 ORDER BY m)")
}

// whole checks that the sink finds the ledger complete but for what is on record as retired.
func (w *world) whole() {
	w.t.Helper()
	if _, err := w.db.Position(w.ctx()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) hold(h custody.Hold) custody.Hold {
	w.t.Helper()
	h.Actor, h.Reason = "bob", "case 7"
	h, _, err := w.k.Add(w.ctx(), h)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func TestOnlyWhatIsOldAndProvenIsRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.old()
	for _, c := range w.retire() {
		if c.Retired || !strings.Contains(c.Kept, "no checkpoint") {
			t.Errorf("without a checkpoint: %+v", c)
		}
	}
	w.do("INSERT INTO checkpoints (size, at, origin, key, root, note) VALUES (100000, now(), 'o', 'k', 'r', 'n')")
	for _, c := range w.retire() {
		if c.Retired || !strings.Contains(c.Kept, "hashes are not all stored") {
			t.Errorf("without tiles: %+v", c)
		}
	}
	w.prove()
	if plan, err := w.k.Plan(w.ctx(), w.cutoff()); err != nil || len(plan) != 3 || plan[0].Kept != "" ||
		w.months() != "201501 201502 201503" {
		t.Errorf("a plan changes something, or is wrong: %+v %v %s", plan, err, w.months())
	}
	w.retire()
	if w.months() != "" {
		t.Errorf("left: %s", w.months())
	}
	if got := w.do("SELECT count() FROM records WHERE event_id = 'e3'"); got != "1" {
		t.Error("what is young went too")
	}
	if got := w.do("SELECT settings['ranges'] FROM records WHERE action = 'ledger.retired' AND settings['month'] = " +
		"'201501' AND actor = 'ann' AND reason = 'yearly'"); got != "0-1 3-3" {
		t.Errorf("on record: %q", got)
	}
	if got := w.do("SELECT count() FROM tiles"); got != "8" {
		t.Errorf("%s tiles", got)
	}
	w.whole()
	w.say("2015-01-20", record.Record{EventID: "late"}) // the sink goes on, and what came late is retired by itself
	w.await(10)
	w.retire()
	if w.months() != "" {
		t.Errorf("left: %s", w.months())
	}
	w.whole()
}

func TestAHoldKeepsEveryMonthThatItTouches(t *testing.T) {
	t.Parallel()
	day := func(s string) time.Time { d, _ := time.Parse("2006-01-02", s); return d }
	for name, c := range map[string]struct {
		hold custody.Hold
		left string
	}{
		"event":    {custody.Hold{Event: "e1"}, "201501 201503"},
		"subject":  {custody.Hold{Subject: "order:A-1"}, "201501 201503"},
		"tenant":   {custody.Hold{Tenant: "acme"}, "201502"},
		"endpoint": {custody.Hold{Endpoint: "ep_2"}, "201502"},
		"period":   {custody.Hold{From: day("2015-02-01"), To: day("2015-03-01")}, "201502"},
		"together": {custody.Hold{Event: "e1", From: day("2015-02-01")}, "201503"},
		"nothing":  {custody.Hold{Event: "other"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.old()
			w.prove()
			h := w.hold(c.hold)
			w.retire()
			if w.months() != c.left {
				t.Errorf("left %q, want %q", w.months(), c.left)
			}
			if h, err := w.k.Release(w.ctx(), h.ID, "eve", "case closed"); err != nil || h.Active() || h.By != "eve" {
				t.Errorf("%+v %v", h, err)
			}
			w.retire()
			if w.months() != "" {
				t.Errorf("left after the release: %s", w.months())
			}
			w.whole()
		})
	}
}

func TestARetirementThatWasInterruptedIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.old()
	w.prove()
	died := errors.New("the process died")
	w.k.Before = func(uint32) error { return died }
	if _, err := w.k.Retire(w.ctx(), w.cutoff(), "ann", "yearly"); !errors.Is(err, died) {
		t.Fatal(err)
	}
	w.whole() // on record, and still there
	if w.months() != "201501 201502 201503" {
		t.Errorf("dropped before the last look: %s", w.months())
	}
	w.k.Before = nil
	w.retire()
	if got := w.do("SELECT count() FROM records WHERE action = 'ledger.retired'"); got != "3" || w.months() != "" {
		t.Errorf("%s retirements on record, left %q", got, w.months())
	}
	w.whole()
}

func TestAHoldThatComesWhileAMonthIsBeingRetiredWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.old()
	w.prove()
	w.k.Before = func(month uint32) error {
		if month == 201501 {
			h, late, err := w.k.Add(w.ctx(), custody.Hold{Event: "e1", Actor: "bob", Reason: "case 7"})
			if err != nil || len(late) != 1 || late[0] != 201501 || !h.Active() {
				t.Errorf("whoever added the hold is not told what was under way: %v %v", late, err)
			}
		}
		return nil
	}
	w.retire()
	if w.months() != "201501 201503" {
		t.Errorf("left %q", w.months())
	}
	if got := w.do("SELECT count() FROM records WHERE action = 'ledger.kept' AND settings['month'] = '201501'"); got != "1" {
		t.Errorf("%s on record as taken back", got)
	}
	w.whole()
	// Taken back, its records may not be missing any more.
	w.do("ALTER TABLE records DROP PARTITION 201501")
	if _, err := w.db.Position(w.ctx()); !errors.Is(err, ledger.ErrDamaged) {
		t.Errorf("a kept month that is gone is not noticed: %v", err)
	}
}

func TestSettingsInForceStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change := func(at, action string, revision uint64) {
		w.say(at, record.Record{Kind: record.EndpointChanged, EndpointID: "ep_1", Action: action, EndpointRevision: revision})
	}
	change("2015-01-01", "created", 1)
	change("2015-02-01", "updated", 2)
	w.await(w.sent)
	w.prove()
	w.retire()
	if w.months() != "201502" {
		t.Errorf("left %q: revision 2 is in force", w.months())
	}
}

func TestNothingHasATTL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.await(0)
	w.old()
	if got := w.do("SELECT count() FROM system.tables WHERE database = currentDatabase() AND engine_full ILIKE '%TTL%'"); got != "0" {
		t.Errorf("%s tables have a TTL", got)
	}
	if got := w.do("SELECT count() FROM system.tables WHERE database = currentDatabase() AND create_table_query ILIKE " +
		"'%TTL %'"); got != "0" {
		t.Errorf("%s tables have a TTL", got)
	}
}
