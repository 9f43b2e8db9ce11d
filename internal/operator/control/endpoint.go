package control

import (
	"time"

	"github.com/waybill-dev/waybill/internal/domain/retry"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Endpoint is an endpoint as people are shown it: without its secrets.
type Endpoint struct {
	ID          string         `json:"id"`
	Tenant      string         `json:"tenant"`
	URL         string         `json:"url"`
	Types       []string       `json:"types"`
	Description string         `json:"description,omitempty"`
	State       registry.State `json:"state"`
	StateReason string         `json:"state_reason,omitempty"`

	Scheme          envelope.Scheme `json:"scheme"`
	SignatureHeader string          `json:"signature_header,omitempty"`
	Keys            []Key           `json:"keys"` // that sign now, the newest first

	Timeout     Duration `json:"timeout"`
	MaxInFlight int      `json:"max_in_flight"`
	// Policy is absent when the default applies: standard, or urgent when a
	// delivery has a deadline.
	Policy        *retry.Policy `json:"policy,omitempty"`
	DeliverWithin Duration      `json:"deliver_within,omitzero"`
	DisableAfter  Duration      `json:"disable_after"` // 0s: never

	// What requests carry and connections use, without what is secret of it.
	Headers           []string           `json:"headers,omitempty"`       // names
	Authorization     string             `json:"authorization,omitempty"` // its scheme, such as Bearer
	ClientCertificate *ClientCertificate `json:"client_certificate,omitempty"`
	CA                []Certificate      `json:"ca,omitempty"`
	OAuth2            *OAuth2            `json:"oauth2,omitempty"`
	EgressProxy       string             `json:"egress_proxy,omitempty"`
	// Warnings are for people: a certificate that ends soon.
	Warnings []string `json:"warnings,omitempty"`

	Revision  uint64    `json:"revision"`
	Change    string    `json:"change"`
	Reason    string    `json:"reason,omitempty"`
	UpdatedBy string    `json:"updated_by"`
	UpdatedAt time.Time `json:"updated_at"`
	CreatedAt time.Time `json:"created_at"`

	Policies []registry.PolicyRule `json:"policies,omitempty"` // for some event types; the first that matches wins
	registry.SharedSettings
	Ordering registry.Ordering `json:"ordering,omitempty"`
}

// Key is a signing key as the record knows it: never the key.
type Key struct {
	ID        string    `json:"id"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// PublicKey is what receivers verify with, "whpk_…". Ed25519 only.
	PublicKey string `json:"public_key,omitempty"`
}

// WithSecret is an endpoint and a secret of it that is shown this once.
type WithSecret struct {
	Endpoint Endpoint `json:"endpoint"`
	Secret   string   `json:"secret"`
	KeyID    string   `json:"key_id"`
}

// EndpointSpec is what a new endpoint is made from.
type EndpointSpec struct {
	Tenant      string   `json:"tenant"` // Optional: default
	URL         string   `json:"url"`
	Types       []string `json:"types"` // patterns: payment.captured, payment.*, >
	Description string   `json:"description"`

	Scheme          envelope.Scheme `json:"scheme"`           // Optional: v1
	SignatureHeader string          `json:"signature_header"` // for the scheme t,v1
	// Secret is the user's own, "whsec_…" or "whsk_…". Optional: one is made.
	Secret string `json:"secret"`

	Timeout       Duration      `json:"timeout"`       // Optional: 10s
	MaxInFlight   int           `json:"max_in_flight"` // Optional: 32
	Policy        *retry.Policy `json:"policy"`        // Optional
	DeliverWithin Duration      `json:"deliver_within"`
	DisableAfter  *Duration     `json:"disable_after"` // Optional: 120h. 0s: never

	Headers           map[string]string      `json:"headers"`
	Authorization     *AuthorizationSpec     `json:"authorization"`
	ClientCertificate *ClientCertificateSpec `json:"client_certificate"`
	CA                string                 `json:"ca"` // PEM
	OAuth2            *OAuth2Spec            `json:"oauth2"`
	EgressProxy       string                 `json:"egress_proxy"`

	Policies []registry.PolicyRule `json:"policies"` // Optional: for some event types
	registry.SharedSettings
	Ordering registry.Ordering `json:"ordering"` // Optional: none; fifo. Cannot be changed
}

// EndpointFilter narrows a listing. Zero fields do not.
type EndpointFilter struct {
	Tenant  string
	Deleted bool // list deleted ones too
}

func set[T any](from, to *T) {
	if from != nil {
		*to = *from
	}
}

// show leaves out the secrets, and keys that have ended.
func show(e registry.Endpoint, now time.Time) Endpoint {
	out := Endpoint{ID: e.ID, Tenant: e.Tenant, State: e.State, StateReason: e.StateReason, Keys: []Key{},
		Revision: e.Revision, Change: e.Change, Reason: e.Reason,
		UpdatedBy: e.UpdatedBy, UpdatedAt: e.UpdatedAt, CreatedAt: e.CreatedAt}
	copySettings(&e, &out, plain)
	for _, s := range e.Secrets {
		if !s.Ended(now) {
			out.Keys = append(out.Keys, Key{ID: s.KeyID, ExpiresAt: s.ExpiresAt, PublicKey: s.PublicKey})
		}
	}
	showCredentials(e, now, &out)
	return out
}
