package control

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
)

// ResealedSet says what Reseal did to the things of one kind.
type ResealedSet struct {
	Resealed []string `json:"resealed"` // those that were not under the newest key
	// Failed are those that could not be: which, and why.
	Failed map[string]string `json:"failed,omitempty"`
	Sealed int               `json:"sealed"` // under the newest key, all told
}

// Resealed says what Reseal did.
type Resealed struct {
	KeyID       string `json:"key_id"` // that seals now
	ResealedSet        // the endpoints, by id
	// Channels have secrets too, under the same keys. By name.
	Channels ResealedSet `json:"channels"`
}

// Reseal brings the secrets of every endpoint and channel under the newest key,
// each as a revision on record. What it did is done also when it is cut short:
// repeat it. Afterwards, if nothing failed, older keys can be taken away.
func (c *Control) Reseal(ctx context.Context, actor, reason string) (Resealed, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false)); err != nil {
		return Resealed{}, rejected(err)
	}
	ring, err := c.keys()
	if err != nil {
		return Resealed{}, err
	}
	endpoints, err := c.store.List(ctx, "", false)
	if err != nil {
		return Resealed{}, failed(err)
	}
	channels, err := c.channels.List(ctx)
	if err != nil {
		return Resealed{}, failed(err)
	}
	out := Resealed{KeyID: ring.KeyIDs()[0], ResealedSet: ResealedSet{Resealed: []string{}},
		Channels: ResealedSet{Resealed: []string{}}}
	for _, e := range endpoints {
		out.add(ctx, e.ID, func(ctx context.Context) (bool, error) { return c.store.Reseal(ctx, ring, e.ID, actor, reason) })
	}
	for _, ch := range channels {
		if ch.Secret != "" {
			out.Channels.add(ctx, ch.Name, func(ctx context.Context) (bool,
				error) {
				return c.resealChannel(ctx, ch.Name, actor, reason)
			})
		}
	}
	return out, nil
}

func (s *ResealedSet) add(ctx context.Context, name string, reseal func(context.Context) (bool, error)) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	changed, err := reseal(ctx)
	switch {
	case err != nil:
		if s.Failed == nil {
			s.Failed = map[string]string{}
		}
		s.Failed[name] = err.Error()
		return
	case changed:
		s.Resealed = append(s.Resealed, name)
	}
	s.Sealed++
}

// errSealedAlready ends an update that has nothing to do.
var errSealedAlready = errors.New("it is sealed under the newest key")

func (c *Control) resealChannel(ctx context.Context, name, actor, reason string) (bool, error) {
	_, err := c.channels.Update(ctx, name, revision.Change{Actor: actor, Action: "resealed", Reason: reason},
		func(ch *channel.Channel) error {
			next, changed, err := ch.Reseal(c.o.Keys)
			if err == nil && !changed {
				err = errSealedAlready
			}
			*ch = next
			return err
		})
	if errors.Is(err, errSealedAlready) {
		return false, nil
	}
	return err == nil, err
}
