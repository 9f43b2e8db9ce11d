package evidence_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// TestDifferentEventsUnderOneIDAreFoundByWhoeverLooks: x stands for two events, as
// earlier versions let it. Nothing else is wrong with the ledger.
func TestDifferentEventsUnderOneIDAreFoundByWhoeverLooks(t *testing.T) {
	s := start(t)
	came := func(id, data string, seq uint64, kind record.Kind) {
		s.tell(kind, id, "", func(r *record.Record) {
			r.EventSeq, r.DataDigest, r.StoredAt = seq, digest(data), r.At
			if kind == record.EventAccepted {
				r.Endpoints, r.EndpointIDs = 1, []string{endpoint}
			}
		})
	}
	sent := func(id string, seq uint64) {
		s.tell(record.DeliveryOwed, id, endpoint, func(r *record.Record) { r.EventSeq = seq })
		s.tell(record.Attempt, id, endpoint, func(r *record.Record) {
			r.Attempt, r.Outcome, r.Class, r.Decision, r.Status, r.PayloadDigest = 1, "delivered", "delivered", "delivered", 200,
				digest("body "+id)
		})
	}
	came("y", "1", 1, record.EventAccepted)
	sent("y", 1)
	came("y", "1", 2, record.EventDuplicate)
	came("y", "2", 3, record.EventRejected)
	s.covered()
	looks := [][]string{{"audit", "completeness"}, {"audit", "integrity"}, {"audit", "duplicates"}}
	for _, args := range looks {
		code, out, errs := s.run(append(args, "--clickhouse", s.dsn)...)
		if code != 0 {
			t.Errorf("%v: exit %d with one event under each id\n%s%s", args, code, out, errs)
		}
	}
	doctor := func() string {
		_, out, errs := s.run("doctor", "--nats-url", s.nats.URL, "--clickhouse", s.dsn)
		return out + errs
	}
	if out := doctor(); !strings.Contains(out, "one event under each id") {
		t.Errorf("doctor says\n%s", out)
	}

	came("x", "1", 4, record.EventAccepted)
	sent("x", 4)
	came("x", "2", 5, record.EventUnmatched)
	s.covered()
	for i, want := range []string{"two_contents", "do not agree", "different events stand under one id"} {
		// Integrity and duplicates ask of what events were accepted as.
		if i == 1 {
			came("x", "3", 6, record.EventAccepted)
			s.covered()
		}
		code, out, errs := s.run(append(looks[i], "--clickhouse", s.dsn)...)
		if code != 1 || !strings.Contains(out+errs, want) {
			t.Errorf("%v: exit %d, and it does not say %q\n%s%s", looks[i], code, want, out, errs)
		}
	}
	if out := doctor(); !strings.Contains(out, "two_contents") ||
		!strings.Contains(out, "waybill event show x --tenant acme") {
		t.Errorf("doctor says\n%s", out)
	}
	file := s.export("x")
	for _, args := range [][]string{{"evidence", "verify", file, "--key", s.key.Verifier}, {"evidence", "show", file},
		{"evidence", "show", file, "--html", file + ".html"}} {
		code, out, errs := s.run(args...)
		if code != 1 || !strings.Contains(errs, "shows different events under one id") || len(args) < 5 &&
			!strings.Contains(strings.Join(strings.Fields(out), " "), "number 4 in EVENTS and has 1 delivery owed") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	s.proven(s.export("y"))
	code, out, errs := s.run("event", "show", "x", "--nats-url", s.nats.URL, "--clickhouse", s.dsn)
	if code != 0 || !strings.Contains(out, "DIFFERENT EVENTS STAND UNDER THIS ID") ||
		!strings.Contains(out, digest("1")) || !strings.Contains(out, digest("2")) {
		t.Errorf("event show: exit %d\n%s%s", code, out, errs)
	}
	code, _, errs = s.run("replay", "event", "x", "--reason", "again", "--nats-url", s.nats.URL, "--clickhouse", s.dsn)
	if code != 1 || !strings.Contains(errs, "different events stand under the id x") {
		t.Errorf("replay: exit %d\n%s", code, errs)
	}
}
