// Package email tells people by mail: SMTP over TLS that is verified, or not at all.
package email

import (
	"net/mail"

	gomail "github.com/wneessen/go-mail"

	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"regexp"
	"strings"
	"sync"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

const (
	maxRecipients = 50
	// maxSubjectLine keeps the title on one line of a mail program's list.
	maxSubjectLine = 150
)

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$|^[0-9a-fA-F:]+$`)

// Driver sends through channels of this kind.
type Driver struct{}

// Kind implements channel.Driver, as what follows does.
func (Driver) Kind() channel.Kind { return channel.Email }

// Settings of the kind.
func (Driver) Settings() []string {
	return []string{"secret", "from", "to", "host", "port", "tls", "username"}
}

// WithDefaults fills what may be left out.
func (Driver) WithDefaults(c channel.Channel) channel.Channel {
	c.TLS = cmp.Or(c.TLS, channel.StartTLS)
	if c.Port == 0 {
		c.Port = map[string]int{channel.StartTLS: 587, channel.ImplicitTLS: 465}[c.TLS]
	}
	return c
}

// Validate says which setting is wrong.
func (Driver) Validate(c channel.Channel, _ egress.Policy) error {
	switch {
	case !hostName.MatchString(c.Host):
		return channel.Wrong("host", "%.80q; want the name of the SMTP server, such as smtp.example.com", c.Host)
	case c.TLS != channel.StartTLS && c.TLS != channel.ImplicitTLS:
		return channel.Wrong("tls", "%.40q; want %s or %s: mail never goes unencrypted", c.TLS, channel.StartTLS,
			channel.ImplicitTLS)
	case c.Port < 1 || c.Port > 65535:
		return channel.Wrong("port", "%d; want 1 to 65535", c.Port)
	case (c.Username == "") != (c.Secret == ""):
		return channel.Wrong("secret", "username and password go together: give both or neither")
	case len(c.Username) > channel.MaxField || len(c.Secret) > channel.MaxField && !c.Sealed():
		return channel.Wrong("username", "at most %d bytes, and the password too", channel.MaxField)
	case len(c.To) == 0 || len(c.To) > maxRecipients:
		return channel.Wrong("to", "want 1 to %d addresses, got %d", maxRecipients, len(c.To))
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

// Resolves says whether a Resolve message is worth sending.
func (Driver) Resolves() bool { return false }

// Notify sends one message to all receivers in one SMTP transaction.
func (Driver) Notify(ctx context.Context, way *channel.Way, c channel.Channel, m channel.Message) channel.Result {
	msg, err := newMail(c, m)
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	var conns connections
	defer conns.close()
	options := []gomail.Option{
		gomail.WithPort(c.Port), gomail.WithTimeout(way.Timeout), gomail.WithTLSPolicy(gomail.TLSMandatory),
		gomail.WithTLSConfig(way.TLS(c.Host)), gomail.WithDialContextFunc(conns.keep(dial(way, c))),
	}
	if c.TLS == channel.ImplicitTLS {
		options = append(options, gomail.WithSSL())
	}
	if c.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthPlain), gomail.WithUsername(c.Username),
			gomail.WithPassword(string(c.Secret)))
	}
	client, err := gomail.NewClient(c.Host, options...)
	if err != nil {
		return channel.Misconfigured(err.Error())
	}
	// The library looks at its own timeout only; ctx may end sooner. Closing the
	// connection then ends what the library still does.
	done := make(chan error, 1)
	go func() { done <- client.DialAndSendWithContext(ctx, msg) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		return channel.Result{Class: outcome.ClassDelivered, Outcome: outcome.Delivered, Status: 250}
	}
	return mailFailure(err)
}

func checkMailbox(field, s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 {
		return channel.Wrong(field, "%.80q is not a plain e-mail address, such as oncall@example.com", s)
	}
	return nil
}

func newMail(c channel.Channel, m channel.Message) (*gomail.Msg, error) {
	msg := gomail.NewMsg()
	if err := msg.From(c.From); err != nil {
		return nil, err
	}
	if err := msg.To(c.To...); err != nil {
		return nil, err
	}
	domain := c.From[strings.LastIndexByte(c.From, '@')+1:]
	msg.SetMessageIDWithValue(m.ID + "@" + domain) // the same on each try: mail programs show it once
	msg.SetDateWithValue(m.At)
	msg.Subject(channel.Clip(m.Title, maxSubjectLine))
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Key != "" {
		msg.SetGenHeader("References", "<"+m.Key+"@"+domain+">") // one thread for one incident
	}
	text := m.Text
	if m.Link != "" {
		text += "\n\n" + m.Link
	}
	msg.SetBodyString(gomail.TypeTextPlain, text+"\n")
	return msg, nil
}

// dial connects under the egress policy, with TLS from the first byte where
// the channel says so.
func dial(way *channel.Way, c channel.Channel) gomail.DialContextFunc {
	if c.TLS != channel.ImplicitTLS {
		return gomail.DialContextFunc(way.Dial)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := way.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, way.TLS(c.Host))
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return conn, nil
	}
}

// connections are those of one try: the library leaves one open when it fails.
type connections struct {
	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func (c *connections) keep(dial gomail.DialContextFunc) gomail.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		c.open = append(c.open, conn)
		return conn, nil
	}
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.open {
		_ = conn.Close()
	}
}

// mailFailure sorts an SMTP error: 4xx may pass, 5xx does not.
func mailFailure(err error) channel.Result {
	r := channel.Failed(err)
	var sent *gomail.SendError
	var reply *textproto.Error
	switch {
	case errors.As(err, &sent):
		r.Status = sent.ErrorCode()
	case errors.As(err, &reply):
		r.Status = reply.Code
	}
	switch {
	case r.Outcome == outcome.Timeout || r.Outcome == outcome.AddressBlocked || r.Outcome == outcome.TLSFailed:
	case r.Status >= 500:
		r.Class, r.Outcome = outcome.ClassTerminal, outcome.Rejected
	case r.Status >= 400:
		r.Class, r.Outcome = outcome.ClassRetryable, outcome.Busy
	case strings.Contains(err.Error(), "STARTTLS"):
		r.Class, r.Outcome = outcome.ClassTerminal, outcome.TLSFailed
	}
	return r
}
