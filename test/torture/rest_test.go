package torture_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

var workQueues = []string{streams.Deliveries, streams.Retry, streams.Replays}

// rest waits until nothing is pending anywhere: every event is expanded, every
// queue is empty, every record is in ClickHouse.
func (s *system) rest() {
	s.t.Helper()
	s.ready()
	eventually(s.t, patience, "everything at rest", func(ctx context.Context) error {
		for _, at := range [][2]string{{streams.Events, streams.FanoutConsumer},
			{streams.EndpointsStream, streams.RecorderConsumer}} {
			c, err := s.js.Consumer(ctx, at[0], at[1])
			if err != nil {
				return err
			}
			if info := c.CachedInfo(); info.NumPending > 0 || info.NumAckPending > 0 {
				return fmt.Errorf("%s: %d not taken, %d in hand", at[0], info.NumPending, info.NumAckPending)
			}
		}
		left, err := s.queued(ctx)
		if err != nil {
			return err
		}
		for stream, n := range left {
			if n > 0 {
				return fmt.Errorf("%s has %d messages%s", stream, n, s.oneLeft(ctx, stream))
			}
		}
		return s.caughtUp(ctx)
	})
}

func (s *system) queued(ctx context.Context) (map[string]uint64, error) {
	left := map[string]uint64{}
	for _, name := range workQueues {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		left[name] = stream.CachedInfo().State.Msgs
	}
	return left, nil
}

// oneLeft describes a message that a queue still has, and who should take it, for
// whoever has to find out why.
func (s *system) oneLeft(ctx context.Context, name string) string {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return ""
	}
	m, err := stream.GetMsg(ctx, stream.CachedInfo().State.FirstSeq)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("; now is %s; %d on %s, stored at %s, says %v", time.Now().UTC().Format(time.RFC3339Nano),
		m.Sequence, m.Subject,
		m.Time.UTC().Format(time.RFC3339Nano), m.Header)
	for c := range stream.ListConsumers(ctx).Info() {
		text += fmt.Sprintf("; %s: %d not taken, %d in hand, %d of them again, %d waiting pulls, delivered %+v, "+
			"acknowledged %+v",
			c.Name, c.NumPending, c.NumAckPending, c.NumRedelivered, c.NumWaiting, c.Delivered, c.AckFloor)
	}
	return text
}

// caughtUp compares numbers: LEDGER may end with a record that it holds twice.
func (s *system) caughtUp(ctx context.Context) error {
	messages, err := s.messages(ctx)
	if err != nil {
		return err
	}
	at, err := s.ledger.Last(ctx)
	if err != nil {
		return err
	}
	want := uint64(len(messages) - invariants.History{Stream: messages}.Restated())
	if at.Next < want {
		return fmt.Errorf("ClickHouse has %d of %d records", at.Next, want)
	}
	return nil
}

// messages reads LEDGER whole.
func (s *system) messages(ctx context.Context) ([]invariants.Message, error) {
	stream, err := s.js.Stream(ctx, streams.Ledger)
	if err != nil {
		return nil, err
	}
	state := stream.CachedInfo().State
	out := make([]invariants.Message, 0, state.Msgs)
	if state.Msgs == 0 {
		return out, nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	it, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	for uint64(len(out)) < state.Msgs {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		out = append(out, invariants.Message{Seq: meta.Sequence.Stream, Body: m.Data(), ID: m.Headers().Get(nats.MsgIdHdr)})
	}
	return out, nil
}

// rows reads ClickHouse's table whole.
func (s *system) rows(ctx context.Context) (out []invariants.Row, err error) {
	options, err := clickhouse.ParseDSN(s.dsn)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	rows, err := conn.Query(ctx, "SELECT idx, stream_seq, body FROM records ORDER BY idx")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var row invariants.Row
		var body string
		if err := rows.Scan(&row.Idx, &row.StreamSeq, &body); err != nil {
			return nil, err
		}
		row.Body = []byte(body)
		if row.Record, err = record.Decode(row.Body); err != nil {
			return nil, fmt.Errorf("row %d: %w", row.Idx, err)
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// checkView compares the view that people ask with the records.
func (s *system) checkView(t *testing.T, h invariants.History) {
	t.Helper()
	owed := map[string]bool{}
	for _, row := range h.Ledger {
		if row.Record.Kind == record.DeliveryOwed {
			owed[row.Record.EventID+" "+row.Record.EndpointID] = true
		}
	}
	states := map[string]uint64{}
	sum := uint64(0)
	options, err := clickhouse.ParseDSN(s.dsn)
	must(t, err)
	conn, err := clickhouse.Open(options)
	must(t, err)
	defer conn.Close()
	rows, err := conn.Query(t.Context(), "SELECT state, count() FROM deliveries GROUP BY state")
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var state string
		var n uint64
		must(t, rows.Scan(&state, &n))
		states[state] = n
		sum += n
	}
	must(t, rows.Err())
	if sum != uint64(len(owed)) || states["pending"] > 0 {
		t.Errorf("%d deliveries are owed; the view says %v", len(owed), states)
	}
}

// history gathers everything that is to be checked.
func (s *system) history(log *requestLog, l *load) invariants.History {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	h := invariants.History{Tolerance: time.Millisecond}
	var errs [3]error
	// The watchdog may still have a word to say: all is read while nothing is added.
	eventually(s.t, patience, "nothing is added", func(context.Context) error {
		h.Stream, errs[0] = s.messages(ctx)
		h.Ledger, errs[1] = s.rows(ctx)
		h.Queued, errs[2] = s.queued(ctx)
		ledger, err := s.js.Stream(ctx, streams.Ledger)
		if err := errors.Join(append(errs[:], err)...); err != nil {
			return err
		}
		if n := len(h.Stream); n > 0 && h.Stream[n-1].Seq != ledger.CachedInfo().State.LastSeq {
			return errors.New("LEDGER has grown")
		}
		if want := len(h.Stream) - h.Restated(); len(h.Ledger) < want {
			return fmt.Errorf("ClickHouse had %d of %d records", len(h.Ledger), want)
		}
		return nil
	})
	h.Requests, _ = log.all()
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Published, h.Replayed, h.Contested = l.published, l.replays, l.contested
	return h
}
