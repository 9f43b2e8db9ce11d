package torture_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/streams"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// A thousand events, each published twice, to three endpoints: three thousand
// requests, and the digests on record are those of the bytes that came.
func TestAThousandEventsPublishedTwiceComeOnceAsRecorded(t *testing.T) {
	t.Parallel()
	const events, endpoints = 1000, 3
	s := allInOne(t, "always")
	log := newRequestLog()
	l := newLoad(s, nil)
	var owed []string
	for i := range endpoints {
		r := newReceiver(t, log, fmt.Sprintf("receiver %d", i+1), good)
		s.endpoint(r, control.EndpointSpec{Types: []string{"pay.>"}, Policy: quick()})
		owed = append(owed, r.endpoint)
	}
	publishAll(t, s, events)
	for n := range events {
		l.acknowledged(invariants.Published{ID: fmt.Sprintf("evt-%d", n), Owed: owed})
	}
	if duplicates := publishAll(t, s, events); duplicates != events {
		t.Errorf("%d of %d events were recognised as published before", duplicates, events)
	}
	waitForRequests(t, log, events*endpoints)
	s.rest()
	h := s.history(log, l)
	if found := invariants.Check(h); len(found) > 0 {
		t.Error(invariants.Report(h, found, 10))
	}
	if len(h.Requests) != events*endpoints {
		t.Errorf("%d requests came, want %d", len(h.Requests), events*endpoints)
	}
	got := map[string]string{}
	for _, r := range h.Requests {
		got[r.EventID+" "+r.EndpointID] = r.Digest
	}
	for _, view := range []string{"attempts", "deliveries"} {
		recorded := s.digests(t, view)
		for delivery, digest := range got {
			if recorded[delivery] != digest {
				t.Errorf("%s: %s has digest %q, the receiver got %s", view, delivery, recorded[delivery], digest)
			}
		}
		if len(recorded) != len(got) {
			t.Errorf("%s: %d rows, want %d", view, len(recorded), len(got))
		}
	}
}

// publishAll publishes n events until each is acknowledged, as a producer does: one
// that is not known to be stored is published again under its id. It returns how
// many were recognised as published before.
func publishAll(t *testing.T, s *system, n int) (duplicates int) {
	t.Helper()
	var left []int
	for i := range n {
		left = append(left, i)
	}
	for deadline := time.Now().Add(patience); len(left) > 0; {
		futures := make([]jetstream.PubAckFuture, len(left))
		for i, event := range left {
			m := nats.NewMsg(streams.EventSubject(tenant, "pay.captured"))
			id := fmt.Sprintf("evt-%d", event)
			m.Header.Set(jetstream.MsgIDHeader, id)
			m.Data = envelopeOf(id, "pay.captured", event)
			var err error
			futures[i], err = s.js.PublishMsgAsync(m, jetstream.WithStallWait(patience))
			must(t, err)
		}
		var again []int
		for i, f := range futures {
			select {
			case ack := <-f.Ok():
				if ack.Duplicate {
					duplicates++
				}
			case err := <-f.Err():
				var refused *jetstream.APIError
				if !errors.As(err, &refused) || refused.Code != http.StatusServiceUnavailable || time.Now().After(deadline) {
					t.Fatal(err)
				}
				again = append(again, left[i])
			}
		}
		left = again
	}
	return duplicates
}

// digests asks a view as an auditor does.
func (s *system) digests(t *testing.T, view string) map[string]string {
	t.Helper()
	options, err := clickhouse.ParseDSN(s.dsn)
	must(t, err)
	conn, err := clickhouse.Open(options)
	must(t, err)
	defer conn.Close()
	rows, err := conn.Query(context.Background(), "SELECT event_id, endpoint_id, payload_digest FROM "+view)
	must(t, err)
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var event, endpoint, digest string
		must(t, rows.Scan(&event, &endpoint, &digest))
		out[event+" "+endpoint] = digest
	}
	must(t, rows.Err())
	return out
}

func waitForRequests(t *testing.T, log *requestLog, n int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		got, arrived := log.all()
		if len(got) >= n {
			return
		}
		select {
		case <-arrived:
		case <-deadline:
			t.Fatalf("%d requests came, want %d", len(got), n)
		}
	}
}
