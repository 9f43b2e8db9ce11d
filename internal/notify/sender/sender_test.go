package sender_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-dev/waybill/internal/domain/outcome"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/sender"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/pkg/envelope"
	"github.com/waybill-dev/waybill/test/testkit"
)

const hookSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func loopback(t testing.TB) egress.Policy {
	p, err := egress.ParseAllow([]string{"127.0.0.0/8", "::1"})
	must(t, err)
	return p
}

func newSender(t testing.TB, alter func(*sender.Options)) *sender.Sender {
	o := sender.Options{Egress: loopback(t), Timeout: 5 * time.Second}
	if alter != nil {
		alter(&o)
	}
	s := sender.New(o)
	t.Cleanup(s.Close)
	return s
}

var message = channel.Message{ID: "inc_1-3", Key: "inc_1", Action: channel.Trigger,
	Title:  "lab_result.critical was not delivered to ep_1",
	Text:   "Event evt_1 was owed to ep_1 <b> & was not delivered.\nWho takes this: waybill escalation ack inc_1 --by YOU",
	Link:   "https://waybill.example/inc_1",
	Source: "up_1", At: time.Date(2026, 11, 2, 3, 14, 0, 0, time.UTC), Try: 2, Data: map[string]any{"count": 1}}

// exchange is what an HTTP server got.
type exchange struct {
	method, path string
	header       http.Header
	body         []byte
}

func httpServer(t testing.TB, status int, answer string) (*httptest.Server, func() []exchange) {
	var mu sync.Mutex
	var got []exchange
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		got = append(got, exchange{r.Method, r.URL.Path, r.Header, body})
		mu.Unlock()
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	return s, func() []exchange {
		mu.Lock()
		defer mu.Unlock()
		return append([]exchange(nil), got...)
	}
}

func told(t *testing.T, r channel.Result) {
	t.Helper()
	if !r.Told() || r.Outcome != "delivered" || r.Error != "" || r.StartedAt.IsZero() || r.Duration <= 0 {
		t.Errorf("result %+v", r)
	}
}

func TestAWebhookVerifiesAsEveryDeliveryDoes(t *testing.T) {
	s, got := httpServer(t, 200, "")
	c := channel.Channel{Name: "hook", Kind: channel.Webhook, URL: s.URL + "/oncall", Secret: hookSecret}
	told(t, newSender(t, nil).Send(t.Context(), c, message))
	e := got()[0]
	v, err := envelope.NewVerifier(hookSecret)
	must(t, err)
	if err := v.Verify(e.header, e.body); err != nil || e.header.Get("webhook-id") != message.ID {
		t.Errorf("verify: %v, headers %v", err, e.header)
	}
	var body struct {
		ID, Type        string
		DeliveryAttempt int
		Data            map[string]any
	}
	must(t, json.Unmarshal(e.body, &body))
	if body.ID != message.ID || body.Type != "waybill.escalation.triggered" || body.DeliveryAttempt != 2 ||
		body.Data["count"] != 1.0 {
		t.Errorf("body %s", e.body)
	}
}

func TestAPagerIsTriggeredAndResolvedUnderTheIncidentsKey(t *testing.T) {
	s, got := httpServer(t, 202, `{"status":"success"}`)
	c := channel.Channel{Name: "pager", Kind: channel.PagerDuty, URL: s.URL, Secret: "0123456789abcdef0123456789abcdef"}
	send := newSender(t, nil)
	told(t, send.Send(t.Context(), c, message))
	resolve := message
	resolve.Action = channel.Resolve
	told(t, send.Send(t.Context(), c, resolve))
	type event struct {
		RoutingKey string `json:"routing_key"`
		Action     string `json:"event_action"`
		DedupKey   string `json:"dedup_key"`
		Payload    *struct{ Summary, Source, Severity, Timestamp string }
		Links      []struct{ Href string }
	}
	var first, second event
	must(t, json.Unmarshal(got()[0].body, &first))
	must(t, json.Unmarshal(got()[1].body, &second))
	if got()[0].path != "/v2/enqueue" || first.RoutingKey != string(c.Secret) || first.Action != "trigger" ||
		first.DedupKey != "inc_1" ||
		first.Payload.Summary != message.Title || first.Payload.Severity != "critical" || first.Payload.Source != "up_1" ||
		first.Links[0].Href != message.Link {
		t.Errorf("trigger: %s", got()[0].body)
	}
	if second.Action != "resolve" || second.DedupKey != "inc_1" || second.Payload != nil {
		t.Errorf("resolve: %s", got()[1].body)
	}
}

func TestAChatCannotBeMadeToMentionOrLink(t *testing.T) {
	s, got := httpServer(t, 200, "ok")
	c := channel.Channel{Name: "chat", Kind: channel.Slack, Secret: channel.Secret(s.URL + "/services/T0/B0/secretpath")}
	told(t, newSender(t, nil).Send(t.Context(), c, message))
	var body struct{ Text string }
	must(t, json.Unmarshal(got()[0].body, &body))
	if !strings.Contains(body.Text, "&lt;b&gt; &amp; was") || !strings.Contains(body.Text, message.Title) {
		t.Errorf("text %q", body.Text)
	}
}

