package watchdog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	leading     prometheus.Gauge
	alarms      *prometheus.GaugeVec
	late        prometheus.Counter
	told        *prometheus.CounterVec
	open        prometheus.Gauge
	overdue     prometheus.Gauge
	oldest      prometheus.Gauge
	untold      prometheus.Gauge
	behind      prometheus.Gauge
	sinkLag     prometheus.Gauge
	clockOffset prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		leading: gauge("waybill_watchdog_leading", "1 while this watchdog acts, 0 while it stands by."),
		alarms: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "waybill_watchdog_alarms",
			Help: "Alarms that are raised, by code. Alert on any."}, []string{"code"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_dead_letters_not_escalated_within_5m_total",
			Help: "Dead letters and rejected events of which nobody was told within five minutes. The target is zero, ever."}),
		told: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_watchdog_escalations_total",
			Help: "What the watchdog did about deliveries, dead letters and alarms that nobody had told of, by action."},
			[]string{"action"}),
		open: gauge("waybill_deliveries_open", "Deliveries without a verdict."),
		overdue: gauge("waybill_deliveries_overdue",
			"Deliveries whose attempts should have ended, or whose attempt is long due."),
		oldest: gauge("waybill_delivery_overdue_oldest_seconds", "How long the oldest overdue attempt has been due."),
		untold: gauge("waybill_dead_letters_untold",
			"Dead letters and rejected events that nobody has been told of yet."),
		behind: gauge("waybill_watchdog_behind_seconds", "How far the watchdog is behind in LEDGER."),
		sinkLag: gauge("waybill_watchdog_ledger_sink_lag_seconds",
			"Age of the oldest record that ClickHouse does not have."),
		clockOffset: gauge("waybill_watchdog_clock_offset_seconds", "This machine's clock less the NATS server's."),
	}
	reg.MustRegister(m.leading, m.alarms, m.late, m.told, m.open, m.overdue, m.oldest, m.untold, m.behind, m.sinkLag,
		m.clockOffset)
	for _, c := range Codes() {
		m.alarms.WithLabelValues(string(c.Code)).Set(0)
	}
	for _, action := range []string{actionRaised, actionRepeated, actionCleared, actionNotTold, actionHandedOver} {
		m.told.WithLabelValues(action) // so that the first one is an increase
	}
	return m
}

func (m *metrics) snapshot(s Snapshot) {
	lag := time.Duration(0)
	if !s.Sink.Oldest.IsZero() {
		lag = s.At.Sub(s.Sink.Oldest)
	}
	m.sinkLag.Set(lag.Seconds())
	m.clockOffset.Set(s.Offset.Seconds())
	m.behind.Set(s.Behind.Seconds())
}

func (m *metrics) raised(all []Alarm) {
	n := map[Code]int{}
	for _, a := range all {
		if a.Raised() {
			n[a.Code]++
		}
	}
	m.set(n)
}

func (m *metrics) findings(found []Finding) {
	n := map[Code]int{}
	for _, f := range found {
		n[f.Code]++
	}
	m.set(n)
}

func (m *metrics) set(n map[Code]int) {
	for _, c := range Codes() {
		m.alarms.WithLabelValues(string(c.Code)).Set(float64(n[c.Code]))
	}
}

func (m *metrics) outstanding(d Outstanding) {
	m.open.Set(float64(d.Open))
	m.overdue.Set(float64(d.Overdue + d.PastDeadline))
	m.oldest.Set(d.OldestOverdue.Seconds())
	m.untold.Set(float64(d.Untold))
}
