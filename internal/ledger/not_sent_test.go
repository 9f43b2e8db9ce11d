package ledger_test

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/domain/record"
)

// What no byte left of cannot have arrived: also on the records of versions that
// called such an attempt interrupted, and said in its error that no request was made.
func TestWhatWasNeverSentCannotHaveArrived(t *testing.T) {
	t.Parallel()
	db, conn, _ := open(t)
	s := &story{t: t}
	s.accepted("e1", 1)
	s.owed("e1", "ep_a", "")
	s.attempt("e1", "ep_a", "", 1, 0, "not_sent", "retryable", "retry")
	old := func(n int, text string) {
		s.tell(record.Attempt, "e1", "ep_a", func(r *record.Record) {
			r.Attempt, r.Outcome, r.Class, r.Decision, r.Error = n, "interrupted", "retryable", "retry", text
			r.StartedAt, r.NextAttemptAt = r.At, r.At
		})
	}
	old(2, "no request was made: the attempt took too long to be claimed")
	old(3, "the attempt was cancelled before it ended")
	s.delivered("e1", "ep_a", "", 4)
	if err := db.Append(context.Background(), s.rows); err != nil {
		t.Fatal(err)
	}
	got := lines(t, conn, "SELECT (requests, may_have_arrived, delivered) FROM audit_duplicates WHERE event_id = 'e1'")
	if len(got) != 1 || got[0] != "(4,2,1)" {
		t.Errorf("got %q", got)
	}
}
