package sink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/ledger/sink"
	"github.com/waybill-dev/waybill/streams"
)

// A NATS server that was made anew beside an old ledger: the endpoints that are on
// record are counted, but for the one that is kept and the one that was deleted.
func TestEndpointsThatTheRegistryLacksAreCounted(t *testing.T) {
	h := newHarness(t)
	changed := func(id, action string, revision uint64) record.Record {
		return record.Record{ID: string(record.EndpointChanged) + "/" + id + "/" + action, Kind: record.EndpointChanged,
			At: time.Now().UTC(), Tenant: "acme", EndpointID: id, EndpointRevision: revision, Action: action, Actor: "jo"}
	}
	kv, err := streams.Bucket(t.Context(), h.js, streams.EndpointsBucket)
	if err != nil {
		t.Fatal(err)
	}
	put := func(id string) {
		t.Helper()
		if _, err := kv.Put(t.Context(), id, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	put("ep_kept")
	h.publishRecords(changed("ep_kept", "created", 1), changed("ep_lost", "created", 1), changed("ep_gone", "created", 1),
		changed("ep_gone", "deleted", 2))
	db := h.db()
	metrics := prometheus.NewRegistry()
	h.start(&faulty{Ledger: db}, func(o *sink.Options) {
		o.LostEndpoints, o.RegistryEvery, o.Registerer = db.LostEndpoints, 10*time.Millisecond, metrics
	}).waitStored(4)
	shows := func(want float64) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(patience); lostMetric(t, metrics) != want; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("the metric is %v, want %v", lostMetric(t, metrics), want)
			}
		}
	}
	shows(1)
	if log := h.log.String(); !strings.Contains(log, "registry.endpoints_lost") || !strings.Contains(log, "ep_lost") {
		t.Errorf("it does not say which one:\n%s", log)
	}
	put("ep_lost")
	shows(0)
}

func lostMetric(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "waybill_ledger_sink_endpoints_lost" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}
