package control

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

const (
	// DefaultOverlap gives a receiver's team a day to put the new secret in place.
	DefaultOverlap = 24 * time.Hour
	maxOverlap     = 30 * 24 * time.Hour
	// maxKeys is how many keys the registry keeps for one endpoint.
	maxKeys = 8
)

// secretFor reads the user's secret, or makes one.
func secretFor(scheme envelope.Scheme, brought string) (envelope.Key, error) {
	var key envelope.Key
	var err error
	switch {
	case scheme != envelope.SchemeHMAC && scheme != envelope.SchemeEd25519 && scheme != envelope.SchemeTimestamped:
		return key, invalid("scheme", "%.20q; want %s, %s or %s", scheme, envelope.SchemeHMAC, envelope.SchemeEd25519,
			envelope.SchemeTimestamped)
	case brought != "":
		key, err = envelope.ParseSecretFor(scheme, brought)
	case scheme == envelope.SchemeEd25519:
		key, err = envelope.GenerateEd25519(rand.Reader)
	default:
		key, err = envelope.GenerateHMAC(rand.Reader)
	}
	if err != nil {
		return key, &Error{Code: CodeInvalid, Field: "secret", Err: err}
	}
	if _, err := envelope.Sign([]envelope.Key{key}, "id", time.Unix(0, 0), nil); err != nil {
		return key, invalid("secret", "this key cannot sign; bring the private key, %s…", envelope.PrefixEd25519Private)
	}
	return key, nil
}

// Rotation says how a secret is replaced.
type Rotation struct {
	// Overlap is how long the present secret signs beside the new one. Nil:
	// DefaultOverlap. 0: it ends at once.
	Overlap *Duration `json:"overlap"`
	// Secret is the user's own. Optional: one is made.
	Secret string `json:"secret"`
	Reason string `json:"reason"` // Optional
}

// RotateSecret adds a new secret, which signs from the next attempt on. The
// present one ends after the overlap; those that were ending already keep
// their own ends, so that a second rotation cuts nobody off.
func (c *Control) RotateSecret(ctx context.Context, id string, r Rotation, actor string) (WithSecret, error) {
	overlap := DefaultOverlap
	if r.Overlap != nil {
		overlap = time.Duration(*r.Overlap)
	}
	if overlap < 0 || overlap > maxOverlap {
		return WithSecret{}, invalid("overlap", "%s; want 0s to %s", Duration(overlap), Duration(maxOverlap))
	}
	ring, err := c.keys()
	if err != nil {
		return WithSecret{}, err
	}
	var key envelope.Key
	e, err := c.change(ctx, id, actor, "secret_rotated", r.Reason, func(e *registry.Endpoint) (err error) {
		if key, err = secretFor(e.Scheme, r.Secret); err != nil {
			return err
		}
		now := c.o.Now().UTC()
		kept := []registry.Secret{e.SealSecret(ring, key)}
		for _, s := range e.Secrets {
			if s.ExpiresAt.IsZero() {
				s.ExpiresAt = now.Add(overlap)
			}
			if s.Ended(now) {
				continue
			}
			if s.KeyID == key.ID {
				return invalid("secret", "the endpoint has this secret already; bring another one")
			}
			kept = append(kept, s)
		}
		if len(kept) > maxKeys {
			return invalid("overlap", "%s still in use; wait until %s, when the first of them ends",
				text.Count(len(kept)-1, "secret is", "secrets are"), soonest(kept).Format(time.RFC3339))
		}
		e.Secrets = kept
		return nil
	})
	if err != nil {
		return WithSecret{}, err
	}
	return WithSecret{Endpoint: e, Secret: key.Reveal(), KeyID: key.ID}, nil
}

func soonest(list []registry.Secret) time.Time {
	var first time.Time
	for _, s := range list {
		if !s.ExpiresAt.IsZero() && (first.IsZero() || s.ExpiresAt.Before(first)) {
			first = s.ExpiresAt
		}
	}
	return first
}
