package control

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// DefaultTenant is the tenant where nobody cares.
const DefaultTenant = "default"

// CreateEndpoint makes an endpoint, enabled. The secret is in the result and
// nowhere else: it cannot be shown again.
func (c *Control) CreateEndpoint(ctx context.Context, spec EndpointSpec, actor string) (WithSecret, error) {
	if err := checkActor(actor); err != nil {
		return WithSecret{}, err
	}
	spec = withDefaults(spec)
	if spec.Scheme == envelope.SchemeTimestamped && spec.SignatureHeader == "" {
		spec.SignatureHeader = envelope.DefaultTimestampedHeader
	}
	if err := c.checkURL(spec.URL); err != nil {
		return WithSecret{}, err
	}
	ring, err := c.keys()
	if err != nil {
		return WithSecret{}, err
	}
	key, err := secretFor(spec.Scheme, spec.Secret)
	if err != nil {
		return WithSecret{}, err
	}
	e := registry.Endpoint{ID: ids.New(ids.Endpoint, c.o.Now()), Tenant: spec.Tenant, State: registry.Enabled, CA: spec.CA}
	copySettings(&spec, &e, plain)
	e.Types = distinct(e.Types)
	e.Secrets = []registry.Secret{e.SealSecret(ring, key)}
	if err := c.applyCredentials(spec.credentials(), &e); err != nil {
		return WithSecret{}, err
	}
	if err := errors.Join(checkDescription(&e.Description), e.Validate()); err != nil {
		return WithSecret{}, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.checkFifo(ctx, e); err != nil {
		return WithSecret{}, err
	}
	e, err = c.store.Create(ctx, e, actor)
	if err != nil {
		return WithSecret{}, failed(err)
	}
	return WithSecret{Endpoint: show(e, c.o.Now()), Secret: key.Reveal(), KeyID: key.ID}, nil
}

// checkFifo bounds how many endpoints keep order.
func (c *Control) checkFifo(ctx context.Context, e registry.Endpoint) error {
	if e.Ordering != registry.FIFO {
		return nil
	}
	list, err := c.store.List(ctx, "", false)
	if err != nil {
		return failed(err)
	}
	n := 0
	for _, other := range list {
		if other.Ordering == registry.FIFO {
			n++
		}
	}
	if n >= streams.MaxFifo {
		return invalid("ordering", "%d endpoints keep order already, at most %d may: each costs every delivery time; "+
			"leave it out, or delete one that does not need it", n, streams.MaxFifo)
	}
	return nil
}

func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (c *Control) checkURL(url string) error {
	if err := c.o.Egress.CheckURL(url); err != nil {
		return &Error{Code: CodeInvalid, Field: "url", Err: err}
	}
	return nil
}

// Endpoints lists endpoints, oldest first.
func (c *Control) Endpoints(ctx context.Context, f EndpointFilter) ([]Endpoint, error) {
	if f.Tenant != "" {
		if err := envelope.ValidateTenant(f.Tenant); err != nil {
			return nil, rejected(err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.store.List(ctx, f.Tenant, f.Deleted)
	if err != nil {
		return nil, failed(err)
	}
	out := make([]Endpoint, len(list))
	for i, e := range list {
		out[i] = show(e, c.o.Now())
	}
	return out, nil
}

// Endpoint returns the present revision, also of a deleted endpoint.
func (c *Control) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	e, err := c.get(ctx, id)
	return show(e, c.o.Now()), err
}

func (c *Control) get(ctx context.Context, id string) (registry.Endpoint, error) {
	if !ids.Valid(ids.Endpoint, id) {
		return registry.Endpoint{}, failure(CodeNotFound,
			"endpoint %.64q: no such endpoint; ids begin with %s, see: waybill endpoint list", id, ids.Endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := c.store.Get(ctx, id)
	if err != nil {
		return e, failed(err)
	}
	return e, nil
}

// UpdateEndpoint changes what the patch names; it takes effect at the next
// attempt of every delivery. reason is optional.
func (c *Control) UpdateEndpoint(ctx context.Context, id string, p EndpointPatch, actor, reason string) (Endpoint,
	error) {
	if p.Empty() {
		return Endpoint{}, failure(CodeInvalid, "the change is empty; name at least one setting")
	}
	if p.names("url") {
		if err := c.checkURL(p.URL); err != nil {
			return Endpoint{}, err
		}
	}
	p.Types = distinct(p.Types)
	return c.change(ctx, id, actor, "updated", reason, func(e *registry.Endpoint) error {
		was, before := e.Scheme, e.Destination()
		p.apply(e)
		if err := p.follow(e, before); err != nil {
			return err
		}
		if err := c.applyCredentials(p.credentials(), e); err != nil {
			return err
		}
		if (was == envelope.SchemeEd25519) != (e.Scheme == envelope.SchemeEd25519) {
			return invalid("scheme", "cannot change from %s to %s: the keys are of another kind; make a new endpoint", was,
				e.Scheme)
		}
		if e.Scheme == envelope.SchemeTimestamped && e.SignatureHeader == "" {
			e.SignatureHeader = envelope.DefaultTimestampedHeader
		}
		if e.Scheme != envelope.SchemeTimestamped && !p.names("signature_header") {
			e.SignatureHeader = ""
		}
		return nil
	})
}

// EnableEndpoint lets an endpoint get events again: those that are accepted
// from now on. reason is optional.
func (c *Control) EnableEndpoint(ctx context.Context, id, actor, reason string) (Endpoint, error) {
	return c.change(ctx, id, actor, "enabled", reason, func(e *registry.Endpoint) error {
		if e.State != registry.Enabled {
			e.EnabledAt = c.o.Now().UTC()
		}
		e.State, e.StateReason = registry.Enabled, ""
		return nil
	})
}

// DisableEndpoint stops an endpoint's deliveries: those on their way end as
// dead letters, and it is owed no event until it is enabled. A reason is required.
// Deliveries that wait are not ended unless the stop says so.
func (c *Control) DisableEndpoint(ctx context.Context, id string, s Stop, actor string) (Endpoint, error) {
	if err := errors.Join(checkActor(actor), checkReason(s.Reason, true)); err != nil {
		return Endpoint{}, rejected(err)
	}
	if err := c.checkPending(ctx, id, s); err != nil {
		return Endpoint{}, err
	}
	return c.change(ctx, id, actor, "disabled", s.Reason, func(e *registry.Endpoint) error {
		e.State, e.StateReason = registry.Disabled, s.Reason
		return nil
	})
}

// DeleteEndpoint ends an endpoint for good. It stays in the registry, so that
// what is on its way to it ends with a reason. A reason is optional. Deliveries
// that wait are not ended unless the stop says so.
func (c *Control) DeleteEndpoint(ctx context.Context, id string, s Stop, actor string) (Endpoint, error) {
	if err := errors.Join(checkActor(actor), checkReason(s.Reason, false)); err != nil {
		return Endpoint{}, rejected(err)
	}
	if err := c.checkPending(ctx, id, s); err != nil {
		return Endpoint{}, err
	}
	return c.change(ctx, id, actor, "deleted", s.Reason, func(e *registry.Endpoint) error {
		e.State, e.StateReason = registry.Deleted, s.Reason
		e.DropCredentials()
		return nil
	})
}

// change stores the next revision of an endpoint, if it is valid.
func (c *Control) change(ctx context.Context, id, actor, what, reason string,
	alter func(*registry.Endpoint) error) (Endpoint, error) {
	if err := checkActor(actor); err != nil {
		return Endpoint{}, err
	}
	if err := checkReason(reason, false); err != nil {
		return Endpoint{}, err
	}
	if !ids.Valid(ids.Endpoint, id) {
		_, err := c.get(ctx, id)
		return Endpoint{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := c.store.Update(ctx, id, actor, what, reason, func(e *registry.Endpoint) error {
		before := e.Description
		if err := alter(e); err != nil {
			return err
		}
		if e.Description != before { // an older one stays as it is until somebody changes it
			if err := checkDescription(&e.Description); err != nil {
				return err
			}
		}
		return rejected(e.Validate())
	})
	if err != nil {
		return Endpoint{}, failed(err)
	}
	return show(e, c.o.Now()), nil
}
