package control_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/jetstream/revision"
	"github.com/waybill-dev/waybill/internal/notify/channel"
	"github.com/waybill-dev/waybill/internal/operator/control"
	"github.com/waybill-dev/waybill/internal/platform/egress"
	"github.com/waybill-dev/waybill/internal/platform/sealed"
)

// dropOldKeys leaves the newest key alone in a key file.
func dropOldKeys(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, sealed.KeyPrefix) {
			if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no key in %s", path)
}

func TestChannelsWorkAfterTheKeyIsReplacedAndTheOldOneIsGone(t *testing.T) {
	calls := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r.URL.Path }))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "secrets.key")
	before, err := sealed.CreateFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := sealed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := egress.ParseAllow([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	var o control.Options
	s := start(t, func(options *control.Options) { options.Egress, options.Keys = policy, ring; o = *options })
	s.endpoint(func(spec *control.EndpointSpec) { spec.URL = server.URL })
	s.desk("desk") // has no secret
	for _, spec := range []control.ChannelSpec{
		{Name: "chat", Kind: channel.Slack, Secret: server.URL + "/chat"},
		{Name: "hook", Kind: channel.Webhook, URL: server.URL + "/hook"},
	} {
		if _, err := s.CreateChannel(s.ctx, spec, actor); err != nil {
			t.Fatal(err)
		}
	}
	// As versions before sealing kept it.
	store, err := revision.Open(s.ctx, s.nats.JetStream(), channel.Registry())
	if err != nil {
		t.Fatal(err)
	}
	plain := channel.Channel{Name: "plain", Kind: channel.Slack, Secret: channel.Secret(server.URL + "/plain")}
	if _, err := store.Create(s.ctx, "plain", plain, revision.Change{Actor: actor, Action: "created"}); err != nil {
		t.Fatal(err)
	}

	after, _, err := sealed.AddKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if ring, err = sealed.Open(path); err != nil {
		t.Fatal(err)
	}
	o.Keys = ring
	c, err := control.New(s.ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Reseal(s.ctx, "ann", "yearly")
	if err != nil || done.KeyID != after || done.Sealed != 1 || len(done.Resealed) != 1 || done.Channels.Sealed != 3 ||
		!slices.Equal(done.Channels.Resealed, []string{"chat", "hook", "plain"}) ||
		len(done.Failed)+len(done.Channels.Failed) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if again, err := c.Reseal(s.ctx, "ann", ""); err != nil || len(again.Resealed)+len(again.Channels.Resealed) != 0 ||
		again.Channels.Sealed != 3 {
		t.Errorf("again: %+v, %v", again, err)
	}
	dropOldKeys(t, path)
	if ring, err = sealed.Open(path); err != nil || len(ring.KeyIDs()) != 1 || ring.KeyIDs()[0] == before {
		t.Fatalf("%v, %v", ring, err)
	}
	o.Keys = ring
	if c, err = control.New(s.ctx, o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"chat", "hook", "plain"} {
		if r, err := c.TestChannel(s.ctx, name, actor); err != nil || !r.Told {
			t.Errorf("%s: %+v, %v", name, r, err)
		} else if path := <-calls; path != "/"+name {
			t.Errorf("%s called %s", name, path)
		}
		ch, err := store.Get(s.ctx, name)
		if err != nil || ch.Change != "resealed" || ch.UpdatedBy != "ann" || ch.Reason != "yearly" || ch.Revision != 2 ||
			sealed.Value(ch.Secret).KeyID() != after || ch.Address() != server.URL {
			t.Errorf("%s is stored as %+v (%v)", name, ch, err)
		}
	}
}

func TestAChannelWhoseKeyIsGoneIsSaidToBeSo(t *testing.T) {
	s := start(t, nil)
	if _, err := s.CreateChannel(s.ctx, control.ChannelSpec{Name: "chat", Kind: channel.Slack,
		Secret: "https://hooks.example.com/x"}, actor); err != nil {
		t.Fatal(err)
	}
	key, err := sealed.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := sealed.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.New(s.ctx, control.Options{NC: s.nats.Connect(), Ledger: s.ledger, Keys: other})
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.Reseal(s.ctx, actor, "")
	if err != nil || done.Channels.Sealed != 0 || !strings.Contains(done.Channels.Failed["chat"], s.keys.KeyIDs()[0]) {
		t.Errorf("%+v, %v; want it to name the key %s", done, err, s.keys.KeyIDs()[0])
	}
	if r, err := s.Control.Reseal(s.ctx, actor, ""); err != nil || r.Channels.Sealed != 1 {
		t.Errorf("with its key: %+v, %v", r, err)
	}
}

func TestAPolicyIsChangedInWhatIsNamedAlone(t *testing.T) {
	s := start(t, nil)
	s.desk("desk")
	s.desk("pager")
	spec := control.EscalationPolicySpec{Name: "p", Description: "for labs", Priority: 7, Types: []string{"lab.>"},
		Steps: []control.EscalationStep{{Channels: []string{"desk"}}}}
	made, err := s.CreateEscalationPolicy(s.ctx, spec, actor)
	if err != nil {
		t.Fatal(err)
	}
	never, priority, none := control.Duration(0), 9, []string{}
	steps := []control.EscalationStep{{Channels: []string{"pager"}},
		{After: control.Duration(60e9), Channels: []string{"desk", "pager"}}}
	p, err := s.UpdateEscalationPolicy(s.ctx, "p", control.EscalationPolicyPatch{Priority: &priority, Types: &none,
		Steps: &steps, Repeat: &never}, "ann", "too slow")
	if err != nil || p.Priority != 9 || len(p.Types) != 0 || p.Repeat != 0 || len(p.Steps) != 2 ||
		p.Steps[1].Channels[1] != "pager" ||
		p.Description != "for labs" || p.Window != made.Window || p.MaxDuration != made.MaxDuration || p.Revision != 2 ||
		p.UpdatedBy != "ann" {
		t.Errorf("%+v, %v", p, err)
	}
	if shown, err := s.EscalationPolicy(s.ctx, "p"); err != nil || shown.Priority != 9 || shown.Revision != 2 {
		t.Errorf("%+v, %v", shown, err)
	}
	text, low := "x", 0
	ghost := []control.EscalationStep{{Channels: []string{"ghost"}}}
	for _, c := range []struct {
		name, policy string
		patch        control.EscalationPolicyPatch
		code         control.Code
		field        string
	}{
		{"nothing is named", "p", control.EscalationPolicyPatch{}, control.CodeInvalid, ""},
		{"a channel that is not there", "p", control.EscalationPolicyPatch{Steps: &ghost}, control.CodeInvalid, "steps"},
		{"no steps", "p", control.EscalationPolicyPatch{Steps: new([]control.EscalationStep)}, control.CodeInvalid, "steps"},
		{"a priority out of range", "p", control.EscalationPolicyPatch{Priority: &low}, control.CodeInvalid, "priority"},
		{"a window of nothing", "p", control.EscalationPolicyPatch{Window: &never}, control.CodeInvalid, "window"},
		{"no such policy", "q", control.EscalationPolicyPatch{Description: &text}, control.CodeNotFound, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.UpdateEscalationPolicy(s.ctx, c.policy, c.patch, actor, "")
			failed(t, err, c.code, c.field)
		})
	}
	if shown, err := s.EscalationPolicy(s.ctx, "p"); err != nil || shown.Revision != 2 {
		t.Errorf("a refused change counts: %+v, %v", shown, err)
	}
	_, err = s.UpdateEscalationPolicy(s.ctx, "p", control.EscalationPolicyPatch{Description: &text}, " ", "")
	failed(t, err, control.CodeInvalid, "actor")
}
