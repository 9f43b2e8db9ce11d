package dispatcher

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/delivery"
	"github.com/waybill-dev/waybill/internal/record"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// attemptRecord is the record of one attempt: everything there is to know of it,
// but no payload and no secret.
func (d *Dispatcher) attemptRecord(task delivery.Delivery, p prospect, number int, mine claim, what sent, res Result, decision Decision) record.Record {
	endpoint := p.endpoint
	r := record.Record{
		ID: mine.AttemptID, Kind: record.Attempt, At: time.Now(), Tenant: task.Tenant, EventID: task.EventID, EndpointID: task.EndpointID,
		EventType: task.Type, DeliverBy: task.DeliverBy, Attempt: number, ReplayID: task.Replay,
		StartedAt: res.StartedAt.UTC(), AuthUS: res.Auth.Microseconds(), ResolveUS: res.Resolve.Microseconds(), ConnectUS: res.Connect.Microseconds(),
		TLSUS: res.TLS.Microseconds(), FirstByteUS: res.FirstByte.Microseconds(), DurationUS: res.Total.Microseconds(),
		Status: res.Status, Outcome: string(res.Outcome), Class: string(res.Class), Error: res.Err,
		URL: record.SafeURL(endpoint.URL), EndpointRevision: endpoint.Revision, RemoteAddr: res.RemoteAddr, Reused: res.Reused,
		HTTPVersion: res.HTTPVersion, TLSVersion: res.TLSVersion, PeerFingerprint: res.PeerFingerprint,
		PayloadDigest: envelope.DigestHex(what.body), PayloadBytes: len(what.body), SignatureScheme: string(endpoint.Scheme),
		SignedAt: what.signed.UTC().Truncate(time.Second), ResponseHeaders: res.ResponseHeaders, ResponseExcerpt: res.Excerpt,
		ResponseBytes: res.ResponseBytes, ResponseTruncated: res.Truncated, Redactions: res.Redactions,
		Dispatcher: d.o.Name, Software: d.o.Software,
	}
	for _, k := range what.keys {
		r.KeyIDs = append(r.KeyIDs, k.ID)
	}
	if via := p.opened.Connection; via != nil && via.Certificate != nil && res.TLSVersion != "" {
		r.ClientFingerprint = endpoint.ClientCertificate.Fingerprint
	}
	r.Proxy = d.client.ProxyOf(p.opened.Connection)
	setDecision(&r, decision)
	return r
}

// sent is what was signed.
type sent struct {
	signed time.Time
	keys   []envelope.Key
	body   []byte
}

// setDecision puts a decision on an attempt's record; decisionOf reads it back.
func setDecision(r *record.Record, d Decision) {
	r.Decision, r.Reason, r.Detail = string(d.Verdict), string(d.Reason), d.Why
	if d.Verdict == VerdictRetry {
		r.NextAttemptAt = d.RetryAt.UTC()
	}
}

func decisionOf(r record.Record) Decision {
	return Decision{Verdict: Verdict(r.Decision), RetryAt: r.NextAttemptAt, Reason: ReasonCode(r.Reason), Why: r.Detail,
		DisableEndpoint: ReasonCode(r.Reason) == ReasonEndpointGone}
}

// observe writes the one line and the metrics of an attempt.
func (d *Dispatcher) observe(task delivery.Delivery, endpoint *registry.Endpoint, r *record.Record, res Result) {
	d.metrics.attempts.WithLabelValues(r.Outcome, r.Class).Inc()
	d.metrics.duration.Observe(res.Total.Seconds())
	e := d.log.Info().Str("attempt_id", r.ID).Str("tenant", r.Tenant).Str("event_id", r.EventID).Str("event_type", r.EventType).
		Str("endpoint_id", r.EndpointID).Uint64("endpoint_revision", endpoint.Revision).Int("attempt", r.Attempt).
		Time("started_at", r.StartedAt).Int64("queued_us", r.StartedAt.Sub(dueOf(task)).Microseconds()).
		Int64("duration_us", r.DurationUS).Int("status", r.Status).Str("outcome", r.Outcome).Str("class", r.Class).
		Str("decision", r.Decision).Str("url", r.URL).Str("remote_addr", r.RemoteAddr).Str("payload_digest", r.PayloadDigest).
		Int("payload_bytes", r.PayloadBytes)
	if r.ReplayID != "" {
		e = e.Str("replay_id", r.ReplayID)
	}
	if r.Reason != "" {
		e = e.Str("reason", r.Reason)
	}
	if r.Error != "" {
		e = e.Str("error", r.Error)
	}
	if !r.NextAttemptAt.IsZero() {
		e = e.Time("next_attempt_at", r.NextAttemptAt)
	}
	e.Msg("attempt")
}

func dueOf(task delivery.Delivery) time.Time {
	if !task.Due.IsZero() {
		return task.Due
	}
	return task.OwedAt
}

// Why a task is moved aside.
const (
	asideCap     = "cap"     // the endpoint has as many requests under way as it may
	asideRate    = "rate"    // it has had as many in a second as it may
	asideBreaker = "breaker" // it has kept failing
	asideKey     = "key"     // its secrets do not open
)

// breakerChanged tells operators that an endpoint's breaker opened or closed.
func (d *Dispatcher) breakerChanged(endpoint string, open bool) {
	if open {
		d.metrics.open.WithLabelValues(endpoint).Set(1)
		d.log.Warn().Str("endpoint_id", endpoint).Msg("breaker.opened")
		return
	}
	d.metrics.open.DeleteLabelValues(endpoint)
	d.log.Info().Str("endpoint_id", endpoint).Msg("breaker.closed")
}

type metrics struct {
	attempts    *prometheus.CounterVec
	duration    prometheus.Histogram
	deadLetters *prometheus.CounterVec
	aside       *prometheus.CounterVec
	open        *prometheus.GaugeVec
	locked      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, inFlight func() int) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_attempts_total",
			Help: "Attempts made, by outcome and class."}, []string{"outcome", "class"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waybill_attempt_duration_seconds",
			Help: "How long an attempt's call took, without queueing.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}),
		deadLetters: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_dead_letters_total",
			Help: "Deliveries that ended unfulfilled, by reason."}, []string{"reason"}),
		aside: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_deliveries_moved_aside_total",
			Help: "Tasks moved aside because their endpoint could not be called, by why: cap, rate, breaker or key."}, []string{"why"}),
	}
	m.locked = prometheus.NewCounter(prometheus.CounterOpts{Name: "waybill_deliveries_waiting_for_key_total",
		Help: "Times a delivery was put off because its endpoint's secrets cannot be opened with the keys at hand."})
	m.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "waybill_breaker_open",
		Help: "1 for each endpoint that keeps failing, so that only probes are sent to it. Others are absent."}, []string{"endpoint_id"})
	reg.MustRegister(m.attempts, m.duration, m.deadLetters, m.aside, m.open, m.locked, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_attempts_in_flight", Help: "Requests under way."}, func() float64 { return float64(inFlight()) }))
	return m
}
