package control

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/waybill-dev/waybill/internal/domain/ids"
	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/pkg/envelope"
)

// ChannelSpec makes a channel. Which settings there are depends on Kind: see
// docs/escalation.md.
type ChannelSpec struct {
	Name        string       `json:"name"`
	Kind        channel.Kind `json:"kind"`
	Description string       `json:"description"`
	URL         string       `json:"url"`
	// Secret is the webhook's signing secret (made if left out), the pager's
	// routing key, the chat's URL, the password or the auth token.
	Secret   string   `json:"secret"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	Host     string   `json:"host"`
	Port     int      `json:"port"`
	TLS      string   `json:"tls"`
	Username string   `json:"username"`
	Account  string   `json:"account"`
	Subject  string   `json:"subject"`
	Reason   string   `json:"reason"` // why, for the record. Optional
}

// ChannelPatch changes the settings that are not nil.
type ChannelPatch struct {
	Description *string   `json:"description"`
	URL         *string   `json:"url"`
	Secret      *string   `json:"secret"`
	From        *string   `json:"from"`
	To          *[]string `json:"to"`
	Host        *string   `json:"host"`
	Port        *int      `json:"port"`
	TLS         *string   `json:"tls"`
	Username    *string   `json:"username"`
	Account     *string   `json:"account"`
	Subject     *string   `json:"subject"`
}

func (p ChannelPatch) apply(c *channel.Channel) {
	set(p.Description, &c.Description)
	set(p.URL, &c.URL)
	set(p.From, &c.From)
	set(p.To, &c.To)
	set(p.Host, &c.Host)
	set(p.Port, &c.Port)
	set(p.TLS, &c.TLS)
	set(p.Username, &c.Username)
	set(p.Account, &c.Account)
	set(p.Subject, &c.Subject)
	if p.Secret != nil {
		c.Secret = channel.Secret(*p.Secret)
	}
}

// Channel is a channel as people are shown it: without its secret.
type Channel struct {
	channel.Channel
	Address   string `json:"address"`    // where it sends
	HasSecret bool   `json:"has_secret"` // it is stored, and not shown
}

func showChannel(c channel.Channel) Channel {
	return Channel{c.Redacted(), c.Address(), c.Secret != ""}
}

// CreatedChannel is a channel with the signing secret that was made for it.
type CreatedChannel struct {
	Channel
	// NewSecret is shown this once. Empty: the caller brought its own.
	NewSecret string `json:"new_secret,omitempty"`
}

// CreateChannel makes a channel. A webhook without a secret gets one.
func (c *Control) CreateChannel(ctx context.Context, s ChannelSpec, actor string) (CreatedChannel, error) {
	if err := errors.Join(checkActor(actor), checkReason(s.Reason, false), checkDescription(&s.Description)); err != nil {
		return CreatedChannel{}, rejected(err)
	}
	made := ""
	if s.Kind == channel.Webhook && s.Secret == "" {
		key, err := envelope.GenerateHMAC(rand.Reader)
		if err != nil {
			return CreatedChannel{}, failed(err)
		}
		made = key.Reveal()
		s.Secret = made
	}
	ch := sender.WithDefaults(channel.Channel{Name: s.Name, Kind: s.Kind, Description: s.Description, URL: s.URL,
		Secret: channel.Secret(s.Secret), From: s.From, To: s.To,
		Host: s.Host, Port: s.Port, TLS: s.TLS, Username: s.Username, Account: s.Account, Subject: s.Subject})
	if err := sender.Validate(ch, c.o.Egress); err != nil {
		return CreatedChannel{}, rejected(err)
	}
	ch, err := c.seal(ch)
	if err != nil {
		return CreatedChannel{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ch, err = c.channels.Create(ctx, ch.Name, ch, revision.Change{Actor: actor, Action: "created", Reason: s.Reason})
	if err != nil {
		return CreatedChannel{}, failed(err)
	}
	return CreatedChannel{showChannel(ch), made}, nil
}

// seal makes a channel ready to be stored.
func (c *Control) seal(ch channel.Channel) (channel.Channel, error) {
	if ch.Secret == "" {
		return ch, nil
	}
	if c.o.Keys == nil {
		return ch, failure(CodeNoKey, "a channel's secret is stored encrypted, and no secrets key was given; say where it "+
			"is with --secrets-key-file")
	}
	return ch.Seal(c.o.Keys), nil
}

// Channels lists the channels, by name.
func (c *Control) Channels(ctx context.Context) ([]Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.channels.List(ctx)
	if err != nil {
		return nil, failed(err)
	}
	out := make([]Channel, len(list))
	for i, ch := range list {
		out[i] = showChannel(ch)
	}
	return out, nil
}

// Channel returns one channel.
func (c *Control) Channel(ctx context.Context, name string) (Channel, error) {
	ch, err := c.channel(ctx, name)
	return showChannel(ch), err
}

func (c *Control) channel(ctx context.Context, name string) (channel.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ch, err := c.channels.Get(ctx, name)
	return ch, failed(err)
}

// UpdateChannel changes what the patch names; it takes effect at the next try.
func (c *Control) UpdateChannel(ctx context.Context, name string, p ChannelPatch, actor, reason string) (Channel,
	error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false), checkDescription(p.Description)); err != nil {
		return Channel{}, rejected(err)
	}
	if p == (ChannelPatch{}) {
		return Channel{}, failure(CodeInvalid, "the change is empty; name at least one setting")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	ch, err := c.channels.Update(ctx, name, revision.Change{Actor: actor, Action: "updated", Reason: reason},
		func(ch *channel.Channel) error {
			to := ch.Destination()
			p.apply(ch)
			if err := sender.Validate(*ch, c.o.Egress); err != nil {
				return rejected(err)
			}
			if p.Secret != nil {
				*ch, err = c.seal(*ch)
				return err
			}
			if ch.Destination() != to && ch.Secret != "" {
				return invalid("secret", "missing; a channel that is to send somewhere else needs its secret again, so that "+
					"nobody can have it sent to an address of their own")
			}
			return nil
		})
	if err != nil {
		return Channel{}, failed(err)
	}
	return showChannel(ch), nil
}

// DeleteChannel ends a channel. One that a policy names is refused: its step
// would tell nobody.
func (c *Control) DeleteChannel(ctx context.Context, name, actor, reason string) (Channel, error) {
	if err := errors.Join(checkActor(actor), checkReason(reason, false)); err != nil {
		return Channel{}, rejected(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	policies, err := c.policies.List(ctx)
	if err != nil {
		return Channel{}, failed(err)
	}
	for _, p := range policies {
		if slices.Contains(p.ChannelNames(), name) {
			return Channel{}, failure(CodeConflict, "channel %s is named by escalation policy %s; delete or replace that "+
				"first: waybill escalation-policy delete %s", name, p.Name, p.Name)
		}
	}
	ch, err := c.channels.Delete(ctx, name, actor, reason)
	if err != nil {
		return Channel{}, failed(err)
	}
	return showChannel(ch), nil
}

// ChannelTest is what came of a test message.
type ChannelTest struct {
	Channel    string          `json:"channel"`
	MessageID  string          `json:"message_id"`
	Told       bool            `json:"told"`
	Outcome    outcome.Outcome `json:"outcome"`
	Class      outcome.Class   `json:"class"`
	Status     int             `json:"status,omitempty"`
	Error      string          `json:"error,omitempty"`
	DurationUS int64           `json:"duration_us"`
}

// TestChannel sends a test message from here, as the escalator would, and puts
// it on record.
func (c *Control) TestChannel(ctx context.Context, name, actor string) (ChannelTest, error) {
	if err := checkActor(actor); err != nil {
		return ChannelTest{}, err
	}
	ch, err := c.channel(ctx, name)
	if err != nil {
		return ChannelTest{}, err
	}
	if ch, err = ch.Open(c.o.Keys); err != nil {
		return ChannelTest{}, failed(err)
	}
	now := c.o.Now().UTC()
	m := channel.Message{ID: ids.New("msg_", now), Action: channel.Test, Title: "A test of the Waybill channel " + ch.Name,
		At: now, Try: 1, Source: "waybill",
		Text: "Sent by " + actor + " to see that messages arrive here.\nNothing has happened, and nothing needs to be done.\n"}
	m.Key = m.ID
	r := c.sender.Send(ctx, ch, m)
	if r.Told() && ch.Kind == channel.PagerDuty {
		closing := m
		closing.Action = channel.Resolve // a test must not stay open
		_ = c.sender.Send(ctx, ch, closing)
	}
	err = c.putOnRecord(ctx, record.Record{ID: string(record.OperatorAction) + "/channel.tested/" + m.ID,
		Kind: record.OperatorAction, At: now, Tenant: allTenants,
		Actor: actor, Action: "channel.tested", Channel: ch.Name, ChannelKind: string(ch.Kind), Revision: ch.Revision,
		MessageID: m.ID, URL: ch.Address(),
		StartedAt: r.StartedAt, DurationUS: r.Duration.Microseconds(), Status: r.Status, Outcome: string(r.Outcome),
		Class: string(r.Class), Error: r.Error})
	return ChannelTest{ch.Name, m.ID, r.Told(), r.Outcome, r.Class, r.Status, r.Error, r.Duration.Microseconds()}, err
}

// allTenants stands on the record of what is not of one tenant.
const allTenants = "all"

// putOnRecord publishes a record of what a person did here.
func (c *Control) putOnRecord(ctx context.Context, r record.Record) error {
	m, err := r.Message()
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if _, err := c.js.PublishMsg(ctx, m); err != nil {
		return failed(err)
	}
	return nil
}
