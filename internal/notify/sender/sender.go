// Package sender sends messages to people through channels, and says what came of
// it. It has the list of the kinds of channels. It keeps no state and decides
// nothing about when to send.
package sender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/channel/email"
	"github.com/waybill-dev/waybill/internal/notify/channel/natssubject"
	"github.com/waybill-dev/waybill/internal/notify/channel/pagerduty"
	"github.com/waybill-dev/waybill/internal/notify/channel/slack"
	"github.com/waybill-dev/waybill/internal/notify/channel/sms"
	"github.com/waybill-dev/waybill/internal/notify/channel/webhook"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// DefaultTimeout bounds one try: a pager's API that takes longer is as good as down.
const DefaultTimeout = 10 * time.Second

// drivers are the kinds, in the order of the documents.
var drivers = []channel.Driver{webhook.Driver{}, pagerduty.Driver{}, slack.Driver{}, email.Driver{}, sms.Driver{},
	natssubject.Driver{}}

// Kinds in the order of the documents.
func Kinds() []channel.Kind {
	var kinds []channel.Kind
	for _, d := range drivers {
		kinds = append(kinds, d.Kind())
	}
	return kinds
}

// KindsText is for errors: "webhook, pagerduty or nats".
func KindsText() string {
	var b strings.Builder
	for i, d := range drivers {
		b.WriteString(string(d.Kind()))
		switch len(drivers) - i {
		case 1:
		case 2:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
	}
	return b.String()
}

// of is the driver of a channel; nil: there is no such kind.
func of(c channel.Channel) channel.Driver {
	for _, d := range drivers {
		if d.Kind() == c.Kind {
			return d
		}
	}
	return nil
}

// WithDefaults fills what may be left out.
func WithDefaults(c channel.Channel) channel.Channel {
	if d := of(c); d != nil {
		return d.WithDefaults(c)
	}
	return c
}

// Resolves says whether the channel keeps something open that a Resolve message
// closes, or shows one beside what it follows.
func Resolves(c channel.Channel) bool {
	d := of(c)
	return d != nil && d.Resolves()
}

const maxDescription = 500

// Validate says which setting is wrong, the first one only, as a channel.FieldError.
// Addresses are those that policy lets us call.
func Validate(c channel.Channel, policy egress.Policy) error {
	if err := channel.ValidateName(c.Name); err != nil {
		return err
	}
	if len(c.Description) > maxDescription {
		return channel.Wrong("description", "at most %d bytes", maxDescription)
	}
	d := of(c)
	if d == nil {
		return channel.Wrong("kind", "%.40q; want %s", string(c.Kind), KindsText())
	}
	for _, s := range c.Given() {
		if !slices.Contains(d.Settings(), s) {
			return channel.Wrong(s, "a channel of kind %s has no such setting; leave it out", c.Kind)
		}
	}
	return d.Validate(c, policy)
}

// Options of New. Every field is optional, but NC for channels of kind nats.
type Options struct {
	// Egress says which addresses may be called besides public ones.
	Egress egress.Policy
	// Proxy is what every connection goes through, mail's too; nil: none.
	Proxy *egress.Proxy
	// ProxyNames gives the proxy names instead of checked addresses.
	ProxyNames bool
	NC         *nats.Conn
	// RootCAs verify servers instead of the system's. They are always verified.
	RootCAs *x509.CertPool
	// Timeout bounds one try. Default: DefaultTimeout.
	Timeout time.Duration
	// Redact says what of a server's words may be shown. Default: redact.Default.
	Redact *redact.Redactor
	// Software is the User-Agent.
	Software string
}

// Sender sends through channels. Safe for concurrent use.
type Sender struct {
	o   Options
	way channel.Way
}

// New makes a sender. Close it when it is no longer used.
func New(o Options) *Sender {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Redact == nil {
		o.Redact = redact.Default()
	}
	if o.Software == "" {
		o.Software = "Waybill"
	}
	d := &net.Dialer{Timeout: o.Timeout, ControlContext: o.Egress.ControlContext}
	t := &http.Transport{DialContext: o.through(d.DialContext, false), TLSClientConfig: tlsConfig(o.RootCAs, ""),
		TLSHandshakeTimeout: o.Timeout,
		ForceAttemptHTTP2:   true, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10}
	return &Sender{o, channel.Way{Dial: o.through(d.DialContext, true), NC: o.NC, Timeout: o.Timeout, Software: o.Software,
		TLS: func(name string) *tls.Config { return tlsConfig(o.RootCAs, name) },
		HTTP: &http.Client{Transport: t,
			// A redirect would carry what we say to an address that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}}
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// through makes connections through the proxy, if there is one.
func (o Options) through(direct dial, serverFirst bool) dial {
	if o.Proxy == nil {
		return direct
	}
	t := egress.Tunnel{Policy: o.Egress, Proxy: *o.Proxy, ByName: o.ProxyNames, TLS: tlsConfig(o.RootCAs, ""),
		Dial: direct, ServerFirst: serverFirst}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		// net/http does not end a dial with the request that asked for it.
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		return t.DialContext(ctx, network, address)
	}
}

func tlsConfig(roots *x509.CertPool, name string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: name}
}

// Close frees idle connections.
func (s *Sender) Close() { s.way.HTTP.CloseIdleConnections() }

// Send makes one try. It returns within the sender's timeout, or when ctx ends.
func (s *Sender) Send(ctx context.Context, c channel.Channel, m channel.Message) channel.Result {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	began := time.Now()
	r := channel.Misconfigured("no such kind of channel: " + string(c.Kind))
	if d := of(c); d != nil {
		r = d.Notify(ctx, &s.way, c, m)
	}
	r.StartedAt, r.Duration = began.UTC(), time.Since(began)
	r.Error = s.safe(r.Error, c)
	return r
}

// safe removes from an error what it MUST NOT show: the channel's secret, and
// what looks like one in a server's own words.
func (s *Sender) safe(text string, c channel.Channel) string {
	if c.Secret != "" {
		text = strings.ReplaceAll(text, string(c.Secret), "[secret]")
	}
	out, _ := s.o.Redact.Redact([]byte(strings.Join(strings.Fields(text), " ")))
	return channel.Clip(strings.ToValidUTF8(string(out), "�"), channel.MaxError)
}
