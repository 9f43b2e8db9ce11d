package channel

import (
	"errors"
	"fmt"

	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// ErrNoKey says that a secret is sealed and this process has no key to open it.
var ErrNoKey = errors.New("its secret is sealed, and no secrets key was given; see --secrets-key-file")

// Sealed says whether the channel's secret is as it is stored.
func (c Channel) Sealed() bool { return sealed.Value(c.Secret).Validate() == nil }

// place is what a channel's secret is sealed for. With the destination in it,
// a secret that is sent somewhere opens for no other place.
func (c Channel) place() sealed.Place {
	p := sealed.Place{Owner: "channel/" + c.Name, Field: string(c.Kind) + ".secret"}
	if c.Kind != Webhook { // its key signs and is never sent
		p.Destination = c.Address()
	}
	return p
}

// Destination is where the secret may be sent; a change of it needs the secret
// again, so that nobody can have it sent to an address of their own.
func (c Channel) Destination() string { return c.place().Destination }

// Seal returns the channel as it may be stored.
func (c Channel) Seal(ring *sealed.Keyring) Channel {
	if c.secretIsAddress() {
		c.Origin = c.Address()
	}
	if c.Secret != "" {
		c.Secret = Secret(ring.Seal(string(c.Secret), c.place()))
	}
	return c
}

// Open returns the channel as it can be used. One whose secret is not sealed is
// returned as it is.
func (c Channel) Open(ring *sealed.Keyring) (Channel, error) {
	if !c.Sealed() {
		return c, nil
	}
	if ring == nil {
		return c, fmt.Errorf("channel %s: %w", c.Name, ErrNoKey)
	}
	plain, err := ring.Open(sealed.Value(c.Secret), c.place())
	if err != nil {
		return c, fmt.Errorf("channel %s: its secret: %w", c.Name, err)
	}
	c.Secret = Secret(plain)
	return c, nil
}

// Reseal returns the channel with its secret under the newest key, and whether
// that changed it. A secret in the clear is sealed too.
func (c Channel) Reseal(ring *sealed.Keyring) (Channel, bool, error) {
	if c.Secret == "" || ring.Newest(sealed.Value(c.Secret)) {
		return c, false, nil
	}
	plain, err := c.Open(ring)
	if err != nil {
		return c, false, err
	}
	return plain.Seal(ring), true, nil
}
