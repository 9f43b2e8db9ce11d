// Package control is what operators can do: with endpoints and event types,
// events, deliveries, replays and dead letters, channels, escalation policies
// and incidents. The HTTP API and the command line are two faces of it.
//
// What it changes is one message or one key each, so an action happened whole
// or not at all. Who did it and why is part of that message: the stages that
// carry it out put it on record.
package control

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-dev/waybill/internal/events/eventlog"
	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/redact"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
	"github.com/waybill-dev/waybill/internal/platform/text"
	"github.com/waybill-dev/waybill/internal/platform/version"
	"github.com/waybill-dev/waybill/internal/registry"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/streams"
)

// requestTimeout bounds one request to NATS on an operator's behalf.
const requestTimeout = 5 * time.Second

// Options of New.
type Options struct {
	NC *nats.Conn
	// Ledger answers questions about the past. Optional: without it what needs
	// it fails with CodeNoLedger.
	Ledger Ledger
	// Egress MUST be the dispatchers' policy: an endpoint that could never be
	// called is refused.
	Egress egress.Policy
	// Proxy and ProxyNames are the escalators', for channels that are tested. Optional.
	Proxy      *egress.Proxy
	ProxyNames bool
	// Keys seal what endpoints and channels keep secret. Optional: without them what needs
	// one fails with CodeNoKey.
	Keys *sealed.Keyring
	// RootCAs verify the servers of channels that are tested, instead of the
	// system's. Optional.
	RootCAs *x509.CertPool
	// Redact says what of the words of channels that are tested goes on record.
	// Optional: redact.Default.
	Redact *redact.Redactor
	// MaxEventBytes bounds one event. Optional: envelope.MaxEventBytes.
	MaxEventBytes int
	// AckTimeout bounds the wait for one acknowledgement. Optional: eventlog.DefaultAckTimeout.
	AckTimeout time.Duration
	// Now is the clock. Optional: time.Now.
	Now func() time.Time
}

// Control acts for operators. It is safe for concurrent use.
type Control struct {
	o     Options
	js    jetstream.JetStream
	store *registry.Store
	log   *eventlog.Log

	channels  *revision.Store[channel.Channel]
	policies  *revision.Store[escalation.Policy]
	incidents jetstream.KeyValue
	sender    *sender.Sender
}

// New binds to the streams, which must be there.
func New(ctx context.Context, o Options) (*Control, error) {
	if o.NC == nil {
		return nil, fmt.Errorf("control: no connection to NATS")
	}
	if o.MaxEventBytes == 0 {
		o.MaxEventBytes = envelope.MaxEventBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	js, err := jetstream.New(o.NC)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	store, err := registry.OpenStore(ctx, js)
	if err != nil {
		return nil, err
	}
	log, err := eventlog.New(o.NC, o.AckTimeout)
	if err != nil {
		return nil, err
	}
	c := &Control{o: o, js: js, store: store, log: log,
		sender: sender.New(sender.Options{Egress: o.Egress, Proxy: o.Proxy, ProxyNames: o.ProxyNames, NC: o.NC,
			RootCAs: o.RootCAs, Redact: o.Redact, Software: version.Software})}
	return c, c.openEscalation(ctx)
}

func (c *Control) openEscalation(ctx context.Context) (err error) {
	if c.channels, err = revision.Open(ctx, c.js, channel.Registry()); err != nil {
		return err
	}
	if c.policies, err = revision.Open(ctx, c.js, escalation.Policies()); err != nil {
		return err
	}
	c.incidents, err = streams.Bucket(ctx, c.js, streams.IncidentsBucket)
	return err
}

const (
	maxActor  = 200
	maxReason = 1000
)

// checkActor keeps an action from going on record without a name.
func checkActor(actor string) error {
	if strings.EqualFold(strings.TrimSpace(actor), registry.ActorWaybill) {
		return invalid("actor", "%q is what Waybill does of itself; say who you are", actor)
	}
	return checkText("actor", "say who does this", actor, maxActor, true)
}

// checkDescription looks at a description that is given; nil: none is.
func checkDescription(s *string) error {
	if s == nil {
		return nil
	}
	return checkText("description", "", *s, maxReason, false)
}

func checkReason(reason string, required bool) error {
	return checkText("reason", "say why; it is part of the record", reason, maxReason, required)
}

func checkText(field, hint, s string, most int, required bool) error {
	switch {
	case strings.TrimSpace(s) == "" && required:
		return invalid(field, "missing; %s", hint)
	case len(s) > most:
		return invalid(field, "%d bytes long; at most %d", len(s), most)
	}
	if wrong := text.Fault(s); wrong != "" {
		return invalid(field, "holds %s, which nobody sees or which changes how the rest is read; use plain text on one line",
			wrong)
	}
	return nil
}
