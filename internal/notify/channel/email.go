package channel

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"strings"
	"sync"

	"github.com/wneessen/go-mail"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
)

// maxSubjectLine keeps the title on one line of a mail program's list.
const maxSubjectLine = 150

// sendEmail sends one message to all receivers in one SMTP transaction, over
// TLS that is verified, or not at all.
func (s *Sender) sendEmail(ctx context.Context, c Channel, m Message) Result {
	msg, err := newMail(c, m)
	if err != nil {
		return misconfigured(err.Error())
	}
	var conns connections
	defer conns.close()
	options := []mail.Option{
		mail.WithPort(c.Port), mail.WithTimeout(s.o.Timeout), mail.WithTLSPolicy(mail.TLSMandatory),
		mail.WithTLSConfig(tlsConfig(s.o.RootCAs, c.Host)), mail.WithDialContextFunc(conns.keep(s.smtpDial(c))),
	}
	if c.TLS == ImplicitTLS {
		options = append(options, mail.WithSSL())
	}
	if c.Username != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthPlain), mail.WithUsername(c.Username),
			mail.WithPassword(string(c.Secret)))
	}
	client, err := mail.NewClient(c.Host, options...)
	if err != nil {
		return misconfigured(err.Error())
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
		return Result{Class: outcome.ClassDelivered, Outcome: outcome.Delivered, Status: 250}
	}
	return mailFailure(err)
}

func newMail(c Channel, m Message) (*mail.Msg, error) {
	msg := mail.NewMsg()
	if err := msg.From(c.From); err != nil {
		return nil, err
	}
	if err := msg.To(c.To...); err != nil {
		return nil, err
	}
	domain := c.From[strings.LastIndexByte(c.From, '@')+1:]
	msg.SetMessageIDWithValue(m.ID + "@" + domain) // the same on each try: mail programs show it once
	msg.SetDateWithValue(m.At)
	msg.Subject(clip(m.Title, maxSubjectLine))
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Key != "" {
		msg.SetGenHeader("References", "<"+m.Key+"@"+domain+">") // one thread for one incident
	}
	text := m.Text
	if m.Link != "" {
		text += "\n\n" + m.Link
	}
	msg.SetBodyString(mail.TypeTextPlain, text+"\n")
	return msg, nil
}

// smtpDial connects under the egress policy, with TLS from the first byte where
// the channel says so.
func (s *Sender) smtpDial(c Channel) mail.DialContextFunc {
	if c.TLS != ImplicitTLS {
		return mail.DialContextFunc(s.dialMail)
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := s.dialMail(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, tlsConfig(s.o.RootCAs, c.Host))
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

func (c *connections) keep(dial mail.DialContextFunc) mail.DialContextFunc {
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
func mailFailure(err error) Result {
	r := failure(err)
	var sent *mail.SendError
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
