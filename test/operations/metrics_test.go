package operations_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/waybill-dev/waybill/test/testkit/loopback"
)

// maxSeries bounds Waybill's own series of one process with one partition.
const maxSeries = 560

type families map[string]*dto.MetricFamily

// scrape reads /metrics as Prometheus does.
func scrape(t *testing.T, address string) families {
	t.Helper()
	status, text := call(t, http.MethodGet, "http://"+address+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("/metrics of %s: %d %s", address, status, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text + "\n"))
	if err != nil {
		t.Fatalf("/metrics of %s: %v", address, err)
	}
	maps.DeleteFunc(all, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "waybill_") })
	return all
}

// series are the time series that Prometheus would keep.
func (f families) series() map[string]bool {
	out := map[string]bool{}
	for name, family := range f {
		for _, m := range family.Metric {
			key := name + labelsOf(m)
			out[key] = true
			for i := range m.GetHistogram().GetBucket() {
				out[fmt.Sprint(key, "bucket", i)] = true
			}
		}
	}
	return out
}

func labelsOf(m *dto.Metric) string {
	var b strings.Builder
	for _, l := range m.Label {
		fmt.Fprintf(&b, "{%s=%s}", l.GetName(), l.GetValue())
	}
	return b.String()
}

// sum over all series of one family; of a histogram, of its counts.
func (f families) sum(name string) float64 {
	total := 0.0
	for _, m := range f[name].GetMetric() {
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// expected is what each program shows once it has worked.
func expected() map[string][]string {
	every := []string{"waybill_build_info", "waybill_ready", "waybill_nats_connected", "waybill_nats_reconnects_total",
		"waybill_jetstream_up",
		"waybill_stream_messages", "waybill_stream_size_bytes", "waybill_stream_limit_bytes",
		"waybill_stream_deleted_messages",
		"waybill_queue_pending_messages", "waybill_queue_taken_messages", "waybill_queue_pulls",
		"waybill_queue_oldest_seconds"}
	working := []string{"waybill_publish_messages_total", "waybill_publish_retries_total",
		"waybill_publish_duration_seconds",
		"waybill_consumer_in_hand", "waybill_consumer_handled_total", "waybill_consumer_redelivered_total",
		"waybill_clock_offset_seconds"}
	out := map[string][]string{
		"ingest": {"waybill_ingest_events_total", "waybill_ingest_dropped_total", "waybill_ingest_publish_duration_seconds"},
		"fanout": append([]string{"waybill_events_total", "waybill_deliveries_owed_total"}, working...),
		"dispatcher": append([]string{"waybill_attempts_total", "waybill_attempt_duration_seconds",
			"waybill_attempts_in_flight", "waybill_breakers_open",
			"waybill_queue_delay_seconds", "waybill_delivery_duration_seconds", "waybill_deadline_left_ratio",
			"waybill_dead_letters_total",
			"waybill_deliveries_moved_aside_total", "waybill_oldest_due_seconds"}, working...),
		"ledger-sink": {"waybill_ledger_sink_records_stored_total", "waybill_ledger_sink_insert_duration_seconds",
			"waybill_ledger_sink_writing",
			"waybill_ledger_sink_stream_sequence", "waybill_ledger_sink_interruptions_total",
			"waybill_ledger_sink_endpoints_lost"},
		"escalator": {"waybill_escalator_leading", "waybill_incidents_open", "waybill_escalations_untold_total",
			"waybill_escalation_seconds"},
		"watchdog": {"waybill_watchdog_leading", "waybill_deliveries_open", "waybill_deliveries_overdue",
			"waybill_dead_letters_untold",
			"waybill_dead_letters_not_escalated_within_5m_total", "waybill_watchdog_ledger_sink_lag_seconds"},
	}
	for name := range out {
		out[name] = append(out[name], every...)
		out["up"] = append(out["up"], out[name]...)
	}
	out["up"] = append(out["up"], "waybill_ledger_sink_lag_records", "waybill_ledger_sink_lag_seconds")
	return out
}

func TestEveryProgramShowsItsMetricsAndNoMoreOfThemForMoreEndpoints(t *testing.T) {
	var got atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer receiver.Close()
	all, a := up(t, nil)
	targets, secrets := map[string]*program{"up": all}, filepath.Join(a.data, "keys", "secrets.key")
	for _, name := range stages {
		address := loopback.Address(t)
		args := []string{"--nats-url", "nats://" + a.NATS, "--http", address}
		switch name {
		case "dispatcher":
			args = append(args, "--egress-allow", "127.0.0.1", "--secrets-key-file", secrets)
		case "escalator", "watchdog":
			args = append(args, "--secrets-key-file", secrets)
		case "ledger-sink":
			args = append(args, "--clickhouse", "clickhouse://"+a.ClickHouseNative+"/waybill")
		}
		targets[name] = start(t, name, address, nil, args...).ready()
	}
	publish := func(events, endpoints int) {
		t.Helper()
		want := got.Load() + int64(events*endpoints)
		for range events {
			body := `{"type":"order.paid","data":{},"deliver_by":"2099-01-01T00:00:00Z"}`
			if status, answer := call(t, http.MethodPost, "http://"+targets["ingest"].http+"/v1/events",
				body); status != http.StatusAccepted {
				t.Fatalf("publish: %d %s", status, answer)
			}
		}
		eventually(t, "every delivery is made", func() string {
			if n := got.Load(); n < want {
				return fmt.Sprintf("%d of %d", n, want)
			}
			return ""
		})
	}
	endpoint(t, a.HTTP, fmt.Sprintf(`{"url":%q,"types":["order.*"]}`, receiver.URL))
	publish(40, 1) // enough that each of two fanouts and dispatchers gets some
	before := map[string]families{}
	for name, p := range targets {
		before[name] = scrape(t, p.http)
	}
	for i := range 499 {
		endpoint(t, a.HTTP, fmt.Sprintf(`{"url":"%s/%d","types":["order.*"]}`, receiver.URL, i))
	}
	publish(2, 500)
	after := map[string]families{}
	eventually(t, "everything that was done is counted", func() string {
		for name, p := range targets {
			after[name] = scrape(t, p.http)
		}
		return miscounted(after)
	})
	for name := range targets {
		check(t, name, before[name], after[name])
	}
	checkDocument(t, after)
}

func check(t *testing.T, name string, before, after families) {
	t.Helper()
	for _, m := range expected()[name] {
		if after[m] == nil {
			t.Errorf("%s does not show %s", name, m)
		}
	}
	was, is := before.series(), after.series()
	t.Logf("%s: %d series of %d metrics", name, len(is), len(after))
	if len(is) > maxSeries {
		t.Errorf("%s shows %d series, more than %d", name, len(is), maxSeries)
	}
	for s := range is {
		if strings.Contains(s, "ep_") || strings.Contains(s, "evt_") {
			t.Errorf("%s: an id is in a label: %s", name, s)
		}
		if !was[s] && !strings.Contains(s, "_lag_") { // lag is there once it is known
			t.Errorf("%s: %s came with more endpoints", name, s)
		}
	}
	units := regexp.MustCompile(`_(seconds|bytes|ratio|messages|records|total|info)$|^waybill_(ready|jetstream_up|nats_connected|queue_pulls|consumer_in_hand|attempts_in_flight|breakers_open|ledger_sink_writing|ledger_log_signing_refused|ledger_sink_stream_sequence|ledger_sink_endpoints_lost|deliveries_open|deliveries_overdue|dead_letters_untold|incidents_open|watchdog_alarms|watchdog_leading|streams_without_leader|stream_replicas_gone|event_ids_seq|escalator_leading)$`)
	for n, f := range after {
		counter := f.GetType() == dto.MetricType_COUNTER
		if f.GetHelp() == "" || !strings.HasSuffix(f.GetHelp(), ".") || counter != strings.HasSuffix(n, "_total") ||
			!units.MatchString(n) {
			t.Errorf("%s: %s is a %s called %q", name, n, f.GetType(), f.GetHelp())
		}
	}
}

// miscounted says what differs from what was done: 42 events, 1,040 deliveries.
func miscounted(all map[string]families) string {
	for _, c := range []struct {
		metric, stage string
		want          float64
	}{
		{"waybill_ingest_events_total", "ingest", 42}, {"waybill_events_total", "fanout", 42},
		{"waybill_deliveries_owed_total", "fanout", 1040},
		{"waybill_attempts_total", "dispatcher", 1040}, {"waybill_attempt_duration_seconds", "dispatcher", 1040},
		{"waybill_delivery_duration_seconds", "dispatcher", 1040}, {"waybill_deadline_left_ratio", "dispatcher", 1040},
		{"waybill_queue_delay_seconds", "dispatcher", 1040},
	} {
		if got := all["up"].sum(c.metric) + all[c.stage].sum(c.metric); got != c.want {
			return fmt.Sprintf("%s is %v, want %v", c.metric, got, c.want)
		}
	}
	for name, f := range all {
		if f.sum("waybill_jetstream_up") != 1 || f.sum("waybill_nats_connected") < 1 {
			return name + " says that NATS is away"
		}
		for _, m := range f["waybill_ready"].Metric {
			if m.GetGauge().GetValue() != 1 {
				return name + " is not ready: " + labelsOf(m)
			}
		}
	}
	if f := all["up"]; f.sum("waybill_ledger_sink_lag_records") != 0 {
		return fmt.Sprint("the ledger is behind: ", f.sum("waybill_ledger_sink_lag_records"))
	}
	return ""
}

// checkDocument compares docs/metrics.md with what the programs show.
func checkDocument(t *testing.T, all map[string]families) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Metrics\n\nMade from the running programs by `go test ./test/operations -run Metrics -update`.\n\n" +
		"Every program serves `/metrics` for Prometheus on its `--http` address; `waybill up` shows all of these. Go's " +
		"and the\n" +
		"process's own metrics (`go_…`, `process_…`) are there too. No label holds the id of an endpoint, a tenant or an " +
		"event:\n" +
		"the number of series depends on the number of partitions alone. Alerts: `deploy/prometheus/alerts.yml`; a " +
		"dashboard:\n" +
		"`deploy/grafana/waybill.json`; what to do: [operations](operations.md).\n\n" +
		"What is about streams, queues and consumers on the server is the same from every program: take the maximum over " +
		"them.\n\n" +
		"| Metric | Type | Labels | Shown by | Meaning |\n| --- | --- | --- | --- | --- |\n")
	named := families{}
	for _, f := range all {
		maps.Copy(named, f)
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		f := named[name]
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, strings.ToLower(f.GetType().String()),
			strings.Join(slices.Sorted(maps.Keys(labels)), ", "), shownBy(name, all), f.GetHelp())
	}
	const path = "../../docs/metrics.md"
	if update() {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != b.String() {
		t.Errorf("docs/metrics.md is stale (%v); write it anew with: go test ./test/operations -run Metrics -update", err)
	}
}

func shownBy(metric string, all map[string]families) string {
	var by []string
	for name, f := range all {
		if f[metric] != nil && name != "up" {
			by = append(by, name)
		}
	}
	slices.SortFunc(by, func(a, b string) int { return cmp.Compare(slices.Index(stages, a), slices.Index(stages, b)) })
	if len(by) == len(stages) {
		return "all"
	}
	if len(by) == 0 && strings.HasPrefix(metric, "waybill_ledger_sink_") {
		return "ledger-sink" // of which only the one that writes shows it
	}
	return strings.Join(by, ", ")
}
