package channel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
)

// DefaultTimeout bounds one try: a pager's API that takes longer is as good as down.
const DefaultTimeout = 10 * time.Second

// Action says what a message does to what was told before.
type Action string

// The actions.
const (
	Trigger Action = "trigger" // somebody must act
	Resolve Action = "resolve" // a named person acts: nobody else has to
	Test    Action = "test"
)

// Message is what people are told. It MUST hold no payload and no secret.
type Message struct {
	// ID is the same on each try, so that a receiver can drop what it had: 1 to
	// 128 characters that are safe in a header.
	ID string
	// Key is the same for everything about one incident: the pager's dedup_key.
	Key    string
	Action Action
	Title  string // one line
	Text   string // plain lines, for people
	Link   string // Optional
	Source string // who says so: a host or installation
	At     time.Time
	Try    int // 1, 2, 3 …
	// Data is the message for programs, as JSON. Optional.
	Data any
}

// Result is what came of one try.
type Result struct {
	Class outcome.Class
	// Outcome is a code: delivered, rejected, busy, timeout, unreachable,
	// tls_failed, address_blocked, misconfigured.
	Outcome    outcome.Outcome
	Status     int    // HTTP or SMTP status; 0 when none came
	Error      string // for people: no secret, no content
	StartedAt  time.Time
	Duration   time.Duration
	RetryAfter time.Duration // the receiver's wish; 0 when it had none
}

// Told says whether the message reached the channel.
func (r Result) Told() bool { return r.Class == outcome.ClassDelivered }

// Options of NewSender. Every field is optional, but NC for channels of kind nats.
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
	o        Options
	dialMail dial
	http     *http.Client
	redact   *redact.Redactor
}

// NewSender makes a sender. Close it when it is no longer used.
func NewSender(o Options) *Sender {
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
	return &Sender{o: o, dialMail: o.through(d.DialContext, true), redact: o.Redact, http: &http.Client{Transport: t,
		// A redirect would carry what we say to an address that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
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
func (s *Sender) Close() { s.http.CloseIdleConnections() }

// Send makes one try. It returns within the sender's timeout, or when ctx ends.
func (s *Sender) Send(ctx context.Context, c Channel, m Message) Result {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	began := time.Now()
	var r Result
	switch c.Kind {
	case Webhook:
		r = s.sendWebhook(ctx, c, m)
	case PagerDuty:
		r = s.sendPagerDuty(ctx, c, m)
	case Slack:
		r = s.sendSlack(ctx, c, m)
	case Email:
		r = s.sendEmail(ctx, c, m)
	case SMS:
		r = s.sendSMS(ctx, c, m)
	case NATS:
		r = s.sendNATS(ctx, c, m)
	default:
		r = misconfigured("no such kind of channel: " + string(c.Kind))
	}
	r.StartedAt, r.Duration = began.UTC(), time.Since(began)
	r.Error = s.safe(r.Error, c)
	return r
}

// maxError bounds what goes on record of an error.
const maxError = 300

// safe removes from an error what it MUST NOT show: the channel's secret, and
// what looks like one in a server's own words.
func (s *Sender) safe(text string, c Channel) string {
	if c.Secret != "" {
		text = strings.ReplaceAll(text, string(c.Secret), "[secret]")
	}
	out, _ := s.redact.Redact([]byte(strings.Join(strings.Fields(text), " ")))
	return clip(strings.ToValidUTF8(string(out), "�"), maxError)
}

// clip bounds a text in bytes, at the end of a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xC0 == 0x80 {
		most--
	}
	return s[:most] + "…"
}

func misconfigured(why string) Result {
	return Result{Class: outcome.ClassTerminal, Outcome: outcome.Misconfigured,
		Error: why + "; change the channel with: waybill channel update"}
}

// failure sorts an error of the network.
func failure(err error) Result {
	r := Result{Class: outcome.ClassRetryable, Outcome: outcome.Unreachable, Error: err.Error()}
	var blocked *egress.BlockedError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &blocked):
		r.Class, r.Outcome = outcome.ClassTerminal, outcome.AddressBlocked
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert):
		r.Outcome = outcome.TLSFailed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		r.Outcome, r.Error = outcome.Timeout, "no answer in time"
	}
	return r
}

// dataOf is the message for programs.
func dataOf(m Message) (json.RawMessage, error) {
	if m.Data == nil {
		return json.Marshal(map[string]string{"title": m.Title, "text": m.Text})
	}
	return json.Marshal(m.Data)
}
