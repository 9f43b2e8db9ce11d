package sender_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
)

// What holds for each kind of channel, also for the next one.
func TestEachKind(t *testing.T) {
	examples := valid()
	for _, kind := range sender.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			c, ok := examples[kind]
			if !ok {
				t.Fatal("no example of it among those of valid()")
			}
			t.Run("settings of others are refused", func(t *testing.T) { onlyItsSettings(t, c) })
			t.Run("its address is shown without secret", func(t *testing.T) {
				shown := sender.WithDefaults(c).Address()
				if shown == "" || c.Secret != "" && strings.Contains(shown, string(c.Secret)) {
					t.Errorf("the address is shown as %q", shown)
				}
			})
			if kind != channel.NATS { // it goes where Waybill's own connection goes
				t.Run("an address that is not public is not called", func(t *testing.T) { notCalled(t, c) })
				t.Run("a server that hangs costs a timeout", func(t *testing.T) { timesOut(t, c) })
			}
		})
	}
}

func onlyItsSettings(t *testing.T, c channel.Channel) {
	all := map[string]func(*channel.Channel){
		"url":      func(c *channel.Channel) { c.URL = "https://example.com" },
		"secret":   func(c *channel.Channel) { c.Secret = "x" },
		"from":     func(c *channel.Channel) { c.From = "x" },
		"to":       func(c *channel.Channel) { c.To = []string{"x"} },
		"host":     func(c *channel.Channel) { c.Host = "x" },
		"port":     func(c *channel.Channel) { c.Port = 1 },
		"tls":      func(c *channel.Channel) { c.TLS = "x" },
		"username": func(c *channel.Channel) { c.Username = "x" },
		"account":  func(c *channel.Channel) { c.Account = "x" },
		"subject":  func(c *channel.Channel) { c.Subject = "x" },
	}
	refused := 0
	for name, set := range all {
		with := sender.WithDefaults(c)
		set(&with)
		err := sender.Validate(with, egress.Policy{})
		if err == nil || !strings.Contains(err.Error(), "has no such setting") {
			continue
		}
		refused++
		if !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("with %s: %v", name, err)
		}
	}
	if given := len(sender.WithDefaults(c).Given()); refused == 0 || refused > len(all)-given {
		t.Errorf("%d of %d settings are refused, and it uses %d", refused, len(all), given)
	}
}

// at is the channel with its address on this machine.
func at(c channel.Channel, l net.Listener) channel.Channel {
	c = sender.WithDefaults(c)
	switch {
	case c.Host != "":
		c.Host, c.Port = "127.0.0.1", l.Addr().(*net.TCPAddr).Port
	case c.URL != "":
		c.URL = "http://" + l.Addr().String()
	default:
		c.Secret = channel.Secret("http://" + l.Addr().String() + "/verysecret")
	}
	return c
}

func notCalled(t *testing.T, c channel.Channel) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s := sender.New(sender.Options{Timeout: 5 * time.Second})
	defer s.Close()
	r := s.Send(t.Context(), at(c, l), message)
	if r.Outcome != outcome.AddressBlocked || r.Class != outcome.ClassTerminal {
		t.Errorf("%+v", r)
	}
}

func timesOut(t *testing.T, c channel.Channel) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, as the kernel does, and says nothing
	must(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c = at(c, l)
	r := newSender(t, nil).Send(ctx, c, message)
	if r.Outcome != outcome.Timeout || r.Class != outcome.ClassRetryable || c.Secret != "" &&
		strings.Contains(r.Error, string(c.Secret)) {
		t.Errorf("%+v", r)
	}
}
