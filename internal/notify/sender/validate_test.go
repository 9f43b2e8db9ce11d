package sender_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/test/testkit"
)

// valid is a channel of each kind.
func valid() map[channel.Kind]channel.Channel {
	return map[channel.Kind]channel.Channel{
		channel.Webhook:   {Name: "c", Kind: channel.Webhook, URL: "https://example.com/x", Secret: hookSecret},
		channel.PagerDuty: {Name: "c", Kind: channel.PagerDuty, Secret: "0123456789abcdef0123456789abcdef"},
		channel.Slack:     {Name: "c", Kind: channel.Slack, Secret: "https://hooks.slack.com/services/T/B/x"},
		channel.Email: {Name: "c", Kind: channel.Email, Host: "smtp.example.com", From: "a@example.com",
			To: []string{"b@example.com"}},
		channel.SMS: {Name: "c", Kind: channel.SMS, Account: "AC1", Secret: "token-of-the-account", From: "Waybill",
			To: []string{"+15005550009"}},
		channel.NATS: {Name: "c", Kind: channel.NATS, Subject: "oncall.waybill"},
	}
}

func TestAChannelThatCannotWorkIsRefusedWithTheSettingToCorrect(t *testing.T) {
	valid := valid()
	for kind, c := range valid {
		if err := sender.Validate(sender.WithDefaults(c), egress.Policy{}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, c := range []struct {
		kind  channel.Kind
		field string
		alter func(*channel.Channel)
	}{
		{channel.Webhook, "name", func(c *channel.Channel) { c.Name = "a b" }},
		{channel.Webhook, "name", func(c *channel.Channel) { c.Name = "" }},
		{channel.Webhook, "kind", func(c *channel.Channel) { c.Kind = "fax" }},
		{channel.Webhook, "url", func(c *channel.Channel) { c.URL = "" }},
		{channel.Webhook, "url", func(c *channel.Channel) { c.URL = "http://127.0.0.1/" }},
		{channel.Webhook, "url", func(c *channel.Channel) { c.URL = "http://2130706433/" }},
		{channel.Webhook, "secret", func(c *channel.Channel) { c.Secret = "hunter2" }},
		{channel.Webhook, "to", func(c *channel.Channel) { c.To = []string{"x"} }},
		{channel.PagerDuty, "secret", func(c *channel.Channel) { c.Secret = "short" }},
		{channel.Slack, "secret", func(c *channel.Channel) { c.Secret = "" }},
		{channel.Slack, "secret", func(c *channel.Channel) { c.Secret = "ftp://hooks.slack.com/x" }},
		{channel.Slack, "url", func(c *channel.Channel) { c.URL = "https://example.com" }},
		{channel.Email, "host", func(c *channel.Channel) { c.Host = "a b" }},
		{channel.Email, "port", func(c *channel.Channel) { c.Port = 70000 }},
		{channel.Email, "tls", func(c *channel.Channel) { c.TLS = "none" }},
		{channel.Email, "secret", func(c *channel.Channel) { c.Username = "u" }},
		{channel.Email, "from", func(c *channel.Channel) { c.From = "Ann <a@example.com>" }},
		{channel.Email, "to", func(c *channel.Channel) { c.To = nil }},
		{channel.Email, "to", func(c *channel.Channel) { c.To = []string{"a@example.com\r\nBcc: x@y.z"} }},
		{channel.SMS, "account", func(c *channel.Channel) { c.Account = "../x" }},
		{channel.SMS, "secret", func(c *channel.Channel) { c.Secret = "" }},
		{channel.SMS, "to", func(c *channel.Channel) { c.To = []string{"+15005550009", "+15005550010"} }},
		{channel.SMS, "to", func(c *channel.Channel) { c.To = []string{"0900 123"} }},
		{channel.SMS, "from", func(c *channel.Channel) { c.From = "a name that is too long" }},
		{channel.NATS, "subject", func(c *channel.Channel) { c.Subject = "ledger.attempt.default" }},
		{channel.NATS, "subject", func(c *channel.Channel) { c.Subject = "$JS.API.x" }},
		{channel.NATS, "subject", func(c *channel.Channel) { c.Subject = "a.*" }},
		{channel.NATS, "secret", func(c *channel.Channel) { c.Secret = "x" }},
	} {
		ch := valid[c.kind]
		c.alter(&ch)
		err := sender.Validate(sender.WithDefaults(ch), egress.Policy{})
		field, ok := err.(*channel.FieldError)
		if !ok || field.Field != c.field {
			t.Errorf("%s with a wrong %s: %v", c.kind, c.field, err)
			continue
		}
		if ch.Secret != "" && len(ch.Secret) > 5 && strings.Contains(err.Error(), string(ch.Secret)) {
			t.Errorf("the error quotes the secret: %v", err)
		}
	}
}

func TestNoWayOfPrintingAChannelShowsItsSecret(t *testing.T) {
	c := channel.Channel{Name: "c", Kind: channel.Slack, Secret: "https://hooks.slack.com/services/T/B/verysecret"}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprint(c.Secret),
		c.Address()} {
		if strings.Contains(s, "verysecret") {
			t.Errorf("shown: %s", s)
		}
	}
	if b, err := json.Marshal(c.Redacted()); err != nil || strings.Contains(string(b), "verysecret") {
		t.Errorf("shown: %s", b)
	}
}

func TestASealedSecretOpensForItsChannelAndDestinationAlone(t *testing.T) {
	ring, other := testkit.Keys(t), testkit.Keys(t)
	for _, c := range []channel.Channel{
		{Name: "c", Kind: channel.Slack, Secret: "https://hooks.slack.com/services/T/B/verysecret"},
		{Name: "c", Kind: channel.PagerDuty, URL: "https://events.pagerduty.com", Secret: "0123456789abcdef0123456789abcdef"},
		{Name: "c", Kind: channel.Email, Host: "smtp.example.com", Port: 587, TLS: channel.StartTLS, Username: "u",
			Secret: "verysecret", From: "a@example.com", To: []string{"b@example.com"}},
		{Name: "c", Kind: channel.Webhook, URL: "https://example.com/x", Secret: hookSecret},
	} {
		stored := c.Seal(ring)
		if !stored.Sealed() || strings.Contains(string(stored.Secret), string(c.Secret)) || stored.Address() != c.Address() {
			t.Errorf("%s stored as %s, for %q", c.Kind, string(stored.Secret), stored.Address())
		}
		if err := sender.Validate(stored, egress.Policy{}); err != nil {
			t.Errorf("%s: a sealed channel is refused: %v", c.Kind, err)
		}
		if opened, err := stored.Open(ring); err != nil || opened.Secret != c.Secret {
			t.Errorf("%s: %v", c.Kind, err)
		}
		if _, err := stored.Open(other); err == nil {
			t.Errorf("%s opens under another key", c.Kind)
		}
		if _, err := stored.Open(nil); !errors.Is(err, channel.ErrNoKey) {
			t.Errorf("%s: %v", c.Kind, err)
		}
		moved := stored
		moved.Name = "d"
		if _, err := moved.Open(ring); err == nil {
			t.Errorf("%s opens for another channel", c.Kind)
		}
		moved = stored
		moved.URL, moved.Origin, moved.Host = "https://evil.example", "https://evil.example", "evil.example"
		if _, err := moved.Open(ring); (err == nil) != (c.Kind == channel.Webhook) {
			t.Errorf("%s, moved to another address: %v", c.Kind, err)
		}
	}
}
