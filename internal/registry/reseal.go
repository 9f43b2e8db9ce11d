package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// errAlreadySealed ends an update that has nothing to do.
var errAlreadySealed = errors.New("already sealed under the newest key")

// reseal brings every secret of the endpoint under the newest key.
func (e *Endpoint) reseal(ring *sealed.Keyring, now time.Time) (changed bool, err error) {
	again := func(v *sealed.Value, at sealed.Place, what string) {
		if err != nil || ring.Newest(*v) {
			return
		}
		var plain string
		if plain, err = ring.Open(*v, at); err != nil {
			err = fmt.Errorf("%s: %w", what, err)
			return
		}
		*v, changed = ring.Seal(plain, at), true
	}
	// One that has ended is no longer needed, nor is the key that it would need.
	e.Secrets = slices.DeleteFunc(e.Secrets, func(s Secret) bool { return s.Ended(now) })
	for i := range e.Secrets {
		s := &e.Secrets[i]
		if s.Plain != "" {
			key, keyErr := envelope.ParseSecretFor(e.Scheme, s.Plain)
			if keyErr != nil {
				return false, fmt.Errorf("secret: %w", keyErr)
			}
			ends := s.ExpiresAt
			*s = e.SealSecret(ring, key)
			s.ExpiresAt, changed = ends, true
		}
		again(&s.Sealed, e.secretPlace(s.KeyID), "secret "+s.KeyID)
	}
	for i := range e.Headers {
		again(&e.Headers[i].Sealed, e.headerPlace(e.Headers[i].Name), "header "+e.Headers[i].Name)
	}
	if e.Authorization != nil {
		again(&e.Authorization.Sealed, e.authorizationPlace(), "authorization")
	}
	if e.ClientCertificate != nil {
		again(&e.ClientCertificate.Key, e.clientKeyPlace(), "client certificate")
	}
	if e.OAuth2 != nil {
		again(&e.OAuth2.Secret, e.oauth2Place(), "oauth2")
	}
	return changed, err
}

// HasPlain says whether the endpoint has a secret in the clear.
func (e *Endpoint) HasPlain() bool {
	for _, s := range e.Secrets {
		if s.Plain != "" {
			return true
		}
	}
	return false
}

// Reseal brings an endpoint's secrets under the newest key, those in the clear
// too: as a revision of its own, because who did it when is a fact that an
// auditor asks for. It does nothing when they are already.
func (s *Store) Reseal(ctx context.Context, ring *sealed.Keyring, id, actor, reason string) (changed bool, err error) {
	plain := false
	_, err = s.Update(ctx, id, actor, "resealed", reason, func(e *Endpoint) error {
		plain = e.HasPlain()
		changed, err := e.reseal(ring, time.Now())
		if err == nil && !changed {
			return errAlreadySealed
		}
		return err
	})
	switch {
	case errors.Is(err, errAlreadySealed):
		return false, nil
	case err != nil:
		return false, err
	case plain:
		return true, s.forget(ctx, id)
	}
	return true, nil
}

// forget removes the revisions before the newest from the bucket: their
// secrets are in the clear. Only once they are on record.
func (s *Store) forget(ctx context.Context, id string) error {
	stream, err := s.js.Stream(ctx, streams.EndpointsStream)
	if err != nil {
		return fmt.Errorf("bucket %s: %w", streams.EndpointsBucket, err)
	}
	subject := "$KV." + streams.EndpointsBucket + "." + id
	newest, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return fmt.Errorf("endpoint %s: %w", id, err)
	}
	recorder, err := stream.Consumer(ctx, streams.RecorderConsumer)
	if err != nil {
		return fmt.Errorf("consumer %s/%s: %w; mend it with: waybill streams apply", streams.EndpointsStream,
			streams.RecorderConsumer, err)
	}
	if recorder.CachedInfo().AckFloor.Stream+1 < newest.Sequence {
		return fmt.Errorf("endpoint %s is sealed now, but its older revisions, with the secret in the clear, are not on "+
			"record yet and stay until they are; replace the secret when it matters: waybill endpoint rotate-secret %s", id, id)
	}
	err = stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(newest.Sequence))
	if err != nil {
		return fmt.Errorf("endpoint %s: removing older revisions: %w", id, err)
	}
	return nil
}
