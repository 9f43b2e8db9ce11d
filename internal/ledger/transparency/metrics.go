package transparency

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/ledger"
)

type metrics struct {
	size, checkpointSize, checkpointAt prometheus.Gauge
	tiles, checkpoints, interruptions  prometheus.Counter
	witnesses, timestamps              *prometheus.CounterVec
}

func newMetrics(l *Log, r prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "waybill", Subsystem: "ledger_log", Name: name, Help: help}
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help)))
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), labels)
	}
	m := &metrics{
		size:           gauge("tree_records", "Records in the Merkle tree of the sink that writes."),
		checkpointSize: gauge("checkpoint_records", "Records that the last signed checkpoint covers."),
		checkpointAt:   gauge("checkpoint_timestamp_seconds", "When the last checkpoint was signed, seconds since 1970."),
		tiles:          counter("tiles_stored_total", "Full tiles stored by this process."),
		checkpoints:    counter("checkpoints_signed_total", "Checkpoints signed by this process."),
		interruptions: counter("interruptions_total",
			"Times that the tree was interrupted, and built again from what is stored."),
		witnesses: vec("witness_requests_total", "Requests to witnesses, by what came of them; the log says of which.",
			"outcome"),
		timestamps: vec("timestamp_requests_total", "Requests to the time stamping authority, by what came of them.",
			"outcome"),
	}
	for _, outcome := range witnessOutcomes() { // from 0: the first one counts as an increase
		m.witnesses.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"granted", "failed"} {
		m.timestamps.WithLabelValues(outcome)
	}
	if r == nil {
		return m, nil
	}
	unsigned := prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("unsigned_records",
		"Records in ClickHouse that no checkpoint covers yet; 0 without a key, and where another sink writes.")),
		func() float64 {
			if l.o.Keys == nil || !l.follows.Load() {
				return 0
			}
			return float64(l.landed.Load() - min(l.signed.Load(), l.landed.Load()))
		})
	refused := prometheus.NewGaugeFunc(prometheus.GaugeOpts(opts("signing_refused",
		"1 while nothing is signed because the ledger disagrees with a signed checkpoint, or is damaged.")), func() float64 {
		if l.Fault() != "" {
			return 1
		}
		return 0
	})
	var err error
	for _, c := range []prometheus.Collector{m.size, m.checkpointSize, m.checkpointAt, m.tiles, m.checkpoints,
		m.interruptions,
		m.witnesses, m.timestamps, unsigned, refused} {
		err = errors.Join(err, r.Register(c))
	}
	return m, err
}

func (m *metrics) checkpoint(c ledger.Checkpoint) {
	m.checkpointSize.Set(float64(c.Size))
	m.checkpointAt.Set(float64(c.At.UnixNano()) / float64(time.Second))
}