func TestATextMessageIsShortAndAuthenticated(t *testing.T) {
	s, got := httpServer(t, 201, `{"sid":"SM1"}`)
	c := channel.Channel{Name: "sms", Kind: channel.SMS, URL: s.URL, Account: "AC123", Secret: "token",
		From: "+15005550006", To: []string{"+15005550009"}}
	long := message
	long.Text = strings.Repeat("ü", 2000)
	told(t, newSender(t, nil).Send(t.Context(), c, long))
	e := got()[0]
	form, err := url.ParseQuery(string(e.body))
	must(t, err)
	r := http.Request{Header: e.header}
	if user, password, _ := r.BasicAuth(); e.path != "/2010-04-01/Accounts/AC123/Messages.json" || user != "AC123" ||
		password != "token" {
		t.Errorf("path %s, user %s", e.path, user)
	}
	if form.Get("To") != "+15005550009" || form.Get("From") != "+15005550006" || len(form.Get("Body")) > 490 ||
		!strings.HasPrefix(form.Get("Body"), message.Title) {
		t.Errorf("form %v", form)
	}
	c.From = "MG0123456789abcdef0123456789abcdef"
	told(t, newSender(t, nil).Send(t.Context(), c, message))
	if form, err := url.ParseQuery(string(got()[1].body)); err != nil || form.Get("MessagingServiceSid") != c.From ||
		form.Has("From") {
		t.Errorf("form %v", form)
	}
}

func TestASubjectGetsTheMessageForPrograms(t *testing.T) {
	server := testkit.BareNATS(t)
	heard := make(chan *nats.Msg, 1)
	nc := server.Connect()
	_, err := nc.ChanSubscribe("oncall.waybill", heard)
	must(t, err)
	must(t, nc.Flush())
	s := newSender(t, func(o *sender.Options) { o.NC = server.Connect() })
	c := channel.Channel{Name: "bus", Kind: channel.NATS, Subject: "oncall.waybill"}
	told(t, s.Send(t.Context(), c, message))
	m := <-heard
	if m.Header.Get(nats.MsgIdHdr) != message.ID || !strings.Contains(string(m.Data), `"incident":"inc_1"`) {
		t.Errorf("%v %s", m.Header, m.Data)
	}
	server.Kill()
	if r := s.Send(t.Context(), c, message); r.Class != outcome.ClassRetryable {
		t.Errorf("without a server: %+v", r)
	}
}

func email(s *testkit.SMTP) channel.Channel {
	c := channel.Channel{Name: "mail", Kind: channel.Email, Host: "localhost", Port: s.Port(), TLS: channel.StartTLS,
		Username: s.User,
		Secret:   channel.Secret(s.Password), From: "waybill@example.com",
		To: []string{"oncall@example.com", "lead@example.com"}}
	if s.Implicit {
		c.TLS = channel.ImplicitTLS
	}
	return c
}

func TestMailIsSentOverVerifiedTLS(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		t.Run(map[bool]string{false: "after STARTTLS", true: "from the first byte"}[implicit], func(t *testing.T) {
			a := testkit.NewCA(t, "ours")
			s := testkit.NewSMTP(t, a.Server(time.Now().Add(time.Hour)), func(s *testkit.SMTP) { s.Implicit = implicit })
			told(t, newSender(t, func(o *sender.Options) { o.RootCAs = a.Pool() }).Send(t.Context(), email(s), message))
			m := s.Mails()[0]
			if m.Message.Header.Get("Subject") != message.Title ||
				m.Message.Header.Get("Message-Id") != "<inc_1-3@example.com>" ||
				m.Message.Header.Get("Auto-Submitted") != "auto-generated" || len(m.To) != 2 ||
				!strings.Contains(m.From, "waybill@example.com") {
				t.Errorf("%s to %v: %v", m.From, m.To, m.Message.Header)
			}
			if !strings.Contains(m.Body, "waybill escalation ack inc_1") || !strings.Contains(m.Body, message.Link) {
				t.Errorf("body %q", m.Body)
			}
			for line := range strings.Lines(s.Said()) {
				if !strings.HasPrefix(line, "(tls)") && !strings.HasPrefix(line, "EHLO") && !strings.HasPrefix(line, "STARTTLS") {
					t.Errorf("said without encryption: %q", line)
				}
			}
		})
	}
}

