package sink_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
)

func TestEveryRecordIsStoredOnceAndInOrder(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(2345)
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchRecords = 100 })
	r.waitStored(2345)
	h.publish(10)
	r.waitStored(2355)
	if err := r.sink.Ready(); err != nil {
		t.Error(err)
	}
	r.end()
	h.check(h.sent)
}

func TestARecordThatComesAgainIsStoredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(30)
	for _, f := range h.sent[5:15] { // without Nats-Msg-Id LEDGER takes them as new
		m := nats.NewMsg(streams.LedgerSubject("attempt", "default"))
		m.Data = []byte(f.body)
		h.send(m)
	}
	h.publish(5)
	r := h.start(&faulty{Ledger: h.db()}, func(o *sink.Options) { o.BatchRecords = 7 })
	r.waitStored(35)
	r.end()
	h.check(h.sent)

	// A later session finds them in ClickHouse.
	for _, f := range h.sent[20:25] {
		m := nats.NewMsg(streams.LedgerSubject("attempt", "default"))
		m.Data = []byte(f.body)
		h.send(m)
	}
	h.publish(5)
	r = h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(40)
	r.end()
	h.check(h.sent)
}

func TestWhatIsNoRecordIsKeptAsItCameAndStopsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(3)
	future := `{"v":2,"id":"from-the-future","kind":"attempt","at":"2026-11-02T00:00:00Z","tenant":"acme","status":204,"new_field":1}`
	bodies := []string{"", "{", "null", "\xff\xfe\x00 no UTF-8", `{"v":1,"id":"no kind"}`,
		`{"v":1,"id":"x","kind":"attempt","at":"not a date","tenant":"t"}`, future}
	for _, body := range bodies {
		m := nats.NewMsg("ledger.attempt.acme")
		m.Data = []byte(body)
		h.send(m)
	}
	h.publish(3)
	r := h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(6 + len(bodies))
	r.end()

	rows, err := h.conn.Query(context.Background(), "SELECT body, kind, id, tenant, reason, status FROM records WHERE "+
		"idx >= 3 AND idx < 10 ORDER BY idx")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		var body, kind, id, tenant, reason string
		var status int64
		if err := rows.Scan(&body, &kind, &id, &tenant, &reason, &status); err != nil {
			t.Fatal(err)
		}
		if body != bodies[i] || tenant != "acme" {
			t.Errorf("row %d: body %q of %q, want %q of acme", i, body, tenant, bodies[i])
		}
		if body == future {
			if kind != "attempt" || id != "from-the-future" || status != 204 {
				t.Errorf("a newer record: kind %s, id %s, status %d", kind, id, status)
			}
		} else if kind != "invalid" || reason != "not_a_record" || !strings.HasPrefix(id, fmt.Sprintf("invalid/%d-", i+4)) {
			t.Errorf("row %d: kind %s, id %s, reason %s", i, kind, id, reason)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(h.log.String(), "record.invalid"); got != len(bodies)-1 {
		t.Errorf("%d alarms, want %d", got, len(bodies)-1)
	}
}

func TestABatchOfSeveralMonthsIsInsertedMonthByMonth(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var records []record.Record
	for i := range 20 {
		at := time.Date(2026, 10, 31, 23, 59, 59, 999_999_990+i, time.UTC)
		if i == 4 || i == 13 { // one that comes early, one late
			at = at.Add(time.Duration(9-i) * time.Hour)
		}
		records = append(records, h.attempt(at))
	}
	h.publishRecords(records...)
	f := &faulty{Ledger: h.db()}
	f.appended = func(rows []ledger.Row) {
		if n := ledger.SameMonth(rows); n != len(rows) {
			t.Errorf("an insert of %d rows crosses a month after %d", len(rows), n)
		}
	}
	r := h.start(f, nil)
	r.waitStored(20)
	r.end()
	h.check(h.sent)
}

func TestABatchThatIsTooMuchIsSplit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(100)
	f := &faulty{Ledger: h.db()}
	r := h.start(tooMuch{f, 10}.asFaulty(), nil)
	r.waitStored(100)
	r.end()
	h.check(h.sent)
}

