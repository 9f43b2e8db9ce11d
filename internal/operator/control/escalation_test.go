package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/domain/record"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/notify/escalation"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/streams"
)

// desk makes a channel that needs no server but NATS.
func (s *system) desk(name string) {
	s.t.Helper()
	if _, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: name, Kind: channel.NATS, Subject: "desk." + name},
		actor); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) policy(name string, channels ...string) error {
	_, err := s.CreateEscalationPolicy(s.ctx, control.EscalationPolicySpec{Name: name,
		Steps: []control.EscalationStep{{Channels: channels}}}, actor)
	return err
}

// onLedger returns the records of a kind.
func (s *system) onLedger(kind record.Kind) []record.Record {
	s.t.Helper()
	st, err := s.nats.JetStream().Stream(s.ctx, streams.Ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []record.Record
	for seq := uint64(1); seq <= st.CachedInfo().State.LastSeq; seq++ {
		m, err := st.GetMsg(s.ctx, seq)
		if err != nil {
			s.t.Fatal(err)
		}
		r, err := record.Decode(m.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		if r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// incident stores one as the escalator does.
func (s *system) incident(t escalation.Problem, alter func(*escalation.Incident)) *escalation.Incident {
	s.t.Helper()
	kv, err := s.nats.JetStream().KeyValue(s.ctx, streams.IncidentsBucket)
	if err != nil {
		s.t.Fatal(err)
	}
	i := escalation.Begin(t, escalation.Default(), 1, s.now)
	if alter != nil {
		alter(i)
	}
	body, err := i.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	member, err := json.Marshal(escalation.Member{Problem: t, Incident: i.ID})
	if err != nil {
		s.t.Fatal(err)
	}
	for key, value := range map[string][]byte{streams.IncidentKey(i.ID): body, streams.TroubleKey(t.ID): member} {
		if _, err := kv.Put(s.ctx, key, value); err != nil {
			s.t.Fatal(err)
		}
	}
	return i
}

const anEndpoint = "ep_01JQ8Z6T5V3N9W2X4Y7R8S1M6K"

func deadLetter(event string) (escalation.Problem, control.DeadLetter) {
	at := time.Date(2026, 8, 19, 13, 50, 0, 0, time.UTC)
	t := escalation.Problem{ID: record.EndID(record.DeliveryDeadLetter, event, anEndpoint, ""),
		Kind: record.DeliveryDeadLetter, Tenant: "default",
		EventID: event, EndpointID: anEndpoint, Reason: "attempts_exhausted", At: at, DeliverBy: at.Add(5 * time.Minute)}
	return t, control.DeadLetter{Tenant: "default", EventID: event, EndpointID: anEndpoint, Reason: t.Reason,
		DeadLetteredAt: at, DeliverBy: t.DeliverBy, Resolution: "open"}
}

func TestASecretOfAChannelGoesInAndNeverComesOut(t *testing.T) {
	s := start(t, nil)
	const secret = "https://hooks.slack.com/services/T0/B0/verysecret"
	made, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: "chat", Kind: channel.Slack, Secret: secret}, actor)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Channels(s.ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	one, err := s.Channel(s.ctx, "chat")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{made, list, one} {
		b, err := json.Marshal(v)
		if err != nil || strings.Contains(string(b), "verysecret") || strings.Contains(fmt.Sprintf("%+v", v), "verysecret") {
			t.Errorf("shown: %s (%v)", b, err)
		}
	}
	if !one.HasSecret || one.Address != "https://hooks.slack.com" || made.NewSecret != "" {
		t.Errorf("shown as %+v", one)
	}
	hook, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: "hook", Kind: channel.Webhook,
		URL: "https://example.com/x"}, actor)
	if err != nil || !strings.HasPrefix(hook.NewSecret, "whsec_") {
		t.Errorf("a webhook without a secret: %+v, %v", hook, err)
	}
}

func TestChannelsAndPoliciesAreRefusedWithTheFieldToCorrect(t *testing.T) {
	s := start(t, nil)
	s.desk("desk")
	policy := func(alter func(*control.EscalationPolicySpec)) error {
		spec := control.EscalationPolicySpec{Name: "p", Steps: []control.EscalationStep{{Channels: []string{"desk"}}}}
		alter(&spec)
		_, err := s.CreateEscalationPolicy(s.ctx, spec, actor)
		return err
	}
	create := func(spec control.ChannelSpec) error {
		_, err := s.CreateChannel(s.ctx, spec, actor)
		return err
	}
	long := "x"
	update := func(name string, p control.ChannelPatch) error {
		_, err := s.UpdateChannel(s.ctx, name, p, actor, "")
		return err
	}
	remove := func(name string) error { _, err := s.DeleteChannel(s.ctx, name, actor, ""); return err }
	for name, c := range map[string]struct {
		code  control.Code
		field string
		err   error
	}{
		"a kind that does not exist": {control.CodeInvalid, "kind",
			create(control.ChannelSpec{Name: "c", Kind: "fax"})},
		"a loopback webhook": {control.CodeInvalid, "url",
			create(control.ChannelSpec{Name: "c", Kind: channel.Webhook, URL: "http://127.0.0.1/"})},
		"a subject of ours": {control.CodeInvalid, "subject",
			create(control.ChannelSpec{Name: "c", Kind: channel.NATS, Subject: "events.x.y"})},
		"a name that is taken": {control.CodeConflict, "",
			create(control.ChannelSpec{Name: "desk", Kind: channel.NATS, Subject: "a.b"})},
		"an empty change": {control.CodeInvalid, "", update("desk", control.ChannelPatch{})},
		"a change to what cannot work": {control.CodeInvalid, "secret",
			update("desk", control.ChannelPatch{Secret: &long})},
		"a change of what does not exist": {control.CodeNotFound, "",
			update("nope", control.ChannelPatch{Description: &long})},
		"deleting what does not exist": {control.CodeNotFound, "", remove("nope")},
		"a policy with an unknown channel": {control.CodeInvalid, "steps",
			policy(func(p *control.EscalationPolicySpec) { p.Steps[0].Channels = []string{"nope"} })},
		"a policy without steps": {control.CodeInvalid, "steps",
			policy(func(p *control.EscalationPolicySpec) { p.Steps = nil })},
		"a policy whose first step is late": {control.CodeInvalid, "steps",
			policy(func(p *control.EscalationPolicySpec) { p.Steps[0].After = control.Duration(time.Minute) })},
		"a policy with a wrong pattern": {control.CodeInvalid, "types",
			policy(func(p *control.EscalationPolicySpec) { p.Types = []string{"a..b"} })},
		"a policy with a long window": {control.CodeInvalid, "window",
			policy(func(p *control.EscalationPolicySpec) { p.Window = control.Duration(time.Hour) })},
	} {
		t.Run(name, func(t *testing.T) { failed(t, c.err, c.code, c.field) })
	}
	if err := s.policy("oncall", "desk"); err != nil {
		t.Fatal(err)
	}
	failed(t, remove("desk"), control.CodeConflict, "")
	if _, err := s.DeleteEscalationPolicy(s.ctx, "oncall", actor, ""); err != nil {
		t.Fatal(err)
	}
	if err := remove("desk"); err != nil {
		t.Errorf("a channel that no policy names any more: %v", err)
	}
	s.desk("desk")
	if again, err := s.Channel(s.ctx, "desk"); err != nil || again.Revision != 3 {
		t.Errorf("made again under its old name: %+v, %v", again, err)
	}
}

func TestItIsSaidForWhomNobodyIsTold(t *testing.T) {
	all := control.EscalationPolicy{Name: "all"}
	some := control.EscalationPolicy{Name: "some", Tenants: []string{"a"}}
	for _, c := range []struct {
		policies []control.EscalationPolicy
		covered  bool
	}{{nil, false}, {[]control.EscalationPolicy{some}, false}, {[]control.EscalationPolicy{some, all}, true},
		{[]control.EscalationPolicy{{Types: []string{">"}}}, true}} {
		if got := control.Uncovered(c.policies); (got == "") != c.covered {
			t.Errorf("%+v: %q", c.policies, got)
		}
	}
}

func TestATestOfAChannelArrivesAndIsOnRecord(t *testing.T) {
	got := make(chan string, 4)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.URL.Path }))
	defer server.Close()
	policy, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *control.Options) { o.Egress = policy })
	for name, key := range map[string]string{"good": server.URL, "bad": "http://127.0.0.1:1"} {
		if _, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: name, Kind: channel.Slack, Secret: key + "/x"},
			actor); err != nil {
			t.Fatal(err)
		}
		r, err := s.TestChannel(s.ctx, name, actor)
		if err != nil || r.Told != (name == "good") || r.Told == (r.Error != "") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if path := <-got; path != "/x" {
		t.Errorf("called %s", path)
	}
	if recs := s.onLedger(record.OperatorAction); len(recs) != 2 || recs[0].Action != "channel.tested" ||
		recs[0].Actor != actor {
		t.Errorf("on record: %+v", recs)
	}
}

