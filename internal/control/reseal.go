package control

import (
	"context"

	"github.com/waybill-dev/waybill/internal/registry"
)

// Resealed says what Reseal did.
type Resealed struct {
	KeyID    string   `json:"key_id"`   // that seals now
	Resealed []string `json:"resealed"` // endpoints that were not under it
	// Failed are those that could not be: by endpoint, and why.
	Failed map[string]string `json:"failed,omitempty"`
	Sealed int               `json:"sealed"` // endpoints under KeyID, all told
}

// Reseal brings the secrets of every endpoint under the newest key, each as a
// revision on record. What it did is done also when it is cut short: repeat it.
// Afterwards, if nothing failed, older keys can be taken away.
func (c *Control) Reseal(ctx context.Context, actor, reason string) (Resealed, error) {
	if err := checkActor(actor); err != nil {
		return Resealed{}, err
	}
	if err := checkReason(reason, false); err != nil {
		return Resealed{}, err
	}
	ring, err := c.keys()
	if err != nil {
		return Resealed{}, err
	}
	list, err := c.store.List(ctx, "", false)
	if err != nil {
		return Resealed{}, failed(err)
	}
	return c.reseal(ctx, list, Resealed{KeyID: ring.KeyIDs()[0], Resealed: []string{}}, actor, reason), nil
}

func (c *Control) reseal(ctx context.Context, list []registry.Endpoint, out Resealed, actor, reason string) Resealed {
	for _, e := range list {
		one, cancel := context.WithTimeout(ctx, requestTimeout)
		changed, err := c.store.Reseal(one, c.o.Keys, e.ID, actor, reason)
		cancel()
		switch {
		case err != nil:
			if out.Failed == nil {
				out.Failed = map[string]string{}
			}
			out.Failed[e.ID] = err.Error()
			continue
		case changed:
			out.Resealed = append(out.Resealed, e.ID)
		}
		out.Sealed++
	}
	return out
}
