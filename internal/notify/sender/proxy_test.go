package sender_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/test/testkit"
)

func through(t *testing.T, raw string) *egress.Proxy {
	t.Helper()
	p, err := egress.ParseProxy(raw, true)
	must(t, err)
	return &p
}

func TestEveryConnectionGoesThroughTheProxy(t *testing.T) {
	ca := testkit.NewCA(t, "ours")
	web, calls := httpServer(t, http.StatusOK, "")
	starttls := testkit.NewSMTP(t, ca.Server(time.Now().Add(time.Hour)), nil)
	implicit := testkit.NewSMTP(t, ca.Server(time.Now().Add(time.Hour)), func(s *testkit.SMTP) { s.Implicit = true })
	onPort := func(format string, port int) string { return fmt.Sprintf(format, port) }
	for name, c := range map[string]struct {
		to    channel.Channel
		names bool
		asked string
	}{
		"a webhook": {channel.Channel{Kind: channel.Webhook, URL: web.URL, Secret: hookSecret}, false,
			strings.TrimPrefix(web.URL, "http://")},
		"a chat": {channel.Channel{Kind: channel.Slack, Secret: channel.Secret(web.URL + "/x")}, false,
			strings.TrimPrefix(web.URL, "http://")},
		"mail, STARTTLS":                {email(starttls), false, onPort("127.0.0.1:%d", starttls.Port())},
		"mail, TLS from the first byte": {email(implicit), false, onPort("127.0.0.1:%d", implicit.Port())},
		"mail, by name":                 {email(starttls), true, onPort("localhost:%d", starttls.Port())},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.NewProxy(t)
			s := newSender(t, func(o *sender.Options) {
				o.RootCAs, o.ProxyNames = ca.Pool(), c.names
				o.Proxy = through(t, strings.Replace(p.URL, "http://", "http://ann:secret@", 1))
			})
			told(t, s.Send(t.Context(), c.to, message))
			// localhost may have an address that nobody listens at: it is asked for before.
			asked := p.Asked()
			if want := "CONNECT " + c.asked + " Basic YW5uOnNlY3JldA=="; !slices.Contains(asked, want) || len(asked) > 2 {
				t.Errorf("the proxy was asked %q, want %q", asked, want)
			}
		})
	}
	if len(calls()) != 2 || len(starttls.Mails()) != 2 || len(implicit.Mails()) != 1 {
		t.Errorf("%d calls, %d and %d mails", len(calls()), len(starttls.Mails()), len(implicit.Mails()))
	}
}

func TestAProxyThatFailsIsTriedAgainAndSaysSo(t *testing.T) {
	web, calls := httpServer(t, http.StatusOK, "")
	hook := channel.Channel{Kind: channel.Webhook, URL: web.URL, Secret: hookSecret}
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refuses.Close()
	silent := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-silent }))
	defer func() { close(silent); hangs.Close() }()
	// Whether the dial or the try ends first is the machine's.
	const either = ""
	mail := channel.Channel{Kind: channel.Email, Host: "127.0.0.1", Port: 25, TLS: channel.StartTLS, From: "a@example.com",
		To: []string{"b@example.com"}}
	for _, c := range []struct {
		name, proxy string
		to          channel.Channel
		outcome     outcome.Outcome
		class       outcome.Class
		text        string
	}{
		{"it refuses a call", refuses.URL, hook, "unreachable", outcome.ClassRetryable,
			"the egress proxy answered 403 to CONNECT"},
		{"it refuses mail", refuses.URL, mail, "unreachable", outcome.ClassRetryable,
			"the egress proxy answered 403 to CONNECT"},
		{"it is not there", "http://127.0.0.1:1", hook, "unreachable", outcome.ClassRetryable,
			"the egress proxy refused the connection"},
		{"it says nothing", hangs.URL, hook, either, outcome.ClassRetryable, "in time"},
		{"it says nothing to mail", hangs.URL, mail, either, outcome.ClassRetryable, "in time"},
		{"it may not be called", "http://10.0.0.1:3128", hook, "unreachable", outcome.ClassRetryable, "10.0.0.1"},
		{"the target may not be called", refuses.URL, channel.Channel{Kind: channel.Webhook, URL: "http://10.0.0.1/",
			Secret: hookSecret}, "address_blocked", outcome.ClassTerminal, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSender(t, func(o *sender.Options) { o.Proxy, o.Timeout = through(t, c.proxy), time.Second })
			r := s.Send(t.Context(), c.to, message)
			if c.outcome != either && r.Outcome != c.outcome || r.Class != c.class || !strings.Contains(r.Error, c.text) {
				t.Errorf("%+v; want %s, %s, %q", r, c.outcome, c.class, c.text)
			}
		})
	}
	if n := len(calls()); n != 0 {
		t.Errorf("%d calls went past the proxy", n)
	}
}
