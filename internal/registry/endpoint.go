// Package registry keeps the endpoints, who is owed what, where, and how, and
// what is set by event type. Each lives in a JetStream key-value bucket, which
// those watch that act by it.
package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/domain/subscription"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// State of an endpoint.
type State string

// The states. A deleted endpoint stays in the registry, so that what is still
// on its way to it ends with a reason.
const (
	Enabled  State = "enabled"
	Disabled State = "disabled"
	Deleted  State = "deleted"
)

// Defaults and bounds of an endpoint's settings.
const (
	DefaultTimeout     = 10 * time.Second // what receivers are promised to have for an answer
	MaxTimeout         = 30 * time.Second
	DefaultMaxInFlight = 32
	MaxMaxInFlight     = 1000
	MinMaxPerSecond    = 0.001
	MaxMaxPerSecond    = 1000.0
	// DefaultDisableAfter is what senders people know wait for: five days.
	DefaultDisableAfter = 5 * 24 * time.Hour
	// minDisableAfter keeps a short outage from looking like a sustained one.
	minDisableAfter = time.Minute
	// maxDisableAfter is half of what the bucket of failures remembers.
	maxDisableAfter = 30 * 24 * time.Hour
	maxSecrets      = 8
	maxDescription  = 500
	maxURL          = 2048
)

// Endpoint is one receiver: a revision of it, whole. Durations are in
// nanoseconds in JSON, as Go writes them.
type Endpoint struct {
	ID          string   `json:"id"` // ep_ + ULID
	Tenant      string   `json:"tenant"`
	URL         string   `json:"url"`
	Types       []string `json:"types"` // patterns of event types, see package subscription
	Description string   `json:"description,omitempty"`

	State       State  `json:"state"`
	StateReason string `json:"state_reason,omitempty"`

	// Scheme signs the requests: envelope.SchemeHMAC, SchemeEd25519 or
	// SchemeTimestamped; SignatureHeader is the header of the last one.
	Scheme          envelope.Scheme `json:"scheme"`
	SignatureHeader string          `json:"signature_header,omitempty"`
	// Secrets are the signing keys, the newest first. A deleted endpoint has none.
	Secrets []Secret `json:"secrets"`

	// What requests carry and connections use besides; see Open. Whatever may
	// be secret of it is sealed.
	Headers           []Header           `json:"headers,omitempty"`
	Authorization     *Authorization     `json:"authorization,omitempty"`
	ClientCertificate *ClientCertificate `json:"client_certificate,omitempty"`
	CA                string             `json:"ca,omitempty"` // PEM: issuers trusted besides the system's
	OAuth2            *OAuth2            `json:"oauth2,omitempty"`
	EgressProxy       string             `json:"egress_proxy,omitempty"` // instead of the dispatchers'

	Timeout     time.Duration `json:"timeout"`       // of a whole exchange
	MaxInFlight int           `json:"max_in_flight"` // requests at once
	// Policy is the schedule of attempts. Absent: standard, or urgent when
	// the delivery has a deadline.
	Policy *retry.Policy `json:"policy,omitempty"`
	// DeliverWithin sets deliver_by for events that bring none. 0: no deadline.
	DeliverWithin time.Duration `json:"deliver_within,omitempty"`
	// DisableAfter disables the endpoint when no attempt succeeded for so long.
	// 0: never. Time before EnabledAt does not count.
	DisableAfter time.Duration `json:"disable_after,omitempty"`
	EnabledAt    time.Time     `json:"enabled_at,omitzero"`

	revision.Meta

	// Policies are schedules for some event types only; the first rule that
	// matches wins, and goes before Policy.
	Policies []PolicyRule `json:"policies,omitempty"`
	SharedSettings
	// Ordering is "" or FIFO: one delivery at a time, in the order of EVENTS. It
	// never changes.
	Ordering Ordering `json:"ordering,omitempty"`

	// opened caches what Open gives; only the endpoints of a View have it,
	// which nobody changes.
	opened *atomic.Pointer[Opened]
}

