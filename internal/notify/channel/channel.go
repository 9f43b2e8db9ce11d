// Package channel tells people: it sends one message through a webhook, a
// pager, a chat, an e-mail, a text message or a NATS subject, and says what
// came of it. It keeps no state and decides nothing about when to send.
package channel

import (
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
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

// Kinds in the order of the documents.
func Kinds() []Kind { return []Kind{Webhook, PagerDuty, Slack, Email, SMS, NATS} }

// How an e-mail channel encrypts. There is no other way.
const (
	StartTLS    = "starttls" // port 587
	ImplicitTLS = "implicit" // port 465
)

// Default base URLs.
const (
	PagerDutyURL = "https://events.pagerduty.com"
	TwilioURL    = "https://api.twilio.com"
)

const (
	maxName        = 64
	maxDescription = 500
	maxRecipients  = 50
	maxField       = 500
)

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

// WithDefaults fills what may be left out.
func (c Channel) WithDefaults() Channel {
	switch c.Kind {
	case PagerDuty:
		c.URL = orElse(c.URL, PagerDutyURL)
	case SMS:
		c.URL = orElse(c.URL, TwilioURL)
	case Email:
		c.TLS = orElse(c.TLS, StartTLS)
		if c.Port == 0 {
			c.Port = map[string]int{StartTLS: 587, ImplicitTLS: 465}[c.TLS]
		}
	}
	return c
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// FieldError says which setting is wrong.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// ValidateName checks the name of a channel or a policy.
func ValidateName(s string) error {
	if s == "" || len(s) > maxName || strings.Trim(s,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return wrong("name", "%.80q; want 1 to %d letters, digits, - and _", s, maxName)
	}
	return nil
}

// Validate says which setting is wrong, the first one only. Whether an address
// may be called is checked again at each connection. A sealed secret was
// checked before it was sealed.
func (c Channel) Validate(policy egress.Policy) error {
	if err := ValidateName(c.Name); err != nil {
		return err
	}
	if len(c.Description) > maxDescription {
		return wrong("description", "at most %d bytes", maxDescription)
	}
	if err := c.unused(); err != nil {
		return err
	}
	switch c.Kind {
	case Webhook:
		if _, err := envelope.ParseSecretFor(envelope.SchemeHMAC, string(c.Secret)); err != nil && !c.Sealed() {
			return wrong("secret", "want a signing secret, whsec_ and base64 of 24 to 64 bytes")
		}
		return checkURL(policy, "url", c.URL)
	case PagerDuty:
		if !routingKey.MatchString(string(c.Secret)) && !c.Sealed() {
			return wrong("secret", "want the routing key of an Events API v2 integration, 32 letters and digits")
		}
		return checkURL(policy, "url", c.URL)
	case Slack:
		if c.Sealed() {
			return nil
		}
		return checkURL(policy, "secret", string(c.Secret))
	case Email:
		return c.validateEmail()
	case SMS:
		return c.validateSMS(policy)
	case NATS:
		return validateSubject(c.Subject)
	}
	return wrong("kind", "%.40q; want webhook, pagerduty, slack, email, sms or nats", string(c.Kind))
}

var (
	routingKey = regexp.MustCompile(`^[A-Za-z0-9]{32}$`)
	accountSID = regexp.MustCompile(`^[A-Za-z0-9]{2,64}$`)
	phone      = regexp.MustCompile(`^\+[1-9][0-9]{5,14}$`)
	smsSender  = regexp.MustCompile(`^(\+[1-9][0-9]{5,14}|[A-Za-z0-9 ]{1,11}|MG[0-9a-fA-F]{32})$`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$|^[0-9a-fA-F:]+$`)
)

// unused refuses settings that the kind does not have: a misplaced one would be
// believed to work.
func (c Channel) unused() error {
	for _, s := range []struct {
		field string
		set   bool
		kinds []Kind
	}{
		{"url", c.URL != "", []Kind{Webhook, PagerDuty, SMS}},
		{"secret", c.Secret != "", []Kind{Webhook, PagerDuty, Slack, Email, SMS}},
		{"from", c.From != "", []Kind{Email, SMS}}, {"to", len(c.To) > 0, []Kind{Email, SMS}},
		{"host", c.Host != "", []Kind{Email}}, {"port", c.Port != 0, []Kind{Email}}, {"tls", c.TLS != "", []Kind{Email}},
		{"username", c.Username != "", []Kind{Email}}, {"account", c.Account != "", []Kind{SMS}},
		{"subject", c.Subject != "", []Kind{NATS}},
	} {
		if !s.set {
			continue
		}
		known := false
		for _, k := range s.kinds {
			known = known || k == c.Kind
		}
		if !known && c.known() {
			return wrong(s.field, "a channel of kind %s has no such setting; leave it out", c.Kind)
		}
	}
	return nil
}

func (c Channel) known() bool {
	for _, k := range Kinds() {
		if k == c.Kind {
			return true
		}
	}
	return false
}

func checkURL(policy egress.Policy, field, raw string) error {
	if raw == "" {
		return wrong(field, "missing; want an address such as https://example.com/hook")
	}
	if err := policy.CheckURL(raw); err != nil {
		// The parser quotes no path, which may be a secret, but names the field "url".
		return wrong(field, "%s", strings.TrimPrefix(err.Error(), "url: "))
	}
	return nil
}

func (c Channel) validateEmail() error {
	switch {
	case !hostName.MatchString(c.Host):
		return wrong("host", "%.80q; want the name of the SMTP server, such as smtp.example.com", c.Host)
	case c.TLS != StartTLS && c.TLS != ImplicitTLS:
		return wrong("tls", "%.40q; want %s or %s: mail never goes unencrypted", c.TLS, StartTLS, ImplicitTLS)
	case c.Port < 1 || c.Port > 65535:
		return wrong("port", "%d; want 1 to 65535", c.Port)
	case (c.Username == "") != (c.Secret == ""):
		return wrong("secret", "username and password go together: give both or neither")
	case len(c.Username) > maxField || len(c.Secret) > maxField && !c.Sealed():
		return wrong("username", "at most %d bytes, and the password too", maxField)
	case len(c.To) == 0 || len(c.To) > maxRecipients:
		return wrong("to", "want 1 to %d addresses, got %d", maxRecipients, len(c.To))
	}
	if err := checkMailbox("from", c.From); err != nil {
		return err
	}
	for _, to := range c.To {
		if err := checkMailbox("to", to); err != nil {
			return err
		}
	}
	return nil
}

func checkMailbox(field, s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 {
		return wrong(field, "%.80q is not a plain e-mail address, such as oncall@example.com", s)
	}
	return nil
}

func (c Channel) validateSMS(policy egress.Policy) error {
	switch {
	case !accountSID.MatchString(c.Account):
		return wrong("account", "%.80q; want the account's SID, such as AC0123…", c.Account)
	case c.Secret == "" || len(c.Secret) > maxField && !c.Sealed():
		return wrong("secret", "missing, or too long; want the account's auth token")
	case !smsSender.MatchString(c.From):
		return wrong("from", "%.40q; want a number such as +15005550006, a sender's name of up to 11 letters, or a "+
			"messaging service MG…", c.From)
	case len(c.To) != 1 || !phone.MatchString(c.To[0]):
		return wrong("to", "want exactly one number, such as +15005550009; make a channel for each person")
	}
	return checkURL(policy, "url", c.URL)
}

func validateSubject(s string) error {
	if s == "" || len(s) > 200 || strings.ContainsAny(s, " \t\r\n*>") || strings.HasPrefix(s, ".") ||
		strings.HasSuffix(s, ".") || strings.Contains(s, "..") {
		return wrong("subject", "%.80q; want a NATS subject without wildcards, such as oncall.waybill", s)
	}
	if streams.Ours(s) {
		return wrong("subject", "%s belongs to Waybill or the server; choose one outside, such as oncall.waybill", s)
	}
	return nil
}

// Address is where the channel sends, as it may be shown and put on record:
// never a path or user that may be a secret.
func (c Channel) Address() string {
	switch c.Kind {
	case Email:
		return fmt.Sprintf("smtp://%s:%d", c.Host, c.Port)
	case NATS:
		return "nats:" + c.Subject
	}
	raw := c.URL
	if c.Kind == Slack {
		if c.Sealed() {
			return c.Origin
		}
		raw = string(c.Secret)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// Resolves says whether the channel keeps something open that a Resolve message
// closes, or shows one beside what it follows.
func (c Channel) Resolves() bool {
	return c.Kind == PagerDuty || c.Kind == Webhook || c.Kind == Slack || c.Kind == NATS
}
