// Package natssubject tells programs on a NATS subject that is not ours.
package natssubject

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/streams"
)

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.NATS }

// Settings of the kind.
func (Driver) Settings() []string { return []string{"subject"} }

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel { return c }

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, _ egress.Policy) error {
	s := c.Subject
	if s == "" || len(s) > 200 || strings.ContainsAny(s, " \t\r\n*>") || strings.HasPrefix(s, ".") ||
		strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return channel.Wrong("subject", "%.80q; want a NATS subject without wildcards, such as oncall.waybill", s)
	}
	if streams.Ours(s) {
		return channel.Wrong("subject", "%s belongs to Waybill or the server; choose one outside, such as oncall.waybill", s)
	}
	return nil
}

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return true }

// Notify publishes the message for programs. Delivered means that the server has
// it: whether somebody listens, NATS does not say.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	if way.NC == nil {
		return channel.Misconfigured("this process has no connection to NATS")
	}
	data, err := m.JSON()
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	body, err := json.Marshal(struct {
		ID       string          `json:"id"`
		Incident string          `json:"incident,omitempty"`
		Action   channel.Action  `json:"action"`
		Title    string          `json:"title"`
		Text     string          `json:"text"`
		Link     string          `json:"link,omitempty"`
		Data     json.RawMessage `json:"data"`
	}{m.ID, m.Key, m.Action, m.Title, m.Text, m.Link, data})
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	if err := way.NC.PublishMsg(&nats.Msg{Subject: c.Subject, Header: nats.Header{nats.MsgIdHdr: {m.ID}},
		Data: body}); err != nil {
		return channel.Failed(err)
	}
	// Without it the message may still be in our own buffer while NATS is away.
	if err := way.NC.FlushWithContext(ctx); err != nil {
		return channel.Failed(err)
	}
	return channel.Result{Class: outcome.ClassDelivered, Outcome: outcome.Delivered}
}