// tooMuch refuses inserts of more than most rows.
type tooMuch struct {
	*faulty
	most int
}

func (l tooMuch) Append(ctx context.Context, rows []ledger.Row) error {
	if len(rows) > l.most {
		return fmt.Errorf("%d rows: %w: %w", len(rows), ledger.ErrOverlong, ledger.ErrUnavailable)
	}
	return l.faulty.Append(ctx, rows)
}

func (l tooMuch) asFaulty() *faulty { return &faulty{Ledger: l} }

func TestAGapInTheStreamIsAnAlarmAndARecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(5)
	lost := nats.NewMsg(streams.LedgerSubject("operator.action", "gone"))
	lost.Data = []byte("x")
	h.send(lost, lost)
	h.publish(5)
	stream, err := h.js.Stream(context.Background(), streams.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(context.Background(), jetstream.WithPurgeSubject(lost.Subject)); err != nil {
		t.Fatal(err)
	}
	r := h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(11)
	r.end()
	var id string
	var from, to uint64
	if err := h.conn.QueryRow(context.Background(), "SELECT id, gap_from, gap_to FROM records WHERE kind = 'ledger.gap'").Scan(&id, &from, &to); err != nil {
		t.Fatal(err)
	}
	if want := record.GapID(stream.CachedInfo().Created.UnixNano(), 6, 7); id != want || from != 6 || to != 7 {
		t.Errorf("the gap's record is %s, %d to %d; want %s", id, from, to, want)
	}
	if !strings.Contains(h.log.String(), `"from":6,"to":7`) {
		t.Error("no alarm in the log")
	}
	// A session that starts behind the gap finds none, nor does one that finds the first messages trimmed.
	if err := stream.Purge(context.Background(), jetstream.WithPurgeSequence(10)); err != nil {
		t.Fatal(err)
	}
	h.publish(1)
	r = h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(12)
	r.end()
	if got := strings.Count(h.log.String(), "ledger_stream.gap"); got != 1 {
		t.Errorf("%d alarms, want one", got)
	}
}

func TestTheStreamIsTrimmedOnlyBehindWhatIsStoredAndOld(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.publish(100)
	trimmed := func() uint64 {
		s, err := h.js.Stream(context.Background(), streams.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.FirstSeq
	}
	// ClickHouse takes 60 and then no more. Only full batches: their ends are what the test stops at.
	batches := func(o *sink.Options) {
		o.BatchRecords, o.BatchAge, o.TrimEvery = 20, time.Minute, 10*time.Millisecond
	}
	f := &faulty{Ledger: h.db()}
	enough := make(chan struct{})
	stop := false
	f.before = func(call string) error {
		if call == "Append" && stop {
			return errInjected
		}
		return nil
	}
	f.appended = func(rows []ledger.Row) {
		if rows[len(rows)-1].Idx == 59 {
			stop = true
			close(enough)
		}
	}
	r := h.start(f, func(o *sink.Options) { batches(o); o.Keep = time.Hour })
	<-enough
	r.waitStored(60)
	r.end()
	if got := trimmed(); got != 1 {
		t.Fatalf("young messages were trimmed: the first is %d", got)
	}
	f = &faulty{Ledger: h.db(), before: f.before}
	stop = false
	f.appended = func(rows []ledger.Row) { stop = stop || rows[len(rows)-1].Idx == 79 }
	r = h.start(f, func(o *sink.Options) { batches(o); o.Keep = time.Nanosecond })
	r.waitStored(80)
	eventually(t, "the stream is trimmed", func() bool { return trimmed() > 1 })
	r.end()
	if got := trimmed(); got > 80 {
		t.Fatalf("the first message is %d, though ClickHouse has only 80", got)
	}
	r = h.start(&faulty{Ledger: h.db()}, nil)
	r.waitStored(100)
	r.end()
	h.check(h.sent)
}

// eventually polls what only another process can tell.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick, end := time.NewTicker(20*time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("not true after %s: %s", patience, what)
		}
	}
}
