package sink

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/jetstream/lease"
	"github.com/waybill-dev/waybill/internal/ledger"
)

type metrics struct {
	stored, duplicates, invalid, newer, gaps, missing, trimmed prometheus.Counter
	sessions                                                   *prometheus.CounterVec
	inserts                                                    prometheus.Histogram
	writing, position, lost                                    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "waybill", Subsystem: "ledger_sink", Name: name,
			Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "waybill", Subsystem: "ledger_sink", Name: name,
			Help: help})
	}
	m := &metrics{
		stored:     counter("records_stored_total", "Records inserted into ClickHouse by this process."),
		duplicates: counter("records_known_total", "Records that came again and were in ClickHouse already."),
		invalid:    counter("records_invalid_total", "Messages in LEDGER that are no records; stored as kind invalid."),
		newer: counter("records_newer_total",
			"Records of a newer format, stored as far as this version understands them."),
		gaps:    counter("gaps_total", "Gaps found in the sequence of LEDGER."),
		missing: counter("gap_messages_total", "Messages missing in those gaps."),
		trimmed: counter("trims_total", "Times that LEDGER was trimmed behind what ClickHouse has."),
		sessions: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waybill", Subsystem: "ledger_sink",
			Name: "interruptions_total", Help: "Times that writing was interrupted, by cause."}, []string{"cause"}),
		inserts: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "waybill", Subsystem: "ledger_sink",
			Name: "insert_duration_seconds", Help: "Time of one insert, its reading back included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12)}),
		writing:  gauge("writing", "1 while this process writes, 0 while it waits."),
		position: gauge("stream_sequence", "Sequence in LEDGER of the last record in ClickHouse."),
		lost: gauge("endpoints_lost",
			"Endpoints that the ledger has on record and the registry lacks. Alert on any: their events match nobody."),
	}
	for _, cause := range []string{"clickhouse_unavailable", "lease_lost", "overtaken", "stream_unavailable", "other"} {
		m.sessions.WithLabelValues(cause) // from 0: the first one counts as an increase
	}
	if r == nil {
		return m, nil
	}
	var err error
	for _, c := range []prometheus.Collector{m.stored, m.duplicates, m.invalid, m.newer, m.gaps, m.missing, m.trimmed,
		m.sessions, m.inserts, m.writing, m.position, m.lost} {
		err = errors.Join(err, r.Register(c))
	}
	return m, err
}

// errorKind groups what ends a session, for a label and for saying it once.
func errorKind(err error) string {
	switch {
	case errors.Is(err, ledger.ErrUnavailable):
		return "clickhouse_unavailable"
	case errors.Is(err, lease.ErrLost):
		return "lease_lost"
	case errors.Is(err, errOvertaken):
		return "overtaken"
	case errors.Is(err, errReading), errors.Is(err, context.DeadlineExceeded):
		return "stream_unavailable"
	}
	return "other"
}
