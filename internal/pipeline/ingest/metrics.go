package ingest

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/platform/problem"
)

type metrics struct {
	events  *prometheus.CounterVec
	latency prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_ingest_events_total",
			Help: "Events by result: accepted, duplicate, or the code of the problem answered."}, []string{"result"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_ingest_publish_duration_seconds",
			Help:    "Time from an event's reading to EVENTS' acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15)}),
	}
	for _, result := range []string{"accepted", "duplicate", "unavailable", "full", "overloaded"} {
		m.events.WithLabelValues(result) // from 0: the first one counts as an increase
	}
	for _, c := range []prometheus.Collector{m.events, m.latency} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("ingest metrics: %w", err)
		}
	}
	return m, nil
}

// watch exports what was dropped before it could be looked at.
func (m *metrics) watch(r prometheus.Registerer, dropped func() float64) error {
	err := r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waybill_ingest_dropped_total",
		Help: "Events from NATS dropped unanswered because more came than could be stored."}, dropped))
	if err != nil {
		return fmt.Errorf("ingest metrics: %w", err)
	}
	return nil
}

func (m *metrics) stored(duplicate bool, took time.Duration) {
	m.latency.Observe(took.Seconds())
	if duplicate {
		m.events.WithLabelValues("duplicate").Inc()
		return
	}
	m.events.WithLabelValues("accepted").Inc()
}

// refused counts an event, or a request that could not be read as events. The
// codes are few and ours, so the label stays bounded.
func (m *metrics) refused(p *problem.Problem) { m.events.WithLabelValues(p.Code).Inc() }
