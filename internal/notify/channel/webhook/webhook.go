// Package webhook tells people by a POST that is signed as Standard Webhooks ask.
package webhook

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.Webhook }

// Settings of the kind.
func (Driver) Settings() []string { return []string{"url", "secret"} }

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel { return c }

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, policy egress.Policy) error {
	if _, err := envelope.ParseSecretFor(envelope.SchemeHMAC, string(c.Secret)); err != nil && !c.Sealed() {
		return channel.Wrong("secret", "want a signing secret, whsec_ and base64 of 24 to 64 bytes")
	}
	return channel.CheckURL(policy, "url", c.URL)
}

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return true }

// Notify makes a request that verifies as every delivery of ours does.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	key, err := envelope.ParseSecretFor(envelope.SchemeHMAC, string(c.Secret))
	if err != nil {
		return channel.Misconfigured("the signing secret cannot be read")
	}
	data, err := m.JSON()
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	event := envelope.Event{ID: m.ID, Type: eventType(m.Action), Timestamp: m.At.UTC(), Data: data}
	body := event.AppendBody(nil, max(m.Try, 1))
	header, err := envelope.Headers([]envelope.Key{key}, "", m.ID, time.Now(), body)
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	return way.Post(ctx, c.URL, header, body)
}

// eventTypes of a webhook, by action.
func eventType(a channel.Action) string {
	switch a {
	case channel.Resolve:
		return "waybill.escalation.acknowledged"
	case channel.Test:
		return "waybill.escalation.test"
	}
	return "waybill.escalation.triggered"
}