// Endpoints is how endpoints are kept.
func Endpoints() revision.Kind[Endpoint] {
	return revision.Kind[Endpoint]{Bucket: streams.EndpointsBucket, Name: "endpoint", See: "waybill endpoint list",
		Meta:    func(e *Endpoint) *revision.Meta { return &e.Meta },
		Deleted: func(e *Endpoint) bool { return e.State == Deleted },
		SetDeleted: func(e *Endpoint, is bool) {
			if is {
				e.State = Deleted
			}
		},
		Key: func(e *Endpoint) string { return e.ID }, Check: Endpoint.Validate}
}

// ActorWaybill is the actor of what Waybill does of itself. Nobody else may be
// called so.
const ActorWaybill = "waybill"

// Ordering of an endpoint's deliveries.
type Ordering string

// FIFO delivers in the order of EVENTS, each when the one before has ended.
const FIFO Ordering = "fifo"

// Live says that the endpoint is not deleted.
func (e *Endpoint) Live() bool { return e.State != Deleted }

// Secret is a signing key, sealed, and, during a rotation, the time it stops
// being used. What goes on record of it is beside it in the clear.
type Secret struct {
	KeyID     string       `json:"key_id"`
	PublicKey string       `json:"public_key,omitempty"` // of an Ed25519 key
	Sealed    sealed.Value `json:"sealed"`
	ExpiresAt time.Time    `json:"expires_at,omitzero"`
	// Plain is how versions before sealing stored it. It is never written, and
	// never signs: see Store.Reseal.
	Plain string `json:"secret,omitempty"`
}

// Ended says whether the key has stopped being used.
func (s Secret) Ended(at time.Time) bool { return !s.ExpiresAt.IsZero() && !at.Before(s.ExpiresAt) }

// String keeps secrets out of logs, also sealed ones.
func (s Secret) String() string { return "registry.Secret(" + s.KeyID + ")" }

// GoString keeps secrets out of %#v.
func (s Secret) GoString() string { return s.String() }

// KeyIDs are those of the keys that sign at a moment, the newest first. It
// needs no secrets key.
func (e *Endpoint) KeyIDs(at time.Time) []string {
	var ids []string
	for _, s := range e.Secrets {
		if !s.Ended(at) && s.KeyID != "" {
			ids = append(ids, s.KeyID)
		}
	}
	return ids
}

func (e Endpoint) validateSigning() error {
	switch e.Scheme {
	case envelope.SchemeHMAC, envelope.SchemeEd25519:
		if e.SignatureHeader != "" {
			return fmt.Errorf("signature_header: only the scheme %s has a header of its own", envelope.SchemeTimestamped)
		}
	case envelope.SchemeTimestamped:
		if err := envelope.ValidateSignatureHeader(e.SignatureHeader); err != nil {
			return fmt.Errorf("signature_header: %w", err)
		}
	default:
		return fmt.Errorf("scheme: %q; want %s, %s or %s", e.Scheme, envelope.SchemeHMAC, envelope.SchemeEd25519,
			envelope.SchemeTimestamped)
	}
	if len(e.Secrets) == 0 && e.State != Deleted || len(e.Secrets) > maxSecrets {
		return fmt.Errorf("secrets: want 1 to %d, got %d", maxSecrets, len(e.Secrets))
	}
	for _, s := range e.Secrets {
		if s.Plain != "" {
			return fmt.Errorf("secret: %w", ErrPlainSecret)
		}
		if err := s.Sealed.Validate(); err != nil || s.KeyID == "" {
			return errors.New("secret: is not sealed")
		}
	}
	return nil
}

// Subscribes says whether the endpoint is owed events of a type.
func (e Endpoint) Subscribes(eventType string) bool {
	return e.State == Enabled && subscription.MatchAny(e.Types, eventType)
}

// ParseTypes splits a comma-separated list of patterns.
func ParseTypes(list string) []string {
	var out []string
	for p := range strings.SplitSeq(list, ",") {
		if p = strings.TrimSpace(p); p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
