package torture_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/audit"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// forgedEvent is an event that never was.
const forgedEvent = "forged-1"

// checkForgeries: after all that chaos the streams vouch for every record. Then
// somebody who reaches NATS states an event that never was, and an attempt that
// nobody made: these two are named, and nothing else is.
func (s *system) checkForgeries(t *testing.T, h invariants.History) {
	t.Helper()
	if before, err := s.completeness(t); err != nil || !before.Balanced || len(before.Mismatches) > 0 {
		t.Errorf("audit completeness calls something wrong that is not: %v, %v, %v", err, before.Notes, before.Mismatches)
		return
	}
	event, attempt := s.forge(t, h)
	after, err := s.completeness(t)
	if err == nil || after.Balanced {
		t.Errorf("audit completeness takes forged records for true: %v", after.Notes)
	}
	var named []string
	for _, m := range after.Mismatches {
		switch {
		case m.EventID == forgedEvent && m.What == audit.EventUnknown:
			named = append(named, event.ID)
		case m.What == audit.AttemptNotClaimed && strings.Contains(m.Detail, attempt.ID):
			named = append(named, attempt.ID)
		case m.EventID != forgedEvent && m.EventID != attempt.EventID:
			t.Errorf("audit completeness calls something wrong that is not: %+v", m)
		}
	}
	slices.Sort(named)
	if want := []string{event.ID, attempt.ID}; !slices.Equal(slices.Compact(named), slices.Sorted(slices.Values(want))) {
		t.Errorf("audit completeness names %q of the forged records %q: %+v", named, want, after.Mismatches)
	}
}

// forge states both on LEDGER, and waits until ClickHouse has them.
func (s *system) forge(t *testing.T, h invariants.History) (event, attempt record.Record) {
	t.Helper()
	now := time.Now()
	last := map[[2]string]int{}
	for _, row := range h.Ledger {
		switch r := row.Record; {
		case r.Kind == record.EventAccepted && event.ID == "":
			event = r
		case r.Kind == record.Attempt:
			of := [2]string{r.EventID, r.EndpointID}
			last[of] = max(last[of], r.Attempt)
			if r.Class == "delivered" && attempt.ID == "" {
				attempt = r
			}
		}
	}
	event.EventID, event.EventSeq, event.At, event.StoredAt = forgedEvent, 1<<40, now, now
	event.ID = record.EventRecordID(event.EventSeq, event.StoredAt)
	attempt.Attempt = last[[2]string{attempt.EventID, attempt.EndpointID}] + 1
	attempt.ID, attempt.At, attempt.StartedAt = ids.New(ids.Attempt, now), now, now
	for _, r := range []record.Record{event, attempt} {
		m, err := r.Message()
		must(t, err)
		_, err = s.js.PublishMsg(t.Context(), m)
		must(t, err)
	}
	eventually(t, patience, "the forged records in ClickHouse", func(ctx context.Context) error {
		rows, err := s.rows(ctx)
		if err != nil {
			return err
		}
		for _, r := range []record.Record{event, attempt} {
			if !slices.ContainsFunc(rows, func(row invariants.Row) bool { return row.Record.ID == r.ID }) {
				return fmt.Errorf("%s is not there yet", r.ID)
			}
		}
		return nil
	})
	return event, attempt
}

// completeness is what the command says. The error is its exit status.
func (s *system) completeness(t *testing.T) (c audit.Completeness, err error) {
	t.Helper()
	out, err := command(t, append([]string{"audit", "completeness", "-o", "json"}, s.where...)...)
	// What went wrong stands behind the JSON.
	if e := json.NewDecoder(strings.NewReader(out[max(strings.Index(out, "{"), 0):])).Decode(&c); e != nil {
		t.Fatalf("audit completeness: %v, %v\n%s", err, e, out)
	}
	return c, err
}