func TestMailThatCannotBeSentSafelyIsNotSent(t *testing.T) {
	a, other := testkit.NewCA(t, "ours"), testkit.NewCA(t, "theirs")
	for _, c := range []struct {
		name    string
		server  func(*testkit.SMTP)
		by      *testkit.CA
		alter   func(*channel.Channel)
		outcome outcome.Outcome
		class   outcome.Class
	}{
		{"the server has no STARTTLS", func(s *testkit.SMTP) { s.StartTLS = false }, a, nil, "tls_failed",
			outcome.ClassTerminal},
		{"its certificate is of an unknown authority", nil, other, nil, "tls_failed", outcome.ClassRetryable},
		{"it expects TLS from the first byte", nil, a, func(c *channel.Channel) { c.TLS = channel.ImplicitTLS }, "tls_failed",
			outcome.ClassRetryable},
		{"the password is wrong", nil, a, func(c *channel.Channel) { c.Secret = "hunter2hunter2" }, "rejected",
			outcome.ClassTerminal},
		{"it is busy", func(s *testkit.SMTP) { s.Reply = on("MAIL", "451 4.3.0 try later") }, a, nil, "busy",
			outcome.ClassRetryable},
		{"it refuses the receiver", func(s *testkit.SMTP) { s.Reply = on("RCPT", "550 5.1.1 no such user") }, a, nil,
			"rejected", outcome.ClassTerminal},
		{"it refuses the message", func(s *testkit.SMTP) { s.Reply = on("DATA", "554 5.6.0 no") }, a, nil, "rejected",
			outcome.ClassTerminal},
		{"nobody listens", func(s *testkit.SMTP) { s.Close() }, a, nil, "unreachable", outcome.ClassRetryable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testkit.NewSMTP(t, c.by.Server(time.Now().Add(time.Hour)), c.server)
			ch := email(s)
			if c.alter != nil {
				c.alter(&ch)
			}
			r := newSender(t, func(o *sender.Options) { o.RootCAs = a.Pool() }).Send(t.Context(), ch, message)
			if r.Outcome != c.outcome || r.Class != c.class || r.Error == "" {
				t.Errorf("result %+v, want %s, %s", r, c.outcome, c.class)
			}
			if n := len(s.Mails()); n != 0 {
				t.Errorf("%d mails were taken", n)
			}
			if strings.Contains(r.Error, string(ch.Secret)) || strings.Contains(s.Said(), string(ch.Secret)) &&
				c.name != "the password is wrong" {
				t.Errorf("the secret shows: %s", r.Error)
			}
		})
	}
}

func on(verb, answer string) func(string) string {
	return func(v string) string {
		if v == verb {
			return answer
		}
		return ""
	}
}

func TestAnAnswerBecomesAnOutcome(t *testing.T) {
	for _, c := range []struct {
		status  int
		outcome outcome.Outcome
		class   outcome.Class
	}{
		{200, "delivered", outcome.ClassDelivered}, {202, "delivered", outcome.ClassDelivered},
		{301, "rejected", outcome.ClassTerminal},
		{400, "rejected", outcome.ClassTerminal}, {401, "rejected", outcome.ClassTerminal},
		{404, "rejected", outcome.ClassTerminal}, {408, "busy", outcome.ClassRetryable},
		{429, "busy", outcome.ClassRetryable}, {500, "busy", outcome.ClassRetryable}, {503, "busy", outcome.ClassRetryable},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			s, _ := httpServer(t, c.status, "said by /services/T0/B0/secretpath of ann@example.com\nand more")
			secret := s.URL + "/services/T0/B0/secretpath"
			r := newSender(t, nil).Send(t.Context(), channel.Channel{Name: "c", Kind: channel.Slack,
				Secret: channel.Secret(secret)}, message)
			if r.Outcome != c.outcome || r.Class != c.class || r.Status != c.status {
				t.Errorf("result %+v", r)
			}
			if strings.Contains(r.Error, secret) || strings.Contains(r.Error, "ann@") || strings.Contains(r.Error, "\n") ||
				len(r.Error) > 320 {
				t.Errorf("error %q", r.Error)
			}
		})
	}
}

func TestWhatMustNotBeCalledIsNotCalled(t *testing.T) {
	s, got := httpServer(t, 200, "")
	strict := sender.New(sender.Options{Timeout: 2 * time.Second})
	defer strict.Close()
	for _, c := range []channel.Channel{
		{Name: "w", Kind: channel.Webhook, URL: s.URL, Secret: hookSecret},
		{Name: "s", Kind: channel.Slack, Secret: channel.Secret(s.URL)},
		{Name: "p", Kind: channel.PagerDuty, URL: s.URL, Secret: "0123456789abcdef0123456789abcdef"},
		{Name: "m", Kind: channel.Email, Host: "localhost", Port: 9, TLS: channel.StartTLS, From: "a@example.com",
			To: []string{"b@example.com"}},
	} {
		if r := strict.Send(t.Context(), c, message); r.Outcome != "address_blocked" || r.Class != outcome.ClassTerminal {
			t.Errorf("%s: %+v", c.Kind, r)
		}
	}
	if n := len(got()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

func TestAServerThatHangsCostsATimeoutAndNoMore(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := newSender(t, nil).Send(ctx, channel.Channel{Name: "w", Kind: channel.Webhook, URL: s.URL, Secret: hookSecret},
		message)
	if r.Outcome != "timeout" || r.Class != outcome.ClassRetryable || r.Duration > 3*time.Second {
		t.Errorf("result %+v", r)
	}
}
