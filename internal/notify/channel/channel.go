// Package channel is a way to reach people: its settings as they are stored, and what
// each kind of channel implements. Each kind has a folder here; package sender has
// the list of them and sends.
package channel

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/streams"
)

// Kind of a channel.
type Kind string

// The kinds. Their names are on record and never change.
const (
	Webhook   Kind = "webhook"   // a POST signed as Standard Webhooks ask
	PagerDuty Kind = "pagerduty" // Events API v2
	Slack     Kind = "slack"     // incoming webhook
	Email     Kind = "email"     // SMTP over TLS
	SMS       Kind = "sms"       // Twilio's REST API, or one like it
	NATS      Kind = "nats"      // a subject that is not ours
)

// How an e-mail channel encrypts. There is no other way.
const (
	StartTLS    = "starttls" // port 587
	ImplicitTLS = "implicit" // port 465
)

// MaxField bounds a setting in bytes where the kind has no bound of its own.
const MaxField = 500

const maxName = 64

// Channel is one way to reach people: a revision of it, whole. Its Name is its
// key. Which fields are used depends on Kind.
type Channel struct {
	Name        string `json:"name"` // letters, digits, - and _
	Kind        Kind   `json:"kind"`
	Description string `json:"description,omitempty"`

	// URL is where a webhook goes, and the base URL of pagerduty and sms.
	URL string `json:"url,omitempty"`
	// Secret is the webhook's signing secret (whsec_…), the pager's routing
	// key, the chat's whole URL, the password of the e-mail account or the auth
	// token of the text message account. It is stored sealed, and never shown.
	Secret Secret `json:"secret,omitempty"`
	// Origin is where the chat's URL leads: its scheme and host alone.
	Origin string `json:"origin,omitempty"`

	From string   `json:"from,omitempty"` // email, sms: the sender
	To   []string `json:"to,omitempty"`   // email: the receivers; sms: the one receiver

	Host     string `json:"host,omitempty"` // email: the SMTP server
	Port     int    `json:"port,omitempty"`
	TLS      string `json:"tls,omitempty"`      // email: StartTLS or ImplicitTLS
	Username string `json:"username,omitempty"` // email: with Secret as the password. Optional
	Account  string `json:"account,omitempty"`  // sms: the account's SID

	Subject string `json:"subject,omitempty"` // nats

	revision.Meta
	Deleted bool `json:"deleted,omitempty"`
}

// Secret is kept out of logs by its String.
type Secret string

// String hides the secret.
func (Secret) String() string { return "channel.Secret(hidden)" }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// Redacted returns the channel without its secret: what people are shown.
func (c Channel) Redacted() Channel {
	c.Secret = ""
	return c
}

// Registry is how channels are kept.
func Registry() revision.Kind[Channel] {
	return revision.Kind[Channel]{Bucket: streams.ChannelsBucket, Name: "channel", See: "waybill channel list",
		Meta:       func(c *Channel) *revision.Meta { return &c.Meta },
		Deleted:    func(c *Channel) bool { return c.Deleted },
		SetDeleted: func(c *Channel, is bool) { c.Deleted = is }}
}

// FieldError says which setting is wrong.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Wrong is a FieldError.
func Wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// ValidateName checks the name of a channel or a policy.
func ValidateName(s string) error {
	if s == "" || len(s) > maxName || strings.Trim(s,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return Wrong("name", "%.80q; want 1 to %d letters, digits, - and _", s, maxName)
	}
	return nil
}

// Given are the settings that are set and that not every kind has, by their names in
// JSON.
func (c Channel) Given() []string {
	var given []string
	for _, s := range []struct {
		name string
		set  bool
	}{{"url", c.URL != ""}, {"secret", c.Secret != ""}, {"from", c.From != ""}, {"to", len(c.To) > 0},
		{"host", c.Host != ""}, {"port", c.Port != 0}, {"tls", c.TLS != ""}, {"username", c.Username != ""},
		{"account", c.Account != ""}, {"subject", c.Subject != ""}} {
		if s.set {
			given = append(given, s.name)
		}
	}
	return given
}

// CheckURL says why a setting is no address that may be called.
func CheckURL(policy egress.Policy, field, raw string) error {
	if raw == "" {
		return Wrong(field, "missing; want an address such as https://example.com/hook")
	}
	if err := policy.CheckURL(raw); err != nil {
		// The parser quotes no path, which may be a secret, but names the field "url".
		return Wrong(field, "%s", strings.TrimPrefix(err.Error(), "url: "))
	}
	return nil
}

// Address is where the channel sends, as it may be shown and put on record:
// never a path or user that may be a secret.
func (c Channel) Address() string {
	raw := c.URL
	switch {
	case c.Host != "":
		return fmt.Sprintf("smtp://%s:%d", c.Host, c.Port)
	case c.Subject != "":
		return "nats:" + c.Subject
	case c.secretIsAddress() && c.Sealed():
		return c.Origin
	case c.secretIsAddress():
		raw = string(c.Secret)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// secretIsAddress says whether the secret is where the channel sends, as a chat's is.
func (c Channel) secretIsAddress() bool { return c.URL == "" && c.Host == "" && c.Subject == "" }
