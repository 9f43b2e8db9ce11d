package stage

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// publisherMetrics are one Publisher's; they count whether registered or not.
type publisherMetrics struct {
	messages, retries prometheus.Counter
	duration          prometheus.Histogram
}

func newPublisherMetrics(stage string) publisherMetrics {
	labels := prometheus.Labels{"stage": stage}
	return publisherMetrics{
		messages: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_publish_messages_total", ConstLabels: labels,
			Help: "Messages that a stage handed to JetStream and that were acknowledged."}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_publish_retries_total", ConstLabels: labels,
			Help: "Times that a stage's publish failed and was repeated: JetStream is away, without a leader, or full."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_publish_duration_seconds",
			ConstLabels: labels,
			Help:        "Time from a stage's publish to its acknowledgement, repetitions included.",
			Buckets:     prometheus.ExponentialBuckets(0.0005, 2, 16)}),
	}
}

// Register makes the publisher's metrics known, under the name of its stage. It
// is called at most once, before the first Publish.
func (p *Publisher) Register(r prometheus.Registerer, stage string) error {
	p.metrics = newPublisherMetrics(stage)
	return register(r, p.metrics.messages, p.metrics.retries, p.metrics.duration)
}

// loopMetrics are one Loop's. Their labels are the consumer's name, of which
// there are a handful and two for each partition.
func (l *Loop) register(r prometheus.Registerer) error {
	labels := prometheus.Labels{"stream": l.o.Stream, "consumer": l.o.Consumer}
	return register(r,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_consumer_in_hand", ConstLabels: labels,
			Help: "Messages that this process has taken and not settled."}, func() float64 { return float64(l.InHand()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waybill_consumer_handled_total", ConstLabels: labels,
			Help: "Messages that this process has handled."}, func() float64 { return float64(l.Handled()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "waybill_consumer_redelivered_total", ConstLabels: labels,
			Help: "Messages that came to this process after somebody had held them before: after a wait that was asked for, " +
				"or a stop, or a death."},
			func() float64 { return float64(l.redelivered.Load()) }))
}

func register(r prometheus.Registerer, all ...prometheus.Collector) error {
	var err error
	for _, c := range all {
		err = errors.Join(err, r.Register(c))
	}
	return err
}
