package watchdog

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/pipeline/escalator"
	"github.com/waybill-dev/waybill/test/testkit"
)

// A bench has no dispatcher. What people are told then comes by mail, over real
// SMTP with TLS, and by HTTP, in time.
func TestPeopleAreMailedBeforeTheDeadlineWhileNoDispatcherRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		escalator, implicit bool
	}{
		"nor an escalator":                          {false, false},
		"nor an escalator, TLS from the first byte": {false, true},
		"and an escalator does":                     {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ca, keys, r := testkit.NewCA(t, "ours"), testkit.Keys(t), newReceiver(t)
			b.roots = ca.Pool()
			s := testkit.NewSMTP(t, ca.Server(time.Now().Add(time.Hour)), func(s *testkit.SMTP) { s.Implicit = c.implicit })
			b.channel(mailTo(s).Seal(keys))
			b.channel(r.channel().Seal(keys))
			b.policyOf("mail", "hook")
			if c.escalator {
				b.escalator(func(o *escalator.Options) { o.Keys = keys })
			}
			d := b.watchdog("first", func(o *Options) { o.Keys = keys })
			b.eventually("the watchdog leads, and knows whether an escalator runs",
				func() bool { return d.Leading() && d.alive.Load() == c.escalator })

			o := owed(1, time.Now().UTC(), 12*time.Second)
			dead := deadLetter(o, time.Now())
			b.publish(o)
			about := func(m testkit.Mail) bool { return strings.Contains(m.Body, o.EventID) } // alarms are mailed too
			m := s.WaitFor(t, patience, "a mail about "+o.EventID, about)
			r.waitAbout(t, dead.ID)
			for how, at := range map[string]time.Time{"mailed": m.At, "called": r.about(dead.ID)[0].at} {
				if !at.Before(o.DeliverBy) {
					t.Errorf("%s at %s, after the deadline %s", how, at, o.DeliverBy)
				}
				t.Logf("%s %s before the deadline", how, o.DeliverBy.Sub(at).Round(time.Millisecond))
			}
			if len(m.To) != 1 || !strings.Contains(m.To[0], "oncall@example.com") || !strings.Contains(m.Body, o.EndpointID) {
				t.Errorf("to %v: %s", m.To, m.Body)
			}
			for line := range strings.Lines(s.Said()) {
				if !strings.HasPrefix(line, "(tls)") && (c.implicit || !strings.HasPrefix(line, "EHLO") &&
					!strings.HasPrefix(line, "STARTTLS")) {
					t.Errorf("said without encryption: %q", line)
				}
			}
			said := b.ledger.WaitFor(t, 1, func(r record.Record) bool {
				return r.Kind == record.Escalation && r.Channel == "mail" && r.EventID == o.EventID
			})[0]
			if said.Outcome != "delivered" || said.Status != 250 || said.ChannelKind != string(channel.Email) ||
				(said.Actor == Actor) == c.escalator {
				t.Errorf("on record: %+v", said)
			}
			b.eventually("it is known that people were told",
				func() bool { return d.outstanding.Load().PastDeadline == 1 && d.outstanding.Load().Untold == 0 })
			n := 0
			for _, m := range s.Mails() {
				if about(m) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d mails about it", n)
			}
		})
	}
}

// A mail server that asks to try later costs neither the call beside it nor the
// deadline.
func TestAMailServerThatIsBusyCostsNobodyTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ca, r := testkit.NewCA(t, "ours"), newReceiver(t)
	b.roots = ca.Pool()
	s := testkit.NewSMTP(t, ca.Server(time.Now().Add(time.Hour)), func(s *testkit.SMTP) {
		s.Reply = func(verb string) string {
			if verb == "MAIL" {
				return "451 4.3.0 try later"
			}
			return ""
		}
	})
	b.channel(mailTo(s))
	b.channel(r.channel())
	b.policyOf("mail", "hook")
	b.eventually("the watchdog leads", b.watchdog("first").Leading)
	o := owed(1, time.Now().UTC(), 12*time.Second)
	dead := deadLetter(o, time.Now())
	b.publish(o)
	r.waitAbout(t, dead.ID)
	if at := r.about(dead.ID)[0].at; !at.Before(o.DeliverBy) {
		t.Errorf("called at %s, after the deadline %s", at, o.DeliverBy)
	}
	b.ledger.WaitFor(t, 1, func(r record.Record) bool {
		return r.Kind == record.Escalation && r.Channel == "mail" && r.Outcome == "busy" && r.Status == 451
	})
}

func mailTo(s *testkit.SMTP) channel.Channel {
	c := channel.Channel{Name: "mail", Kind: channel.Email, Host: "localhost", Port: s.Port(), TLS: channel.StartTLS,
		Username: s.User,
		Secret:   channel.Secret(s.Password), From: "waybill@example.com", To: []string{"oncall@example.com"}}
	if s.Implicit {
		c.TLS = channel.ImplicitTLS
	}
	return c
}
