package process

import (
	"context"
	"runtime"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/waybill-dev/waybill/internal/platform/version"
)

// NewMetrics is a registry with the Go runtime's and the process's own metrics.
func NewMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_build_info", Help: "1; the labels say what runs.",
			ConstLabels: prometheus.Labels{"version": version.Version, "goversion": runtime.Version()}},
			func() float64 { return 1 }))
	return r
}

// ConnectionMetrics makes the state of a connection to NATS known, under a name
// that tells it from the process's others.
func ConnectionMetrics(r prometheus.Registerer, nc *nats.Conn, name string) error {
	labels := prometheus.Labels{"connection": name}
	if err := r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_nats_connected", ConstLabels: labels,
		Help: "1 while the connection to NATS is open, 0 while it is being opened again."},
		func() float64 { return number(nc.IsConnected()) })); err != nil {
		return err
	}
	return r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waybill_nats_reconnects_total",
		ConstLabels: labels,
		Help:        "Times that the connection to NATS was opened again."},
		func() float64 { return float64(nc.Stats().Reconnects) }))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// readiness shows the checks behind /readyz as metrics.
type readiness struct {
	health *Health
	desc   *prometheus.Desc
}

func newReadiness(h *Health) *readiness {
	return &readiness{h, prometheus.NewDesc("waybill_ready", "1 when a check behind /readyz passes, 0 when it fails.",
		[]string{"check"}, nil)}
}

func (c *readiness) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *readiness) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyBound)
	defer cancel()
	failures := c.health.Failures(ctx)
	for _, name := range c.health.names() {
		_, failed := failures[name]
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, number(!failed), name)
	}
}
