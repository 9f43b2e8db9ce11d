package dispatcher

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/stage"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/streams"
)

// metrics of the stage. No label ever holds an endpoint's, tenant's or event's
// id: how many series there are does not grow with use.
type metrics struct {
	attempts    *prometheus.CounterVec
	duration    prometheus.Histogram
	queueDelay  *prometheus.HistogramVec
	delivered   prometheus.Histogram
	budgetLeft  prometheus.Histogram
	deadLetters *prometheus.CounterVec
	deferred    *prometheus.CounterVec
	breakers    prometheus.Gauge
	redactions  *prometheus.CounterVec
	locked      prometheus.Counter
	faults      prometheus.Counter
}

// longBuckets reach from milliseconds to beyond the 33 hours of the standard schedule.
func longBuckets() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600,
		36 * 3600}
}

func newMetrics(reg prometheus.Registerer, inFlight func() int, late *lateness, policy *redact.Redactor) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_attempts_total",
			Help: "Attempts made, by outcome and class."}, []string{"outcome", "class"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_attempt_duration_seconds",
			Help: "How long an attempt's call took, without queueing.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		queueDelay: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "waybill_queue_delay_seconds",
			Help:    "From when an attempt was due to when it started: for the first attempt from when the event was stored.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}, []string{"attempt"}),
		delivered: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_delivery_duration_seconds",
			Help:    "From when the event was stored, or its replay asked for, to when the receiver had accepted it.",
			Buckets: longBuckets()}),
		budgetLeft: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_deadline_left_ratio",
			Help: "Share of the time to the deadline that was left when the receiver had accepted: 1 at once, 0 at the " +
				"deadline or past it. Deliveries without a deadline are not counted.",
			Buckets: []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .99}}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_dead_letters_total",
			Help: "Deliveries that ended unfulfilled, by reason."}, []string{"reason"}),
		deferred: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_deliveries_moved_aside_total",
			Help: "Times that a delivery was moved aside because its endpoint could not be called, by why: cap, rate, " +
				"breaker, key or fault."}, []string{"why"}),
		breakers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "waybill_breakers_open",
			Help: "Endpoints that keep failing, so that this dispatcher sends them probes only. The log says which."}),
		redactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_redactions_total",
			Help: "Pieces of receivers' answers that were kept off the record, by kind: see docs/redaction.md."},
			[]string{"kind"}),
		locked: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_deliveries_waiting_for_key_total",
			Help: "Times that a delivery was put off because its endpoint's secrets cannot be opened with the keys at hand."}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_requests_not_made_total",
			Help: "Attempts for which no request could be made for a reason on this side, not the receiver's. The log says " +
				"which: attempt.not_made."}),
	}
	for _, r := range outcome.DeadLetters() {
		m.deadLetters.WithLabelValues(string(r)) // from 0: the first one counts as an increase
	}
	for _, o := range outcome.Outcomes() {
		m.attempts.WithLabelValues(string(o), string(o.Class()))
	}
	for _, why := range []string{deferCap, deferRate, deferBreaker, deferKey, deferFault} {
		m.deferred.WithLabelValues(why)
	}
	for _, k := range append(redact.Kinds(), policy.OwnKinds()...) {
		m.redactions.WithLabelValues(string(k))
	}
	for _, which := range []string{"first", "later"} {
		m.queueDelay.WithLabelValues(which)
	}
	reg.MustRegister(m.attempts, m.duration, m.queueDelay, m.delivered, m.budgetLeft, m.deadLetters, m.deferred,
		m.breakers, m.locked, m.faults, m.redactions, late,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_attempts_in_flight", Help: "Requests under way."},
			func() float64 { return float64(inFlight()) }))
	return m
}

// attempted counts an attempt that is on record. The record's times are this
// machine's; the delivery's are the clock's.
func (m *metrics) attempted(delivery delivery.Delivery, r *record.Record, clock *stage.Clock) {
	m.attempts.WithLabelValues(r.Outcome, r.Class).Inc()
	for kind, n := range r.Redacted {
		m.redactions.WithLabelValues(kind).Add(float64(n))
	}
	if outcome.Outcome(r.Outcome) == outcome.Unknown {
		return // nobody knows how long it took
	}
	m.duration.Observe(float64(r.DurationUS) / 1e6)
	which := "first"
	if delivery.Spent > 0 {
		which = "later"
	}
	m.queueDelay.WithLabelValues(which).Observe(max(0, r.StartedAt.Add(clock.Offset()).Sub(dueOf(delivery)).Seconds()))
	if outcome.Class(r.Class) != outcome.ClassDelivered {
		return
	}
	now := clock.Now()
	m.delivered.Observe(max(0, now.Sub(delivery.OwedAt).Seconds()))
	if left, ok := budgetLeft(delivery, now); ok {
		m.budgetLeft.Observe(left)
	}
}

// budgetLeft is the share of the time between owed and deadline that is left.
func budgetLeft(delivery delivery.Delivery, now time.Time) (float64, bool) {
	window := delivery.DeliverBy.Sub(delivery.OwedAt)
	if delivery.DeliverBy.IsZero() || window <= 0 {
		return 0, false
	}
	return min(1, max(0, float64(delivery.DeliverBy.Sub(now))/float64(window))), true
}

// lateness knows which deliveries are in this process's hand and since when
// they are due.
type lateness struct {
	desc       *prometheus.Desc
	partitions int
	now        func() time.Time

	mu  sync.Mutex // guards due
	due map[*delivery.Delivery]time.Time
}

func newLateness(partitions int, now func() time.Time) *lateness {
	return &lateness{partitions: partitions, now: now, due: map[*delivery.Delivery]time.Time{},
		desc: prometheus.NewDesc("waybill_oldest_due_seconds",
			"How long ago the most overdue delivery that this process has in hand was due, by partition; 0 when none is.",
			[]string{"partition"}, nil)}
}

func (l *lateness) hold(delivery *delivery.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due[delivery] = dueOf(*delivery)
}

func (l *lateness) release(delivery *delivery.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.due, delivery)
}

// Describe implements prometheus.Collector.
func (l *lateness) Describe(c chan<- *prometheus.Desc) { c <- l.desc }

// Collect implements prometheus.Collector.
func (l *lateness) Collect(c chan<- prometheus.Metric) {
	oldest, now := make([]time.Duration, l.partitions), l.now()
	l.mu.Lock()
	for delivery, due := range l.due {
		p := streams.Partition(delivery.EndpointID, l.partitions)
		oldest[p] = max(oldest[p], now.Sub(due))
	}
	l.mu.Unlock()
	for p, d := range oldest {
		c <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, d.Seconds(), strconv.Itoa(p))
	}
}
