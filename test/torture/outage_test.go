package torture_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/test/testkit/invariants"
)

// outage is how long ClickHouse is away.
const outage = time.Minute

// While ClickHouse is away nothing is refused or late: LEDGER keeps the facts.
// When it is back, it gets all of them.
func TestClickHouseIsAwayForAMinuteUnderLoad(t *testing.T) {
	t.Parallel()
	s := separate(t)
	log := newRequestLog()
	r := newReceiver(t, log, "good", until(2, answer("503 Service Unavailable")))
	s.endpoint(r, control.EndpointSpec{Types: []string{">"}, Timeout: control.Duration(5 * time.Second), Policy: quick()})
	l := newLoad(s, func(string) []string { return []string{r.endpoint} })

	s.engine.stop()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), outage)
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() { l.produceNATS(ctx, t, "nats", 60*time.Millisecond, 1) })
	work.Go(func() { l.produceHTTP(ctx, t, "http", 60*time.Millisecond, 1) })
	work.Wait()
	backAt := time.Now()
	s.engine.start()
	s.rest()

	h := s.history(log, l)
	if found := invariants.Check(h); len(found) > 0 {
		t.Error(invariants.Report(h, found, 10))
	}
	if l.tries != len(h.Published) {
		t.Errorf("%d of %d publishes were refused", l.tries-len(h.Published), l.tries)
	}
	during, stored := 0, 0
	for _, q := range h.Requests {
		if q.At.Before(backAt) {
			during++
		}
	}
	for _, row := range h.Ledger {
		if row.Record.Kind == record.Attempt && row.Record.At.After(began) && row.Record.At.Before(backAt) {
			stored++
		}
	}
	// All but those of the last moments came while ClickHouse was away.
	if during < len(h.Requests)*9/10 || stored < during*9/10 {
		t.Errorf("%d of %d requests came during the outage, %d are on record", during, len(h.Requests), stored)
	}
	t.Logf("%d events and %d requests in %s without ClickHouse, %d records; caught up %s after its return",
		len(h.Published), during,
		backAt.Sub(began).Round(time.Second), len(h.Ledger), time.Since(backAt).Round(100*time.Millisecond))
}
