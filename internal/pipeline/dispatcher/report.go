package dispatcher

import (
	"time"

	"github.com/waybill-dev/waybill/internal/domain/delivery"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/pipeline/attempt"
	"github.com/waybill-dev/waybill/internal/platform/logevent"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// attemptRecord is the record of one attempt: everything there is to know of it,
// but no payload and no secret.
func (d *Dispatcher) attemptRecord(delivery delivery.Delivery, t terms, number int, mine claim, what sent,
	res attempt.Result, decision Decision) record.Record {
	endpoint := t.endpoint
	r := record.Record{
		ID: mine.AttemptID, Kind: record.Attempt, At: time.Now(), Tenant: delivery.Tenant, EventID: delivery.EventID,
		EndpointID: delivery.EndpointID,
		EventType:  delivery.Type, DeliverBy: delivery.DeliverBy, Attempt: number, ReplayID: delivery.Replay,
		StartedAt: res.StartedAt.UTC(), AuthUS: res.Auth.Microseconds(), ResolveUS: res.Resolve.Microseconds(),
		ConnectUS: res.Connect.Microseconds(),
		TLSUS:     res.TLS.Microseconds(), FirstByteUS: res.FirstByte.Microseconds(), DurationUS: res.Total.Microseconds(),
		Status: res.Status, Outcome: string(res.Outcome), Class: string(res.Class), Error: res.Err,
		URL: endpoint.SafeURL(), EndpointRevision: endpoint.Revision, RemoteAddr: res.RemoteAddr, Reused: res.Reused,
		HTTPVersion: res.HTTPVersion, TLSVersion: res.TLSVersion, PeerFingerprint: res.PeerFingerprint,
		PayloadDigest: envelope.DigestHex(what.body), PayloadBytes: len(what.body), SignatureScheme: string(endpoint.Scheme),
		SignedAt: what.signed.UTC().Truncate(time.Second), ResponseHeaders: res.ResponseHeaders, ResponseExcerpt: res.Excerpt,
		ResponseBytes: res.ResponseBytes, ResponseTruncated: res.Truncated, Redactions: res.Redacted.Total(),
		Redacted:   res.Redacted,
		Dispatcher: d.o.Name, Software: d.o.Software,
	}
	for _, k := range what.keys {
		r.KeyIDs = append(r.KeyIDs, k.ID)
	}
	if via := t.opened.Connection; via != nil && via.Certificate != nil && res.TLSVersion != "" {
		r.ClientFingerprint = endpoint.ClientCertificate.Fingerprint
	}
	r.Proxy = res.Proxy
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
	if d.Verdict == outcome.VerdictRetry {
		r.NextAttemptAt = d.RetryAt.UTC()
	}
}

func decisionOf(r record.Record) Decision {
	return Decision{Verdict: outcome.Verdict(r.Decision), RetryAt: r.NextAttemptAt, Reason: outcome.Reason(r.Reason),
		Why:             r.Detail,
		DisableEndpoint: outcome.Reason(r.Reason) == outcome.ReasonEndpointGone, Repeat: r.Detail == whyRepeat}
}

// spentBy is what an attempt on record took of its delivery's budget.
func spentBy(r record.Record) int {
	if outcome.Outcome(r.Outcome) == outcome.NotSent || r.Detail == whyRepeat {
		return 0
	}
	return 1
}

// observe writes the one line and the metrics of an attempt.
func (d *Dispatcher) observe(delivery delivery.Delivery, endpoint *registry.Endpoint, r *record.Record,
	res attempt.Result) {
	d.metrics.attempted(delivery, r, d.clock)
	e := d.log.Info().Str("attempt_id", r.ID).Str("tenant", r.Tenant).Str("event_id", r.EventID).Str("event_type",
		r.EventType).
		Str("endpoint_id", r.EndpointID).Uint64("endpoint_revision", endpoint.Revision).Int("attempt", r.Attempt).
		Time("started_at", r.StartedAt).Int64("queued_us",
		r.StartedAt.Add(d.clock.Offset()).Sub(dueOf(delivery)).Microseconds()).
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
	e.Msg(logevent.Attempt)
}

func dueOf(delivery delivery.Delivery) time.Time {
	if !delivery.Due.IsZero() {
		return delivery.Due
	}
	return delivery.OwedAt
}
