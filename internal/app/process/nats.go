package process

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/waybill-dev/waybill/internal/platform/logevent"
)

// connectPause is the pause between tries to reach NATS at start.
const connectPause = 500 * time.Millisecond

// ConnectNATS connects to urls ("nats://host:port[,…]"), trying for at most
// patience. Once connected, the connection heals itself for as long as it is
// open. extra options come last and win.
func ConnectNATS(ctx context.Context, urls, name, credentials string, patience time.Duration, log zerolog.Logger,
	extra ...nats.Option) (*nats.Conn, error) {
	shown, err := withoutPasswords(urls)
	if err != nil {
		return nil, err
	}
	options := []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		// Without a handler, a refused permission would show up as a timeout only.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription,
			err error) {
			log.Error().Err(err).Msg(logevent.NATSError)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: we closed it
				log.Warn().Err(err).Msg(logevent.NATSDisconnected)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			log.Info().Str("url",
				c.ConnectedUrlRedacted()).Msg(logevent.NATSReconnected)
		}),
	}
	if credentials != "" {
		options = append(options, nats.UserCredentials(credentials))
	}
	options = append(options, extra...)
	deadline := time.Now().Add(patience)
	for {
		nc, err := nats.Connect(urls, options...)
		if err == nil {
			return nc, nil
		}
		if errors.Is(err, nats.ErrAuthorization) || time.Now().After(deadline) {
			return nil, fmt.Errorf("cannot connect to NATS at %s: %w; is it running, and is --nats-url right?", shown, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connecting to NATS at %s: %w", shown, ctx.Err())
		case <-time.After(connectPause):
		}
	}
}

// withoutPasswords makes server URLs fit for an error.
func withoutPasswords(urls string) (string, error) {
	var out []string
	for s := range strings.SplitSeq(urls, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return "", Usagef("--nats-url: not a list of URLs such as nats://127.0.0.1:4222,nats://127.0.0.1:4223")
		}
		if _, ok := u.User.Password(); u.User != nil && !ok {
			u.User = url.User("xxxxx") // a token
		}
		out = append(out, u.Redacted())
	}
	return strings.Join(out, ","), nil
}

// Connected is a readiness check of nc.
func Connected(nc *nats.Conn) func(context.Context) error {
	return func(context.Context) error {
		if s := nc.Status(); s != nats.CONNECTED {
			return fmt.Errorf("NATS is %s", s)
		}
		return nil
	}
}