func TestAnIncidentIsTakenOnceByANamedPerson(t *testing.T) {
	s := start(t, nil)
	trouble, _ := deadLetter("evt-1")
	i := s.incident(trouble, nil)
	_, err := s.AcknowledgeEscalation(s.ctx, i.ID, " ", "")
	failed(t, err, control.CodeInvalid, "by")
	_, err = s.AcknowledgeEscalation(s.ctx, "inc_none", "ann", "")
	failed(t, err, control.CodeNotFound, "")
	_, err = s.AcknowledgeEscalation(s.ctx, "delivery.dead_lettered/none/ep", "ann", "")
	failed(t, err, control.CodeNotFound, "")
	e, err := s.AcknowledgeEscalation(s.ctx, trouble.ID, "ann", "on it") // by the record's id
	if err != nil || e.ID != i.ID || e.State != escalation.Acknowledged || e.AckedBy != "ann" || e.AckNote != "on it" {
		t.Fatalf("%+v, %v", e, err)
	}
	_, err = s.AcknowledgeEscalation(s.ctx, i.ID, "bob", "")
	if f := failed(t, err, control.CodeConflict, ""); !strings.Contains(f.Error(), "ann") {
		t.Errorf("it does not say who has it: %v", f)
	}
	list, err := s.Escalations(s.ctx, control.EscalationFilter{State: escalation.Acknowledged, Tenant: "default"})
	if err != nil || len(list) != 1 || list[0].ID != i.ID {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = s.Escalations(s.ctx, control.EscalationFilter{State: "closed"})
	failed(t, err, control.CodeInvalid, "state")
}

func TestADeadLetterHasAnOwnerAndAClock(t *testing.T) {
	s := start(t, nil)
	trouble, dead := deadLetter("evt-1")
	shared, other := deadLetter("evt-2")
	s.ledger.deadLetters = []control.DeadLetter{dead, other}
	alone := s.incident(trouble, nil)
	crowd := s.incident(shared, func(i *escalation.Incident) { i.Count = 2 })
	d, err := s.DeadLetter(s.ctx, "evt-1", "")
	if err != nil || d.OpenFor.String() != "10m" || d.LateBy.String() != "5m" {
		t.Errorf("at 14:00, of 13:50, due 13:55: %+v, %v", d, err)
	}
	if d, err = s.AcknowledgeDeadLetter(s.ctx, "evt-1", anEndpoint, "ann", "calling"); err != nil || d.Owner != "ann" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := s.AcknowledgeDeadLetter(s.ctx, "evt-2", "", "ann", ""); err != nil {
		t.Error(err)
	}
	for i, want := range map[*escalation.Incident]escalation.State{alone: escalation.Acknowledged,
		crowd: escalation.Open} {
		if e, err := s.Escalation(s.ctx, i.ID); err != nil || e.State != want {
			t.Errorf("an incident of %d is %s (%v), want %s", i.Count, e.State, err, want)
		}
	}
	if recs := s.onLedger(record.EscalationAcked); len(recs) != 2 || recs[0].EventID != "evt-1" ||
		recs[0].EndpointID != anEndpoint || recs[0].Actor != "ann" || recs[0].Detail != "calling" {
		t.Errorf("on record: %+v", recs)
	}
	_, err = s.ResolveDeadLetter(s.ctx, "evt-1", anEndpoint, "ann", "")
	failed(t, err, control.CodeInvalid, "reason")
	if d, err = s.ResolveDeadLetter(s.ctx, "evt-1", anEndpoint, "ann", "told the ward"); err != nil ||
		d.Resolution != "resolved" || d.ResolvedBy != "ann" {
		t.Errorf("%+v, %v", d, err)
	}
	if recs := s.onLedger(record.OperatorAction); len(recs) != 1 || recs[0].Action != "deadletter.resolved" ||
		recs[0].EventID != "evt-1" || recs[0].Reason != "told the ward" {
		t.Errorf("on record: %+v", recs)
	}
	s.ledger.deadLetters[0].Resolution = "resolved"
	_, err = s.ResolveDeadLetter(s.ctx, "evt-1", anEndpoint, "bob", "again")
	failed(t, err, control.CodeConflict, "")
	_, err = s.AcknowledgeDeadLetter(s.ctx, "evt-9", "", "ann", "")
	failed(t, err, control.CodeNotFound, "")
	_, err = s.AcknowledgeDeadLetter(s.ctx, "evt-1", "", "", "")
	failed(t, err, control.CodeInvalid, "by")
}

func TestASecretIsNotSentToAnAddressOfSomebodyElse(t *testing.T) {
	s := start(t, nil)
	key := "0123456789abcdef0123456789abcdef"
	if _, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: "pager", Kind: channel.PagerDuty, Secret: key},
		actor); err != nil {
		t.Fatal(err)
	}
	to, text := "https://evil.example", "for people"
	_, err := s.UpdateChannel(s.ctx, "pager", control.ChannelPatch{URL: &to}, actor, "")
	failed(t, err, control.CodeInvalid, "secret")
	if _, err := s.UpdateChannel(s.ctx, "pager", control.ChannelPatch{Description: &text}, actor, ""); err != nil {
		t.Errorf("another setting: %v", err)
	}
	if c, err := s.UpdateChannel(s.ctx, "pager", control.ChannelPatch{URL: &to, Secret: &key}, actor, ""); err != nil ||
		c.Address != to {
		t.Errorf("with its secret: %+v, %v", c, err)
	}
	kv, err := s.nats.JetStream().KeyValue(s.ctx, streams.ChannelsBucket)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(s.ctx, "pager"); err != nil || strings.Contains(string(e.Value()), key) ||
		!strings.Contains(string(e.Value()), "sealed:v1:") {
		t.Errorf("stored as %s (%v)", e.Value(), err)
	}
	locked := start(t, func(o *control.Options) { o.Keys = nil })
	_, err = locked.CreateChannel(locked.ctx, control.ChannelSpec{Name: "pager", Kind: channel.PagerDuty, Secret: key},
		actor)
	failed(t, err, control.CodeNoKey, "")
	locked.desk("desk") // needs none
}
